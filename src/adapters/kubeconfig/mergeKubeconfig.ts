import { isMap, isSeq, parse, parseDocument, type YAMLMap } from "yaml";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import { invalidKubeconfig } from "./document.ts";

/** A kubeconfig with the entries of another one in it. */
export interface MergedKubeconfig {
  readonly text: string;
  /** The name of the merged context and cluster; the user is `NAME-admin`. */
  readonly context: string;
}

type ListName = "clusters" | "users" | "contexts";

/**
 * Merges a kubeconfig with one cluster, user and context into a file, as kind and minikube do: other entries, comments
 * and the namespace of the context stay. A context of the same name that belongs to another cluster is not replaced:
 * the merged one gets another name, unless the name is given. The current context changes only when the context is new
 * in the file.
 */
export function mergeKubeconfig(existing: string, own: string, where: string, fixedName?: string): MergedKubeconfig {
  const { cluster, user } = only(own);
  if (existing.trim() === "") return { text: own, context: "muster" };
  const document = parseDocument(existing);
  const [error] = document.errors;
  if (error !== undefined)
    throw invalidKubeconfig(where, `is not YAML: ${error.message.split("\n", 1)[0] ?? ""}`, error);
  if (!isMap(document.contents)) throw invalidKubeconfig(where, "is not a mapping");
  const lists = document.toJS() as JsonObject;
  const context = fixedName ?? freeName(entryOf(lists), cluster);
  const isNew = entryOf(lists)("contexts", context) === undefined;
  const namespace = entryOf(lists)("contexts", context)?.["namespace"] ?? "default";
  const userName = `${context}-admin`;
  set("clusters", context, "cluster", cluster);
  set("users", userName, "user", user);
  set("contexts", context, "context", { cluster: context, user: userName, namespace });
  if (isNew || (document.get("current-context") ?? "") === "") document.set("current-context", context);
  return { text: document.toString({ lineWidth: 0 }), context };

  function set(list: ListName, name: string, word: string, fields: JsonObject): void {
    const found = document.get(list);
    if (!isSeq(found)) document.set(list, document.createNode([]));
    const entries = document.get(list);
    if (!isSeq(entries)) return;
    const entry = document.createNode({ name, [word]: fields });
    const at = entries.items.findIndex((item) => isMap(item) && (item as YAMLMap).get("name") === name);
    if (at < 0) entries.add(entry);
    else entries.items[at] = entry;
    entries.flow = false;
  }
}

type EntryOf = (list: ListName, name: string) => JsonObject | undefined;

function entryOf(document: JsonObject): EntryOf {
  return (list, name) => {
    const entries = Array.isArray(document[list]) ? document[list] : [];
    const found = entries.filter(isObject).find((entry) => entry["name"] === name);
    const fields = found?.[list.slice(0, -1)];
    return isObject(fields) ? fields : undefined;
  };
}

/** `muster`, or the first free `muster-N`. A name is used again if its cluster has the same address or the same CA. */
function freeName(find: EntryOf, own: JsonObject): string {
  for (let number = 1; ; number++) {
    const name = number === 1 ? "muster" : `muster-${number}`;
    const known = find("clusters", name);
    if (known === undefined) return name;
    const authority = "certificate-authority-data";
    if (known["server"] === own["server"] || known[authority] === own[authority]) return name;
  }
}

/** The only cluster and user of a kubeconfig that the embedded server wrote. */
function only(text: string): { cluster: JsonObject; user: JsonObject } {
  const { clusters, users } = parse(text) as {
    clusters: readonly { cluster: JsonObject }[];
    users: readonly { user: JsonObject }[];
  };
  return { cluster: clusters[0]?.cluster ?? {}, user: users[0]?.user ?? {} };
}

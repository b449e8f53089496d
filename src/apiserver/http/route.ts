/** Parses URL paths, without looking up whether the resource exists. */
export type Route =
  | ResourceRoute
  | { readonly kind: "groups"; readonly legacy: boolean }
  | { readonly kind: "group"; readonly group: string }
  | { readonly kind: "version"; readonly group: string; readonly version: string }
  | { readonly kind: "other"; readonly path: string };

export interface ResourceRoute {
  readonly kind: "resource";
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
  /** The path after the subresource (`proxy` only). */
  readonly rest: string;
  /** The deprecated `/watch/` prefix was used. */
  readonly watch: boolean;
}

export function parseRoute(path: string): Route {
  const segments = splitPath(path);
  if (segments === undefined) return { kind: "other", path };
  const root = segments[0];
  if (root === "api") {
    return segments.length === 1 ? { kind: "groups", legacy: true } : parseVersioned("", segments, 1, path);
  }
  if (root === "apis") {
    const group = segments[1];
    if (group === undefined) return { kind: "groups", legacy: false };
    return segments.length === 2 ? { kind: "group", group } : parseVersioned(group, segments, 2, path);
  }
  return { kind: "other", path };
}

/** The path after the group: `words[at]` is the version. By index, because every request is parsed here. */
function parseVersioned(group: string, words: readonly string[], at: number, path: string): Route {
  const version = words[at] ?? "";
  if (words.length === at + 1) return { kind: "version", group, version };
  const watch = words[at + 1] === "watch";
  const start = watch ? at + 2 : at + 1;
  const first = words[start];
  if (first === undefined) return { kind: "other", path };
  const count = words.length - start;
  const inNamespace =
    first === "namespaces" && count >= 3 && !(group === "" && count === 3 && isNamespaceWord(words[start + 2] ?? ""));
  const plural = inNamespace ? start + 2 : start;
  return {
    kind: "resource",
    group,
    version,
    watch,
    plural: words[plural] ?? "",
    namespace: inNamespace ? (words[start + 1] ?? "") : "",
    name: words[plural + 1] ?? "",
    subresource: words[plural + 2] ?? "",
    rest: words.length > plural + 3 ? words.slice(plural + 3).join("/") : "",
  };
}

/** The two subresources of a namespace, which are not plurals. */
function isNamespaceWord(word: string): boolean {
  return word === "status" || word === "finalize";
}

function splitPath(path: string): string[] | undefined {
  const segments: string[] = [];
  for (const raw of path.split("/")) {
    if (raw === "") continue;
    if (!raw.includes("%")) {
      segments.push(raw);
      continue;
    }
    try {
      segments.push(decodeURIComponent(raw));
    } catch {
      return undefined;
    }
  }
  return segments;
}

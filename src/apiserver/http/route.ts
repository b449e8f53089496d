/** The grammar of paths: what a URL is about, before anybody asks whether it exists. */
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
  /** What follows the subresource (`proxy` only). */
  readonly rest: string;
  /** The deprecated `/watch/` prefix was used. */
  readonly watch: boolean;
}

/** The two words after a namespace's name that are not a plural. */
const namespaceSubresources = new Set(["status", "finalize"]);

export function parseRoute(path: string): Route {
  const segments = splitPath(path);
  if (segments === undefined) return { kind: "other", path };
  const [root, ...parts] = segments;
  if (root === "api") {
    if (parts.length === 0) return { kind: "groups", legacy: true };
    return parseVersioned("", parts, path);
  }
  if (root === "apis") {
    if (parts.length === 0) return { kind: "groups", legacy: false };
    const [group, ...rest] = parts as [string, ...string[]];
    if (rest.length === 0) return { kind: "group", group };
    return parseVersioned(group, rest, path);
  }
  return { kind: "other", path };
}

function parseVersioned(group: string, parts: readonly string[], path: string): Route {
  const [version, ...rest] = parts as [string, ...string[]];
  if (rest.length === 0) return { kind: "version", group, version };
  const watch = rest[0] === "watch";
  const words = watch ? rest.slice(1) : rest;
  const [first = "", second = "", third = "", ...more] = words;
  if (first === "") return { kind: "other", path };
  const base = { kind: "resource", group, version, watch } as const;
  if (first === "namespaces" && group === "" && (words.length <= 2 || isNamespaceItself(words))) {
    return { ...base, plural: first, namespace: "", name: second, subresource: third, rest: more.join("/") };
  }
  if (first === "namespaces" && words.length >= 3) {
    const [name = "", subresource = "", ...tail] = words.slice(3);
    return { ...base, plural: third, namespace: second, name, subresource, rest: tail.join("/") };
  }
  return { ...base, plural: first, namespace: "", name: second, subresource: third, rest: more.join("/") };
}

function isNamespaceItself(words: readonly string[]): boolean {
  return words.length === 3 && namespaceSubresources.has(words[2] as string);
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

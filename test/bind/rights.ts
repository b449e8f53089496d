/** Which rights calls need, as RBAC names them. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import type { Resource } from "../../src/model/objects/resource.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";

type CallTarget = Resource & { readonly name?: string; readonly subresource?: string };

/** The same API; every call leaves the right that it needs in `used`, as `verb resource:group`. */
export function noting(kube: KubeApi, used: Set<string>): KubeApi {
  const note = (verb: string, { group, plural, subresource }: CallTarget, below = subresource): void => {
    const resource = below === undefined ? plural : `${plural}/${below}`;
    used.add(`${verb} ${resource}:${group}`);
    // What is checked beside the status itself since 1.36.
    if (resource === "resourceclaims/status") used.add(`${verb} resourceclaims/binding:${group}`);
  };
  return new Proxy(kube, {
    get(target, property: keyof KubeApi) {
      const method = target[property] as (ref: CallTarget, ...more: unknown[]) => unknown;
      if (typeof method !== "function") return method;
      return (ref: CallTarget, ...more: unknown[]) => {
        if (property === "bind") note("create", ref, "binding");
        else if (property === "evict") note("create", ref, "eviction");
        else note(property, ref);
        return method.call(target, ref, ...more);
      };
    },
  });
}

/** Every right that a ClusterRole in a file grants. */
export function rightsIn(file: string): Set<string> {
  const role = parse(readFileSync(new URL(file, import.meta.url), "utf8")) as {
    rules: { apiGroups: string[]; resources: string[]; verbs: string[] }[];
  };
  const rights = new Set<string>();
  for (const { apiGroups, resources, verbs } of role.rules)
    for (const group of apiGroups)
      for (const resource of resources) for (const verb of verbs) rights.add(`${verb} ${resource}:${group}`);
  return rights;
}

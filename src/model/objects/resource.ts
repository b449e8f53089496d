import type { KubeObject } from "./object.ts";

/**
 * A resource in one version, `{ group: "apps", version: "v1", plural: "deployments" }`, and the type of its objects.
 * Everything that reads or writes objects takes one: what comes back from `kube.get({ ...builtin.Pod, namespace, name
 * })` is a Pod. Built-in resources are in `resources.generated.ts`; those of custom kinds are beside the types of their
 * objects.
 */
export interface Resource<T extends KubeObject = KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  /** Never set: it is there for the compiler, which reads the type of the objects from it. */
  readonly objectType?: T;
}

/** What the objects of a resource are. */
export type ObjectOf<R extends Resource> = R extends Resource<infer T> ? T : never;

export function resource<T extends KubeObject>(group: string, version: string, plural: string): Resource<T> {
  return { group, version, plural };
}

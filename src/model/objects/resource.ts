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
  /** Never set; it carries the type of the objects for the compiler. */
  readonly objectType?: T;
}

/** The type of the objects of a resource. */
export type ObjectOf<R extends Resource> = R extends Resource<infer T> ? T : never;

export function resource<T extends KubeObject>(group: string, version: string, plural: string): Resource<T> {
  return { group, version, plural };
}

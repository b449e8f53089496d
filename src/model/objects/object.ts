/** A reference from a dependent to its owner; identity is the UID. */
export type OwnerReference = {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
};

/** Managers and the fields they own; see the apply folder of the API server. */
export type ManagedFieldsEntry = {
  manager?: string;
  operation?: "Apply" | "Update";
  apiVersion?: string;
  time?: string;
  fieldsType?: "FieldsV1";
  fieldsV1?: { [path: string]: unknown };
  subresource?: string;
};

/** Metadata that every stored object has. */
export type ObjectMeta = {
  name: string;
  generateName?: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  finalizers?: string[];
  managedFields?: ManagedFieldsEntry[];
};

/** Any Kubernetes object. Kinds with a schema of their own are narrower types of this one. */
export type KubeObject = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  [field: string]: unknown;
};

/** Metadata of an object that does not exist yet: the server adds the rest. */
export type NewMeta = {
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
};

/** An object as a client sends it to be created. */
export type Unstored<T extends KubeObject = KubeObject> = {
  readonly [F in keyof T]: F extends "metadata" ? NewMeta : DeepReadonly<T[F]>;
};

/** A merge patch: named fields are replaced, lists entirely, and null removes a field. */
export type MergePatch<T extends KubeObject = KubeObject> = { readonly [F in keyof T]?: FieldPatch<T[F]> | null };

type FieldPatch<V> = V extends readonly unknown[]
  ? DeepReadonly<V>
  : V extends object
    ? { readonly [F in keyof V]?: FieldPatch<V[F]> | null }
    : V;

/** A type that is only read, including its lists, so that constants are accepted. */
export type DeepReadonly<V> = V extends readonly (infer E)[]
  ? readonly DeepReadonly<E>[]
  : V extends object
    ? { readonly [F in keyof V]: DeepReadonly<V[F]> }
    : V;

/** "apps" and "v1" to "apps/v1"; the core group has no name: "v1". */
export function apiVersionOf(group: string, version: string): string {
  return group === "" ? version : `${group}/${version}`;
}

/** The inverse of apiVersionOf. */
export function splitApiVersion(apiVersion: string): { group: string; version: string } {
  const slash = apiVersion.indexOf("/");
  return slash < 0
    ? { group: "", version: apiVersion }
    : { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1) };
}

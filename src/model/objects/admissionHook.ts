import type { FieldError } from "./fieldError.ts";
import type { KubeObject } from "./object.ts";
import type { Resource } from "./resource.ts";

/** The request to an admission hook. */
export interface AdmissionRequest<T extends KubeObject = KubeObject> {
  /** The UID of the request. An object that is being created has no UID before mutating hooks have run. */
  readonly uid: string;
  readonly operation: "CREATE" | "UPDATE" | "DELETE";
  readonly namespace: string;
  /** Empty while the name is not yet generated from `generateName`. */
  readonly name: string;
  /** Undefined on DELETE. Shared: a mutating hook returns another object. */
  readonly object: T | undefined;
  /** Undefined on CREATE. */
  readonly oldObject: T | undefined;
  readonly user: { readonly username: string; readonly groups: readonly string[] };
  readonly dryRun: boolean;
}

export type AdmissionVerdict<T extends KubeObject = KubeObject> =
  /** With an object: the write continues with that one (mutating hooks only). */
  | { readonly allowed: true; readonly object?: T; readonly warnings?: readonly string[] }
  /** Field errors make it 422 Invalid, with a cause for each; otherwise it is 403 with the message. */
  | { readonly allowed: false; readonly message: string; readonly errors?: readonly FieldError[] };

/** The objects that a hook may read: the newest in the API server's process, elsewhere a cache that may lag. */
export interface AdmissionLookup {
  get<T extends KubeObject>(resource: HookResource<T>, namespace: string, name: string): T | undefined;
  /** All of a namespace, or of all namespaces when it is empty, in order of name. */
  list<T extends KubeObject>(resource: HookResource<T>, namespace: string): readonly T[];
  /**
   * A value in the spec of a pod that has another type than in a Pod. Only the API server's process knows the types; in
   * other clusters the schema of the CustomResourceDefinition has to.
   */
  podSpecError?(podSpec: unknown, field: string): FieldError | undefined;
}

/** A resource without its API version: every version that is served matches. */
export type HookResource<T extends KubeObject = KubeObject> = Omit<Resource<T>, "version">;

export interface HookFilter {
  /** Labels that the object has, before the write or after it. */
  readonly labels?: Readonly<Record<string, string>>;
  /** A CEL expression over `object` and `oldObject`. */
  readonly expression?: string;
}

/**
 * An admission rule of a component: a webhook on a real cluster, a function call in the embedded one. Pure and
 * synchronous, so that a write does not yield to the event loop.
 */
export interface AdmissionHook<T extends KubeObject = KubeObject> {
  /** Shown in the refusal: `queues.validate.muster.dev`. */
  readonly name: string;
  readonly type: "mutating" | "validating";
  readonly resource: Resource<T>;
  /** `status`, `scale`; left out for the object itself. */
  readonly subresource?: string;
  readonly operations: readonly AdmissionRequest["operation"][];
  /** The kinds that `review` looks up: a caller outside the server keeps a cache of each. */
  readonly reads?: readonly Resource[];
  /**
   * What the API server can check without a call: a webhook that does not answer must not stop writes that do not
   * concern it. A first filter only: `review` checks again.
   */
  readonly prefilter?: HookFilter;
  review(request: AdmissionRequest<T>, lookup: AdmissionLookup): AdmissionVerdict<T>;
}

import type { JsonObject } from "../model/objects/json.ts";
import type { KubeObject, MergePatch, Unstored } from "../model/objects/object.ts";
import type { Resource } from "../model/objects/resource.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Cancel } from "./cancel.ts";

/** The verbs of a Kubernetes API that change nothing. A refusal of the API is an outcome and never an exception. */
export interface KubeReads {
  /** A consistent read: at least as new as every write that was acknowledged before. */
  get<T extends KubeObject>(ref: ObjectRef<T>, options?: CallOptions): Promise<Outcome<T>>;
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<Outcome<KubeList<T>>>;
  /** The sink receives events in order. The watch ends with `ended`, exactly once, unless it was stopped. */
  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions, sink: WatchSink<NoInfer<T>>): Watch;
}

/** A Kubernetes API: of a real cluster over HTTP, of the embedded server in this process, or of the simulator. */
export interface KubeApi extends KubeReads {
  create<T extends KubeObject>(
    resource: Resource<T>,
    object: NoInfer<Unstored<T>>,
    options?: WriteOptions,
  ): Promise<Outcome<T>>;
  /** PUT: carries the resourceVersion that is in the object. `subresource` is usually `status`. */
  update<T extends KubeObject>(ref: ObjectRef<T>, object: NoInfer<T>, options?: WriteOptions): Promise<Outcome<T>>;
  patch<T extends KubeObject>(ref: ObjectRef<T>, patch: Patch<NoInfer<T>>, options?: WriteOptions): Promise<Outcome<T>>;
  delete<T extends KubeObject>(ref: ObjectRef<T>, options?: DeleteOptions): Promise<Outcome<T | undefined>>;
  /** Binds a pod to a node in one write. */
  bind(pod: ObjectRef, binding: BindTarget, options?: WriteOptions): Promise<Outcome<undefined>>;
  /** A delete that respects disruption budgets. */
  evict(pod: ObjectRef, options?: DeleteOptions): Promise<Outcome<undefined>>;
}

export interface ObjectRef<T extends KubeObject = KubeObject> extends Resource<T> {
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly subresource?: string;
}

export interface CallOptions {
  /** Cancels the call; the outcome of a write is then unknown. */
  readonly cancel?: Cancel;
  /**
   * Called right before the request is sent, when connection and credentials are available, and again before a retry.
   * False: the request is not sent, and the outcome is `Fenced`.
   */
  readonly maySend?: () => boolean;
}

export interface ListOptions extends CallOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continueToken?: string;
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: "Exact" | "NotOlderThan";
}

export interface KubeList<T extends KubeObject = KubeObject> {
  readonly revision: string;
  readonly items: readonly T[];
  readonly continueToken?: string;
}

export interface WatchOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly resourceVersion?: string;
  readonly allowBookmarks?: boolean;
  /** Start with all existing objects, followed by a bookmark with `initialEventsEnd`. */
  readonly sendInitialEvents?: boolean;
  readonly timeoutSeconds?: number;
}

export type WatchEvent<T extends KubeObject = KubeObject> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly revision: string; readonly initialEventsEnd: boolean };

export interface WatchSink<T extends KubeObject = KubeObject> {
  event(event: WatchEvent<T>): void;
  /**
   * Undefined for a clean end (the watch timed out on the server); otherwise the refusal. After `Expired` the client
   * has to list again.
   */
  ended(why: Outcome<never> | undefined): void;
}

export interface Watch {
  /** No event and no `ended` is delivered after this returns. */
  stop(): void;
}

export interface WriteOptions extends CallOptions {
  readonly fieldManager?: string;
  readonly dryRun?: boolean;
}

export type Patch<T extends KubeObject = KubeObject> =
  | { readonly type: "merge"; readonly body: MergePatch<T> }
  | { readonly type: "strategic"; readonly body: MergePatch<T> }
  | { readonly type: "json"; readonly body: readonly JsonObject[] }
  | { readonly type: "apply"; readonly body: MergePatch<T>; readonly force?: boolean };

export interface DeleteOptions extends CallOptions {
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
  readonly dryRun?: boolean;
}

export interface BindTarget {
  readonly node: string;
  /** Both are checked by the server: a bind that was decided for another pod of this name is refused. */
  readonly uid: string;
  readonly resourceVersion?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

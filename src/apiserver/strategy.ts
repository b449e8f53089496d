import type { FieldError } from "../model/objects/fieldError.ts";
import type { KubeObject } from "../model/objects/object.ts";

/** The user of a request. */
export interface UserInfo {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** What a strategy may look at besides the object: one moment of the store, the caller, the time. */
export interface WriteContext {
  readonly nowMs: number;
  readonly user: UserInfo;
  /** Empty for the main endpoint, else `status`, `scale`, `resize`... */
  readonly subresource: string;
  readonly dryRun: boolean;
  /** Reads an object of any kind from the same moment; `resource` is `group/plural`, `/pods` for the core group. */
  get(resource: string, namespace: string, name: string): KubeObject | undefined;
  list(resource: string, namespace: string): Iterable<KubeObject>;
  /** Adds a `Warning` header to the answer. */
  warn(text: string): void;
  /** A random whole number below the bound, for address allocation and the like. */
  randomBelow(bound: number): number;
}

/**
 * What is special about a kind. Everything general (metadata, revisions, generation, status separation, deletion,
 * patches, field ownership) is done by the verbs. Objects handed in are private copies and may be changed in place,
 * except `old`. Every function is synchronous: between reading and committing nothing else runs.
 */
export interface Strategy {
  /** How names are checked; DNS subdomain unless said otherwise. */
  readonly name?: "dnsSubdomain" | "dnsLabel" | "dns1035Label" | "pathSegment";
  /**
   * `spec`: starts at 1 and grows when the spec changes. `content`: when anything outside metadata and status changes.
   * `specAndAnnotations`: when one of these changes. `none`: the kind has no generation.
   */
  readonly generation?: "spec" | "specAndAnnotations" | "content" | "none";
  /**
   * What happens to dependents when a DELETE does not say; the garbage collector removes them unless said otherwise.
   */
  readonly orphansByDefault?: boolean;
  /** Why users should say it: a `Warning` with a DELETE that leaves it open. */
  readonly orphanWarning?: string;
  /** PUT creates what is missing. */
  readonly createOnUpdate?: boolean;
  /** PUT must carry a resourceVersion. */
  readonly requiresRevision?: boolean;
  /** Objects of this resource under the same name go with the object: the Endpoints of a Service. */
  readonly takesAlong?: string;
  /** DELETE answers with the object rather than a Status. */
  readonly returnsDeleted?: boolean;
  /** A status sent with a create is kept (nodes). */
  readonly statusOnCreate?: boolean;
  /**
   * What of the metadata stays as stored when /status is written. Built-in kinds take the metadata that is sent with a
   * status unless they say otherwise here; custom resources never do.
   */
  readonly statusKeeps?: "metadata" | "labels" | "ownerReferences";

  /** Fills defaults of the versioned type. Runs on every decoded object and patch result, so it is idempotent. */
  setDefaults?(object: KubeObject): void;
  /** Runs once on create, after defaults: server-set fields and built-in admission that changes the object. */
  prepareForCreate?(object: KubeObject, context: WriteContext): void;
  validate?(object: KubeObject, context: WriteContext): FieldError[];
  /** Runs on update of the main endpoint, after status was restored from `old`. */
  prepareForUpdate?(next: KubeObject, old: KubeObject, context: WriteContext): void;
  validateUpdate?(next: KubeObject, old: KubeObject, context: WriteContext): FieldError[];
  /** For writes to /status: spec (and metadata, see above) have been restored already. */
  validateStatusUpdate?(next: KubeObject, old: KubeObject, context: WriteContext): FieldError[];
  /**
   * Seconds of grace that a delete gets, or undefined when the kind has none. Never called for an object that is
   * terminating with grace 0.
   */
  graceSeconds?(object: KubeObject, requested: number | undefined): number | undefined;
  /** Changes the object at the moment its deletion begins (a namespace becomes Terminating). */
  beginDeletion?(object: KubeObject): void;
  /** Something besides `metadata.finalizers` still holds the object (a namespace's `spec.finalizers`). */
  holdsDeletion?(object: KubeObject): boolean;
  /** Refuses a deletion (403) by returning why. */
  refusesDeletion?(object: KubeObject): string | undefined;
  /** Values of the selectable fields of this kind, in the order of the resource's `selectableFields`. */
  selectFields?(object: KubeObject): string[];
}

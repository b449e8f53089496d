import type { FieldError } from "../model/objects/fieldError.ts";
import type { KubeObject } from "../model/objects/object.ts";

/** The user of a request. */
export interface UserInfo {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** What a strategy may read besides the object: a consistent state of the store, the caller, the time. */
export interface WriteContext {
  readonly nowMs: number;
  readonly user: UserInfo;
  /** Empty for the main endpoint, else `status`, `scale`, `resize`... */
  readonly subresource: string;
  readonly dryRun: boolean;
  /** Whether pods are admitted without a look at their service account. */
  readonly ignoresServiceAccounts?: boolean;
  /** Reads an object of any kind from the same state; `resource` is `group/plural`, `/pods` for the core group. */
  get(resource: string, namespace: string, name: string): KubeObject | undefined;
  list(resource: string, namespace: string): Iterable<KubeObject>;
  /** Adds a `Warning` header to the response. */
  warn(text: string): void;
  /** A random integer below the bound, for address allocation and the like. */
  randomBelow(bound: number): number;
}

/**
 * The rules of one kind. Everything general (metadata, revisions, generation, status separation, deletion, patches,
 * field ownership) is done by the verbs. Objects passed in are private copies and may be changed in place, except
 * `old`. Every function is synchronous: nothing runs between a read and the commit.
 */
export interface Strategy {
  /** Validation of names; DNS subdomain by default. */
  readonly name?: "dnsSubdomain" | "dnsLabel" | "dns1035Label" | "pathSegment";
  /**
   * `spec`: starts at 1 and increases when the spec changes. `content`: when anything outside metadata and status
   * changes. `specAndAnnotations`: when one of these changes. `none`: the kind has no generation.
   */
  readonly generation?: "spec" | "specAndAnnotations" | "content" | "none";
  /** Default propagation policy; by default the garbage collector deletes dependents in the background. */
  readonly orphansByDefault?: boolean;
  /** The warning for a DELETE without a propagation policy. */
  readonly orphanWarning?: string;
  /** PUT creates a missing object. */
  readonly createOnUpdate?: boolean;
  /** PUT must carry a resourceVersion. */
  readonly requiresRevision?: boolean;
  /** Objects of this resource with the same name are deleted with the object: the Endpoints of a Service. */
  readonly takesAlong?: string;
  /** DELETE returns the object rather than a Status. */
  readonly returnsDeleted?: boolean;
  /** A create keeps the status (nodes). */
  readonly statusOnCreate?: boolean;
  /**
   * The metadata that a write of /status does not change. By default built-in kinds take the metadata that is sent with
   * a status; custom resources never do.
   */
  readonly statusKeeps?: "metadata" | "labels" | "ownerReferences";

  /** Sets defaults of the versioned type. Runs on every decoded object and patch result, so it is idempotent. */
  setDefaults?(object: KubeObject): void;
  /** Runs once on create, after defaults: server-set fields and built-in mutating admission. */
  prepareForCreate?(object: KubeObject, context: WriteContext): void;
  validate?(object: KubeObject, context: WriteContext): FieldError[];
  /** Runs on update of the main endpoint, after status was restored from `old`. */
  prepareForUpdate?(next: KubeObject, old: KubeObject, context: WriteContext): void;
  validateUpdate?(next: KubeObject, old: KubeObject, context: WriteContext): FieldError[];
  /** For writes to /status: spec (and metadata, see above) have been restored already. */
  validateStatusUpdate?(next: KubeObject, old: KubeObject, context: WriteContext): FieldError[];
  /**
   * The grace period of a delete in seconds, or undefined when the kind has none. Never called for an object that is
   * terminating with grace 0.
   */
  graceSeconds?(object: KubeObject, requested: number | undefined): number | undefined;
  /** Changes the object when its deletion begins (a namespace becomes Terminating). */
  beginDeletion?(object: KubeObject): void;
  /** Whether something besides `metadata.finalizers` blocks the deletion (a namespace's `spec.finalizers`). */
  holdsDeletion?(object: KubeObject): boolean;
  /** Rejects a deletion (403) by returning a reason. */
  refusesDeletion?(object: KubeObject): string | undefined;
  /** Values of the selectable fields of this kind, in the order of the resource's `selectableFields`. */
  selectFields?(object: KubeObject): string[];
}

/**
 * The resolved type of one value in an object. Built-in kinds (from the generated bundle) and custom ones (from a
 * structural schema) share this type, so decoding, patching and server-side apply are implemented once.
 */
export type SchemaNode = StructNode | MapNode | ListNode | ScalarNode | AnyNode;

/** An object with declared fields. */
export interface StructNode {
  readonly kind: "struct";
  /** Name for error messages, as Go would print it: `PodSpec`; empty for custom resources. */
  readonly name: string;
  /** The full name of a built-in type: `io.k8s.api.core.v1.PodSpec`. */
  readonly definition?: string;
  readonly fields: ReadonlyMap<string, StructField>;
  /** Atomic in server-side apply: one manager owns the complete value. */
  readonly atomic: boolean;
  /** Unknown fields are preserved (x-kubernetes-preserve-unknown-fields). */
  readonly preserveUnknown: boolean;
  /** Strategic merge: keys not listed in `$retainKeys` are dropped. */
  readonly retainKeys?: boolean;
  /** Strategic merge: the patch replaces the value. */
  readonly replace?: boolean;
}

export interface StructField {
  readonly name: string;
  readonly schema: SchemaNode;
  readonly required: boolean;
  /**
   * How Go encodes an absent or zero value: `drop` zero values are omitted, `keep` zero values are encoded, `pointer`
   * absent and zero differ, `always` an absent struct is encoded as `{}`.
   */
  readonly zero: "drop" | "keep" | "pointer" | "always";
}

/** A map of string keys to values of one type. */
export interface MapNode {
  readonly kind: "map";
  readonly values: SchemaNode;
  readonly atomic: boolean;
}

export interface ListNode {
  readonly kind: "list";
  readonly items: SchemaNode;
  /** Server-side apply. `map` lists are keyed by `listKeys`, `set` lists by value. */
  readonly listType: "atomic" | "set" | "map";
  readonly listKeys: readonly string[];
  /** Defaults of list keys: two ports differ by protocol, and no protocol means TCP. */
  readonly keyDefaults?: Readonly<Record<string, string>>;
  /** Strategic merge: whether a patch merges into the list, and by which key (empty: a list of primitives). */
  readonly patchMerge: boolean;
  readonly patchMergeKey: string;
  /** Strategic merge: items carry `$retainKeys`. */
  readonly patchRetainKeys: boolean;
}

export interface ScalarNode {
  readonly kind: "scalar";
  readonly type:
    | "string"
    | "boolean"
    | "int32"
    | "int64"
    | "number"
    /** A string such as `500m`; numbers are accepted and become strings. */
    | "quantity"
    /** RFC 3339 in seconds. */
    | "time"
    /** RFC 3339 with six digits. */
    | "microTime"
    | "intOrString"
    /** Base64 text. */
    | "bytes";
}

/** Raw JSON of any shape. */
export interface AnyNode {
  readonly kind: "any";
  /** False where unknown content of a custom resource is tracked by key. */
  readonly atomic: boolean;
}

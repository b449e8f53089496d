/**
 * The type of one place in an object, resolved and ready to walk. Built-in kinds (from the generated bundle) and
 * custom ones (from a structural schema) share this shape, so decoding, patching and server-side apply exist once.
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
  /** One owner for the whole in server-side apply. */
  readonly atomic: boolean;
  /** Unknown fields are data, not mistakes (x-kubernetes-preserve-unknown-fields). */
  readonly preserveUnknown: boolean;
  /** Strategic merge: keys not listed in `$retainKeys` are dropped. */
  readonly retainKeys?: boolean;
  /** Strategic merge: the patch replaces the whole. */
  readonly replace?: boolean;
}

export interface StructField {
  readonly name: string;
  readonly schema: SchemaNode;
  readonly required: boolean;
  /**
   * How a typed server would write an absent or zero value back:
   * `drop` zero values vanish, `keep` zero values stay, `pointer` absent and zero differ,
   * `always` an absent struct is written as `{}`.
   */
  readonly zero: "drop" | "keep" | "pointer" | "always";
}

/** String keys to values of one type. */
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
  /** What a key is when an item leaves it out: two ports differ by protocol, and no protocol means TCP. */
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
  /** False where a custom resource's unknown content is still tracked key by key. */
  readonly atomic: boolean;
}

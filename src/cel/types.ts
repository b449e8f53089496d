/** Static types of CEL expressions, and the notation of function signatures. */
export type CelType =
  | ScalarType
  | { readonly kind: "list"; readonly elem: CelType; readonly max?: number }
  | { readonly kind: "map"; readonly key: CelType; readonly value: CelType; readonly max?: number }
  | { readonly kind: "optional"; readonly elem: CelType }
  | { readonly kind: "object"; readonly name: string; readonly fields: ReadonlyMap<string, ObjectField> }
  | { readonly kind: "opaque"; readonly name: string }
  | { readonly kind: "param"; readonly name: string };

export interface ScalarType {
  readonly kind:
    | "dyn"
    | "bool"
    | "int"
    | "uint"
    | "double"
    | "string"
    | "bytes"
    | "null"
    | "timestamp"
    | "duration"
    | "type";
  /** The maximum number of characters or bytes of a value, where known; the cost estimate uses it. */
  readonly max?: number;
}

/** A declared field; the key in the data may differ from the name in expressions, which must be an identifier. */
export interface ObjectField {
  readonly key: string;
  readonly type: CelType;
}

export const dynType: CelType = { kind: "dyn" };
export const boolType: CelType = { kind: "bool" };
export const intType: CelType = { kind: "int" };
export const uintType: CelType = { kind: "uint" };
export const doubleType: CelType = { kind: "double" };
export const stringType: CelType = { kind: "string" };
export const bytesType: CelType = { kind: "bytes" };
export const nullType: CelType = { kind: "null" };
export const timestampType: CelType = { kind: "timestamp" };
export const durationType: CelType = { kind: "duration" };
export const typeType: CelType = { kind: "type" };

export function listType(elem: CelType, max?: number): CelType {
  return max === undefined ? { kind: "list", elem } : { kind: "list", elem, max };
}

export function mapType(key: CelType, value: CelType, max?: number): CelType {
  return max === undefined ? { kind: "map", key, value } : { kind: "map", key, value, max };
}

export function optionalType(elem: CelType): CelType {
  return { kind: "optional", elem };
}

/** An object with declared fields, each known by its own name. */
export function objectType(name: string, fields: Readonly<Record<string, CelType>>): CelType {
  const entries = Object.keys(fields).map((key) => [key, { key, type: fields[key] as CelType }] as const);
  return { kind: "object", name, fields: new Map(entries) };
}

/** The type as error messages print it. */
export function typeText(type: CelType): string {
  switch (type.kind) {
    case "list":
      return `list(${typeText(type.elem)})`;
    case "map":
      return `map(${typeText(type.key)}, ${typeText(type.value)})`;
    case "optional":
      return `optional_type(${typeText(type.elem)})`;
    case "object":
    case "opaque":
    case "param":
      return type.name;
    case "timestamp":
      return "google.protobuf.Timestamp";
    case "duration":
      return "google.protobuf.Duration";
    case "null":
      return "null_type";
    default:
      return type.kind;
  }
}

/** Type parameters of one call. */
export type Bindings = Map<string, CelType>;

/** Whether a value of type `from` is assignable to `to`; binds type parameters of `to`. */
export function assignable(to: CelType, from: CelType, bindings: Bindings): boolean {
  if (to.kind === "param") {
    const bound = bindings.get(to.name);
    if (bound === undefined || bound.kind === "dyn") {
      bindings.set(to.name, bound ?? from);
      return true;
    }
    if (assignable(bound, from, bindings)) {
      // null takes the type of the other operand, so that `x == null` and `null == x` are equal.
      return true;
    }
    if (assignable(from, bound, bindings)) {
      bindings.set(to.name, from);
      return true;
    }
    return false;
  }
  if (to.kind === "dyn" || from.kind === "dyn" || from.kind === "param") return true;
  if (from.kind === "null") {
    const holdsNull = ["null", "object", "opaque", "optional", "timestamp", "duration"];
    return holdsNull.includes(to.kind);
  }
  if (to.kind !== from.kind) {
    // A declared object is assignable to a map of dynamic values, where its fields are not known.
    return to.kind === "map" && from.kind === "object" && to.value.kind === "dyn";
  }
  switch (to.kind) {
    case "list":
    case "optional":
      return assignable(to.elem, (from as typeof to).elem, bindings);
    case "map":
      return (
        assignable(to.key, (from as typeof to).key, bindings) &&
        assignable(to.value, (from as typeof to).value, bindings)
      );
    case "object":
      // Object types of different schema nodes differ, even if their fields are equal.
      return to.fields === (from as typeof to).fields;
    case "opaque":
      return to.name === (from as typeof to).name;
    default:
      return true;
  }
}

/** The type with its parameters replaced; an unbound parameter is dyn. */
export function substitute(type: CelType, bindings: Bindings): CelType {
  switch (type.kind) {
    case "param":
      return bindings.get(type.name) ?? dynType;
    case "list":
      return listType(substitute(type.elem, bindings));
    case "optional":
      return optionalType(substitute(type.elem, bindings));
    case "map":
      return mapType(substitute(type.key, bindings), substitute(type.value, bindings));
    default:
      return type;
  }
}

/** The common type of both. */
export function joinTypes(a: CelType, b: CelType): CelType {
  if (a === b) return a;
  if (a.kind === "null" && assignable(b, a, new Map())) return b;
  if (b.kind === "null" && assignable(a, b, new Map())) return a;
  if (a.kind === "dyn" || b.kind === "dyn") return dynType;
  if (a.kind === "list" && b.kind === "list") return listType(joinTypes(a.elem, b.elem), larger(a.max, b.max));
  if (a.kind === "map" && b.kind === "map") {
    return mapType(joinTypes(a.key, b.key), joinTypes(a.value, b.value), larger(a.max, b.max));
  }
  if (a.kind === "optional" && b.kind === "optional") return optionalType(joinTypes(a.elem, b.elem));
  if (!assignable(a, b, new Map())) return dynType;
  if ("max" in a || "max" in b) {
    const max = larger((a as ScalarType).max, (b as ScalarType).max);
    return max === undefined ? ({ kind: a.kind } as CelType) : ({ kind: a.kind, max } as CelType);
  }
  return a;
}

function larger(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : Math.max(a, b);
}

/** One overload of a function. */
export interface Signature {
  readonly name: string;
  /** The type before the dot; undefined for a global function. */
  readonly receiver: CelType | undefined;
  readonly params: readonly CelType[];
  /** The last parameter may repeat. */
  readonly variadic: boolean;
  readonly result: CelType;
}

const named: Record<string, CelType> = {
  dyn: dynType,
  bool: boolType,
  int: intType,
  uint: uintType,
  double: doubleType,
  string: stringType,
  bytes: bytesType,
  null: nullType,
  timestamp: timestampType,
  duration: durationType,
  type: typeType,
  Quantity: { kind: "opaque", name: "kubernetes.Quantity" },
  URL: { kind: "opaque", name: "kubernetes.URL" },
  IP: { kind: "opaque", name: "net.IP" },
  CIDR: { kind: "opaque", name: "net.CIDR" },
  Semver: { kind: "opaque", name: "kubernetes.Semver" },
  Format: { kind: "opaque", name: "kubernetes.NamedFormat" },
  PathCheck: { kind: "opaque", name: "kubernetes.authorization.PathCheck" },
  GroupCheck: { kind: "opaque", name: "kubernetes.authorization.GroupCheck" },
  ResourceCheck: { kind: "opaque", name: "kubernetes.authorization.ResourceCheck" },
  Decision: { kind: "opaque", name: "kubernetes.authorization.Decision" },
};
named["Authorizer"] = objectType("kubernetes.authorization.Authorizer", {
  requestResource: named["ResourceCheck"] as CelType,
});

export const quantityType = named["Quantity"] as CelType;
export const authorizerType = named["Authorizer"] as CelType;
export const semverType = named["Semver"] as CelType;

/** Parses `list<A>.indexOf(A): int`; a receiver is before the name in angle brackets of its own: `<string>.trim()`. */
export function parseSignature(text: string): Signature {
  const match = /^(?:<(.+)>\.)?([^(]+)\((.*)\): (.+)$/.exec(text);
  if (match === null) throw new Error(`bad signature: ${text}`);
  const [, receiver, name, params, result] = match;
  const list = splitTypes(params as string);
  const variadic = (params as string).endsWith("...");
  return {
    name: name as string,
    receiver: receiver === undefined ? undefined : parseType(receiver),
    params: list.map((word) => parseType(word.replace("...", ""))),
    variadic,
    result: parseType(result as string),
  };
}

function parseType(text: string): CelType {
  const word = text.trim();
  const plain = named[word];
  if (plain !== undefined) return plain;
  if (/^[A-Z]$/.test(word)) return { kind: "param", name: word };
  const generic = /^(list|map|optional)<(.+)>$/.exec(word);
  if (generic === null) throw new Error(`bad type: ${text}`);
  const inner = splitTypes(generic[2] as string).map(parseType);
  if (generic[1] === "list") return listType(inner[0] as CelType);
  if (generic[1] === "optional") return optionalType(inner[0] as CelType);
  return mapType(inner[0] as CelType, inner[1] as CelType);
}

function splitTypes(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "<") depth++;
    else if (text[i] === ">") depth--;
    else if (text[i] === "," && depth === 0) {
      parts.push(text.slice(start, i));
      start = i + 1;
    }
  }
  const last = text.slice(start).trim();
  if (last !== "") parts.push(last);
  return parts;
}

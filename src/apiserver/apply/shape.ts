import type { SchemaNode, StructField } from "../schema/schemaNode.ts";
import { keyedItem, setItem } from "./pathElement.ts";

/**
 * How field ownership sees a schema: which values are one leaf, which are tracked by key, and how list items are
 * identified. Created once per schema node; children are created on first use, since types may contain themselves.
 *
 * - `leaf`: scalars and everything atomic
 * - `fields`: structs, maps and objects of unknown content, tracked by key
 * - `list`: keyed lists and sets
 * - `any`: content without a schema: objects are tracked by key, the rest is a leaf
 */
export class Shape {
  readonly kind: "leaf" | "fields" | "list" | "any";
  readonly #schema: SchemaNode;
  #fields: ReadonlyMap<string, Field> | undefined;
  #below: Shape | undefined;
  /** Sorted; empty for a set. */
  readonly keys: readonly string[];
  readonly #keyDefaults: Readonly<Record<string, unknown>> | undefined;
  readonly #onlyKey: string | undefined;
  readonly #names = new Map<string, string>();

  constructor(schema: SchemaNode) {
    this.#schema = schema;
    this.kind = kindOf(schema);
    const list = schema.kind === "list" && schema.listType === "map" ? schema : undefined;
    this.keys = list === undefined ? [] : [...list.listKeys].sort();
    this.#keyDefaults = list?.keyDefaults;
    this.#onlyKey = this.keys.length === 1 ? this.keys[0] : undefined;
  }

  /** The declared field of that name, if this is a struct that declares it. */
  field(name: string): Field | undefined {
    this.#fields ??= fieldsOf(this.#schema);
    return this.#fields.get(name);
  }

  /** The type below an undeclared key; undefined where such a key is a mistake. */
  get undeclared(): Shape | undefined {
    if (this.#below !== undefined) return this.#below;
    const schema = this.#schema;
    if (schema.kind === "map") this.#below = shapeOf(schema.values);
    else if (schema.kind === "any" || (schema.kind === "struct" && schema.preserveUnknown)) this.#below = anyShape;
    return this.#below;
  }

  /** Whether this is a struct that preserves undeclared fields. */
  get keepsUnknown(): boolean {
    return this.#schema.kind === "struct" && this.#schema.preserveUnknown;
  }

  /** The type of the items of a list. */
  get items(): Shape {
    this.#below ??= this.#schema.kind === "list" ? shapeOf(this.#schema.items) : anyShape;
    return this.#below;
  }

  /** The path element of an item of this list; throws UnnamedItemError. */
  nameItem(item: unknown): string {
    if (this.keys.length === 0) return setItem(item);
    // Nearly every keyed list has one key, a string: `name`, `type`. Their values repeat from object to object.
    const only = this.#onlyKey;
    const value = only === undefined ? undefined : (item as Fields | null | undefined)?.[only];
    if (typeof value !== "string") return keyedItem(this.keys, this.#keyDefaults, item);
    const known = this.#names.get(value);
    if (known !== undefined) return known;
    const name = keyedItem(this.keys, this.#keyDefaults, item);
    if (this.#names.size >= namesMax) this.#names.clear();
    this.#names.set(value, name);
    return name;
  }

  /** Whether both items of this list have the same key; cheaper than building both path elements. */
  isSameItem(a: unknown, b: unknown): boolean {
    if (this.keys.length === 0) return a === b;
    if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
    for (const key of this.keys) {
      const left = (a as Record<string, unknown>)[key] ?? this.#keyDefaults?.[key];
      if (left !== ((b as Record<string, unknown>)[key] ?? this.#keyDefaults?.[key])) return false;
    }
    return true;
  }
}

/** A declared field of a struct. */
export class Field {
  /** `f:` and the name. */
  readonly element: string;
  /** The index of this field among its siblings in stored order. */
  readonly rank: number;
  /** Whether Go writes this field of an empty struct with a zero value: `status: {}`, `containers: null`. */
  readonly isInEmpty: boolean;
  readonly #schema: SchemaNode;
  #shape: Shape | undefined;

  constructor(field: StructField, rank: number) {
    this.element = `f:${field.name}`;
    this.rank = rank;
    this.isInEmpty = field.zero === "keep" || field.zero === "always";
    this.#schema = field.schema;
  }

  get shape(): Shape {
    this.#shape ??= shapeOf(this.#schema);
    return this.#shape;
  }
}

const namesMax = 512;

const shapes = new WeakMap<SchemaNode, Shape>();

export function shapeOf(schema: SchemaNode): Shape {
  const known = shapes.get(schema);
  if (known !== undefined) return known;
  const shape = new Shape(schema);
  shapes.set(schema, shape);
  return shape;
}

/** Content without a schema. */
export const anyShape: Shape = shapeOf({ kind: "any", atomic: false });

export type Fields = Readonly<Record<string, unknown>>;

/** How a value of this shape is tracked: as one leaf, by key, or by item. */
export function formOf(shape: Shape, value: unknown): "leaf" | "fields" | "list" {
  switch (shape.kind) {
    case "leaf":
      return "leaf";
    case "fields":
      return value === null || isFields(value) ? "fields" : "leaf";
    case "list":
      return value === null || Array.isArray(value) ? "list" : "leaf";
    case "any":
      return isFields(value) ? "fields" : "leaf";
  }
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The own value under a key. Keys come from users: `constructor` is found on every object's prototype, and `__proto__`
 * is the prototype.
 */
export function get(fields: Fields, key: string): unknown {
  const value = fields[key];
  if (value === undefined || typeof value === "function") return undefined;
  return key !== "__proto__" || Object.hasOwn(fields, key) ? value : undefined;
}

/** Sets a key that users chose. */
export function put(fields: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") fields[key] = value;
  else Object.defineProperty(fields, key, { value, writable: true, enumerable: true, configurable: true });
}

export function isEmptyFields(fields: Fields): boolean {
  for (const key in fields) if (fields[key] !== undefined) return false;
  return true;
}

function kindOf(schema: SchemaNode): Shape["kind"] {
  switch (schema.kind) {
    case "scalar":
      return "leaf";
    case "any":
      return schema.atomic ? "leaf" : "any";
    case "list":
      return schema.listType === "atomic" ? "leaf" : "list";
    case "struct":
    case "map":
      return schema.atomic ? "leaf" : "fields";
  }
}

function fieldsOf(schema: SchemaNode): ReadonlyMap<string, Field> {
  const fields = new Map<string, Field>();
  if (schema.kind !== "struct") return fields;
  const names = [...schema.fields.keys()].sort();
  names.forEach((name, rank) => {
    fields.set(name, new Field(schema.fields.get(name) as StructField, rank));
  });
  return fields;
}

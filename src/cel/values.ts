/**
 * CEL values in JavaScript. JSON is used unchanged: strings, booleans, null, arrays and plain objects need no wrapper,
 * so a stored object can be bound to a variable without a copy. Every other value is a CelObject.
 *
 * Numbers: an int is a safe integer `number`, or a `bigint` outside that range (never inside, so that `===` works).
 * A double is a `number` that is not a safe integer, or a boxed CelDouble if it happens to be one.
 */
export type CelValue = null | boolean | number | bigint | string | Uint8Array | CelValue[] | CelObject | JsonMap;
export type JsonMap = { readonly [key: string]: unknown };

/** An evaluation error. Not an Error: capturing a stack costs more than evaluating an expression. */
export class CelFailure {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

/** The cost budget is exceeded. */
export class CelCostExceeded {
  readonly cost: number;
  constructor(cost: number) {
    this.cost = cost;
  }
}

export function fail(message: string): never {
  throw new CelFailure(message);
}

export function noOverload(): never {
  throw new CelFailure("no such overload");
}

/** A value that is not JSON. */
export abstract class CelObject {
  /** Name of the type, as `type(x)` prints it. */
  abstract readonly typeName: string;
  abstract equals(other: CelObject): boolean;
}

export class CelDouble extends CelObject {
  readonly typeName = "double";
  readonly value: number;
  constructor(value: number) {
    super();
    this.value = value;
  }
  equals(other: CelObject): boolean {
    return other instanceof CelDouble && other.value === this.value;
  }
}

export class CelUint extends CelObject {
  readonly typeName = "uint";
  readonly value: bigint;
  constructor(value: bigint) {
    super();
    this.value = value;
  }
  equals(other: CelObject): boolean {
    return other instanceof CelUint && other.value === this.value;
  }
}

/** Nanoseconds since 1970. */
export class CelTimestamp extends CelObject {
  readonly typeName = "google.protobuf.Timestamp";
  readonly ns: bigint;
  constructor(ns: bigint) {
    super();
    this.ns = ns;
  }
  equals(other: CelObject): boolean {
    return other instanceof CelTimestamp && other.ns === this.ns;
  }
}

/** Nanoseconds. */
export class CelDuration extends CelObject {
  readonly typeName = "google.protobuf.Duration";
  readonly ns: bigint;
  constructor(ns: bigint) {
    super();
    this.ns = ns;
  }
  equals(other: CelObject): boolean {
    return other instanceof CelDuration && other.ns === this.ns;
  }
}

export class CelOptional extends CelObject {
  static readonly none = new CelOptional(undefined);
  readonly typeName = "optional_type";
  readonly value: CelValue | undefined;
  constructor(value: CelValue | undefined) {
    super();
    this.value = value;
  }
  equals(other: CelObject): boolean {
    if (!(other instanceof CelOptional)) return false;
    if (this.value === undefined || other.value === undefined) return this.value === other.value;
    return equalValues(this.value, other.value);
  }
}

export class CelTypeValue extends CelObject {
  readonly typeName = "type";
  readonly name: string;
  constructor(name: string) {
    super();
    this.name = name;
  }
  equals(other: CelObject): boolean {
    return other instanceof CelTypeValue && other.name === this.name;
  }
}

/** A map that is not a plain object: map literals with any keys, and maps of the host. */
export abstract class CelMapBase extends CelObject {
  readonly typeName = "map";
  abstract get(key: CelValue): CelValue | undefined;
  abstract size(): number;
  abstract keys(): CelValue[];
  has(key: CelValue): boolean {
    return this.get(key) !== undefined;
  }
  equals(other: CelObject): boolean {
    return other instanceof CelMapBase && equalMaps(this, other);
  }
}

export class CelMap extends CelMapBase {
  private readonly entries = new Map<string | number | bigint | boolean, { key: CelValue; value: CelValue }>();

  static of(pairs: Iterable<readonly [CelValue, CelValue]>): CelMap {
    const map = new CelMap();
    for (const [key, value] of pairs) map.set(key, value);
    return map;
  }
  /** False if the key exists already. */
  set(key: CelValue, value: CelValue): boolean {
    const plain = plainKey(key);
    if (plain === undefined) fail("unsupported key type");
    const isNew = !this.entries.has(plain);
    this.entries.set(plain, { key, value });
    return isNew;
  }
  get(key: CelValue): CelValue | undefined {
    const plain = plainKey(key);
    return plain === undefined ? undefined : this.entries.get(plain)?.value;
  }
  size(): number {
    return this.entries.size;
  }
  keys(): CelValue[] {
    return Array.from(this.entries.values(), (entry) => entry.key);
  }
}

/**
 * A map of maps whose missing entries read as empty, while `in` still reports them as missing, as the attribute domains
 * of devices.
 */
export class CelDefaultedMap extends CelMapBase {
  private static readonly empty: JsonMap = Object.freeze({});
  private readonly inner: ReadonlyMap<string, CelValue>;
  constructor(inner: ReadonlyMap<string, CelValue>) {
    super();
    this.inner = inner;
  }
  get(key: CelValue): CelValue | undefined {
    return this.inner.get(key as string) ?? CelDefaultedMap.empty;
  }
  override has(key: CelValue): boolean {
    return this.inner.has(key as string);
  }
  size(): number {
    return this.inner.size;
  }
  keys(): CelValue[] {
    return [...this.inner.keys()];
  }
}

/** Equal keys of different numeric types are one key. */
function plainKey(key: CelValue): string | number | bigint | boolean | undefined {
  if (typeof key === "string" || typeof key === "boolean" || typeof key === "bigint") return key;
  if (typeof key === "number") return Number.isSafeInteger(key) ? key : undefined;
  if (key instanceof CelUint) return normalInt(key.value);
  if (key instanceof CelDouble) return key.value;
  return undefined;
}

export const int64Min = -(2n ** 63n);
export const int64Max = 2n ** 63n - 1n;
export const uint64Max = 2n ** 64n - 1n;

/** The canonical representation of an int: a number where that is exact. */
export function normalInt(value: bigint): number | bigint {
  return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value;
}

/** An int from exact arithmetic; fails on overflow. */
export function checkedInt(value: bigint): number | bigint {
  if (value < int64Min || value > int64Max) fail("integer overflow");
  return normalInt(value);
}

export function checkedUint(value: bigint): CelUint {
  if (value < 0n || value > uint64Max) fail("unsigned integer overflow");
  return new CelUint(value);
}

export function makeDouble(value: number): number | CelDouble {
  return Number.isSafeInteger(value) ? new CelDouble(value) : value;
}

export function isInt(value: unknown): value is number | bigint {
  return typeof value === "number" ? Number.isSafeInteger(value) : typeof value === "bigint";
}

/** The number of a double, or undefined for any other value. */
export function doubleOf(value: CelValue): number | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) ? undefined : value;
  return value instanceof CelDouble ? value.value : undefined;
}

/** Whether the value is a map of either representation. */
export function isMap(value: unknown): value is JsonMap | CelMapBase {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return value instanceof CelObject ? value instanceof CelMapBase : !(value instanceof Uint8Array);
}

export function mapGet(map: JsonMap | CelMapBase, key: CelValue): CelValue | undefined {
  if (map instanceof CelMapBase) return map.get(key);
  return typeof key === "string" && Object.hasOwn(map, key) ? (map[key] as CelValue) : undefined;
}

export function mapHas(map: JsonMap | CelMapBase, key: CelValue): boolean {
  if (map instanceof CelMapBase) return map.has(key);
  return typeof key === "string" && Object.hasOwn(map, key);
}

export function mapKeys(map: JsonMap | CelMapBase): CelValue[] {
  return map instanceof CelMapBase ? map.keys() : Object.keys(map);
}

export function mapSize(map: JsonMap | CelMapBase): number {
  return map instanceof CelMapBase ? map.size() : Object.keys(map).length;
}

export function typeNameOf(value: CelValue): string {
  switch (typeof value) {
    case "string":
      return "string";
    case "boolean":
      return "bool";
    case "bigint":
      return "int";
    case "number":
      return Number.isSafeInteger(value) ? "int" : "double";
    default:
      if (value === null) return "null_type";
      if (Array.isArray(value)) return "list";
      if (value instanceof CelObject) return value.typeName;
      return value instanceof Uint8Array ? "bytes" : "map";
  }
}

/** CEL equality: across numeric types by value, false across other types. */
export function equalValues(a: CelValue, b: CelValue): boolean {
  if (a === b) return true;
  if (typeof a === "string" || typeof b === "string" || a === null || b === null) return false;
  if (typeof a === "boolean" || typeof b === "boolean") return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) if (!equalValues(a[i] as CelValue, b[i] as CelValue)) return false;
    return true;
  }
  const order = compareNumbers(a, b);
  if (order !== undefined) return order === 0;
  if (a instanceof Uint8Array || b instanceof Uint8Array) {
    return a instanceof Uint8Array && b instanceof Uint8Array && compareBytes(a, b) === 0;
  }
  if (isMap(a) && isMap(b)) return equalMaps(a, b);
  return a instanceof CelObject && b instanceof CelObject && a.equals(b);
}

function equalMaps(a: JsonMap | CelMapBase, b: JsonMap | CelMapBase): boolean {
  const keys = mapKeys(a);
  if (keys.length !== mapSize(b)) return false;
  for (const key of keys) {
    const right = mapGet(b, key);
    if (right === undefined || !equalValues(mapGet(a, key) as CelValue, right)) return false;
  }
  return true;
}

/** Order of two numbers of any numeric types; NaN for no order; undefined if one is not a number. */
export function compareNumbers(a: CelValue, b: CelValue): number | undefined {
  if (typeof a === "number" && typeof b === "number") return a < b ? -1 : a > b ? 1 : a === b ? 0 : Number.NaN;
  const left = numeric(a);
  const right = numeric(b);
  if (left === undefined || right === undefined) return undefined;
  // JavaScript compares a bigint and a number by mathematical value.
  return left < right ? -1 : left > right ? 1 : left <= right ? 0 : Number.NaN;
}

function numeric(value: CelValue): number | bigint | undefined {
  if (typeof value === "number" || typeof value === "bigint") return value;
  return value instanceof CelDouble || value instanceof CelUint ? value.value : undefined;
}

export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Order by code point, as UTF-8 bytes would sort; JavaScript alone sorts by UTF-16 unit. */
export function compareStrings(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    let left = a.charCodeAt(i);
    let right = b.charCodeAt(i);
    if (left === right) continue;
    // Surrogates are code points above every other code unit.
    if (left >= 0xd800 && right >= 0xd800) {
      left = left >= 0xe000 ? left - 0x800 : left + 0x2000;
      right = right >= 0xe000 ? right - 0x800 : right + 0x2000;
    }
    return left - right;
  }
  return a.length - b.length;
}

/** Number of code points. */
export function stringSize(text: string): number {
  let size = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      size--;
      i++;
    }
  }
  return size;
}

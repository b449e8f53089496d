import { add, compare, divide, isIn, modulo, multiply, negate, subtract } from "../arithmetic.ts";
import {
  type CelFunction,
  define,
  regexCost,
  sameSize,
  traversal,
  traverseFirst,
  traverseSecond,
} from "../functions.ts";
import { matchesAnywhere, patternOrFail } from "../regex.ts";
import { calendar, durationFromText, durationText, timestampFromText, timestampText } from "../time.ts";
import { decodeUtf8, encodeUtf8 } from "../utf8.ts";
import {
  CelDuration,
  CelObject,
  CelTimestamp,
  CelTypeValue,
  CelUint,
  type CelValue,
  checkedInt,
  checkedUint,
  doubleOf,
  equalValues,
  fail,
  isInt,
  isMap,
  makeDouble,
  mapSize,
  noOverload,
  normalInt,
  stringSize,
  typeNameOf,
} from "../values.ts";

const numbers = ["int", "uint", "double"];
const shorter = (a: number, b: number) => traversal(Math.min(a, b));
const both = (a: number, b: number) => traversal(a + b);

function comparison(name: string, holds: (order: number) => boolean): CelFunction {
  const signatures = ["bool", "string", "bytes", "timestamp", "duration"].map(
    (type) => `${name}(${type}, ${type}): bool`,
  );
  // Numbers of different types compare by value.
  for (const left of numbers) for (const right of numbers) signatures.push(`${name}(${left}, ${right}): bool`);
  return define(signatures, (a, b) => holds(compare(a, b)), { cost: shorter });
}

function arithmetic(name: string, types: readonly string[], run: (a: CelValue, b: CelValue) => CelValue): CelFunction {
  return define(
    types.map((type) => `${name}(${type}, ${type}): ${type}`),
    run,
  );
}

const addition = define(
  [
    ...["int", "uint", "double", "string", "bytes", "list<A>", "duration"].map(
      (type) => `_+_(${type}, ${type}): ${type}`,
    ),
    "_+_(timestamp, duration): timestamp",
    "_+_(duration, timestamp): timestamp",
  ],
  add,
  // Only strings are copied; numbers and lists cost one. The types are known when the expression is compiled.
  { cost: both, resultSize: (a, b) => a + b },
);
const subtraction = define(
  [
    ...["int", "uint", "double", "duration"].map((type) => `_-_(${type}, ${type}): ${type}`),
    "_-_(timestamp, timestamp): duration",
    "_-_(timestamp, duration): timestamp",
  ],
  subtract,
);

export function sizeOf(value: CelValue): number {
  if (typeof value === "string") return stringSize(value);
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length;
  return isMap(value) ? mapSize(value) : noOverload();
}

function text(value: CelValue): string {
  return typeof value === "string" ? value : noOverload();
}

/** The result of string(); opaque types have their own. */
export function stringOf(value: CelValue): string {
  if (typeof value === "string") return value;
  if (typeof value === "boolean" || isInt(value)) return String(value);
  const double = doubleOf(value);
  if (double !== undefined) return doubleText(double);
  if (value instanceof CelUint) return String(value.value);
  if (value instanceof Uint8Array) return decodeUtf8(value) ?? fail("invalid UTF-8 in bytes, cannot convert to string");
  if (value instanceof CelTimestamp) return timestampText(value);
  if (value instanceof CelDuration) return durationText(value);
  if (value instanceof CelTypeValue) return value.name;
  if (value instanceof CelObject && "text" in value && typeof value.text === "string") return value.text;
  return noOverload();
}

export function doubleText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  // Go writes at least two digits of exponent.
  return String(value).replace(/e([+-])(\d)$/, "e$10$2");
}

function toInt(value: CelValue): CelValue {
  if (isInt(value)) return value;
  const double = doubleOf(value);
  if (double !== undefined) {
    if (!Number.isFinite(double) || Math.abs(double) >= 2 ** 63) fail("integer overflow");
    return checkedInt(BigInt(Math.trunc(double)));
  }
  if (value instanceof CelUint) return checkedInt(value.value);
  if (value instanceof CelTimestamp) return normalInt(value.ns / 1_000_000_000n);
  if (value instanceof CelDuration) return normalInt(value.ns);
  if (typeof value !== "string") return noOverload();
  if (!/^[+-]?[0-9]{1,40}$/.test(value)) fail(`cannot convert ${JSON.stringify(value)} to int`);
  return checkedInt(BigInt(value.replace("+", "")));
}

function toUint(value: CelValue): CelValue {
  if (value instanceof CelUint) return value;
  if (isInt(value)) return checkedUint(BigInt(value));
  const double = doubleOf(value);
  if (double !== undefined) {
    if (!Number.isFinite(double) || double < 0 || double >= 2 ** 64) fail("unsigned integer overflow");
    return checkedUint(BigInt(Math.trunc(double)));
  }
  if (typeof value !== "string") return noOverload();
  if (!/^[0-9]{1,40}$/.test(value)) fail(`cannot convert ${JSON.stringify(value)} to uint`);
  return checkedUint(BigInt(value));
}

function toDouble(value: CelValue): CelValue {
  if (doubleOf(value) !== undefined) return value;
  if (isInt(value)) return makeDouble(Number(value));
  if (value instanceof CelUint) return makeDouble(Number(value.value));
  if (typeof value !== "string") return noOverload();
  const special = { NaN: Number.NaN, Inf: Infinity, "+Inf": Infinity, "-Inf": -Infinity }[value];
  if (special !== undefined) return special;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(value)) fail(`cannot convert ${JSON.stringify(value)} to double`);
  return makeDouble(Number(value));
}

const trueTexts = new Set(["1", "t", "T", "TRUE", "true", "True"]);
const falseTexts = new Set(["0", "f", "F", "FALSE", "false", "False"]);

function toBool(value: CelValue): boolean {
  if (typeof value === "boolean") return value;
  if (trueTexts.has(text(value))) return true;
  if (falseTexts.has(text(value))) return false;
  return fail(`cannot convert ${JSON.stringify(value)} to bool`);
}

/** A field of a timestamp, or of a duration where it has one. */
function timePart(name: string, ofDate: (date: Date) => number, durationUnitNs?: bigint): CelFunction {
  const signatures = [`<timestamp>.${name}(): int`, `<timestamp>.${name}(string): int`];
  if (durationUnitNs !== undefined) signatures.push(`<duration>.${name}(): int`);
  return define(signatures, (value, zone) => {
    if (value instanceof CelTimestamp) return ofDate(calendar(value, zone));
    if (!(value instanceof CelDuration) || durationUnitNs === undefined) return noOverload();
    const whole = value.ns / durationUnitNs;
    return normalInt(name === "getMilliseconds" ? whole % 1000n : whole);
  });
}

function dayOfYear(date: Date): number {
  const start = new Date(date.getTime());
  start.setUTCMonth(0, 1);
  return Math.floor((date.getTime() - start.getTime()) / 86_400_000);
}

const typeNames = new Map<string, CelTypeValue>();
export function typeOf(value: CelValue): CelTypeValue {
  const name = typeNameOf(value);
  let known = typeNames.get(name);
  if (known === undefined) {
    known = new CelTypeValue(name);
    typeNames.set(name, known);
  }
  return known;
}

function matches(value: CelValue, pattern: CelValue): boolean {
  return matchesAnywhere(patternOrFail(text(pattern)), text(value));
}

export const standardLibrary: readonly CelFunction[] = [
  define(["_==_(A, A): bool"], (a, b) => equalValues(a, b), { cost: shorter }),
  define(["_!=_(A, A): bool"], (a, b) => !equalValues(a, b), { cost: shorter }),
  comparison("_<_", (order) => order < 0),
  comparison("_<=_", (order) => order <= 0),
  comparison("_>_", (order) => order > 0),
  comparison("_>=_", (order) => order >= 0),
  addition,
  subtraction,
  arithmetic("_*_", numbers, multiply),
  arithmetic("_/_", numbers, divide),
  arithmetic("_%_", ["int", "uint"], modulo),
  define(["-_(int): int", "-_(double): double"], negate),
  define(["!_(bool): bool"], (a) => (typeof a === "boolean" ? !a : noOverload())),
  // A list is searched from the front, a map is not. The types are known when the expression is compiled.
  define(["@in(A, list<A>): bool", "@in(A, map<A, B>): bool"], (a, b) => isIn(a, b), { cost: (_, b) => b }),
  define(["size(string): int", "size(bytes): int", "size(list<A>): int", "size(map<A, B>): int"], sizeOf),
  define(["<string>.size(): int", "<bytes>.size(): int", "<list<A>>.size(): int", "<map<A, B>>.size(): int"], sizeOf),
  define(["<string>.contains(string): bool"], (a, b) => text(a).includes(text(b)), {
    cost: (a, b) => traversal(a) * traversal(b),
  }),
  define(["<string>.startsWith(string): bool"], (a, b) => text(a).startsWith(text(b)), { cost: traverseSecond }),
  define(["<string>.endsWith(string): bool"], (a, b) => text(a).endsWith(text(b)), { cost: traverseSecond }),
  define(["<string>.matches(string): bool"], matches, { cost: regexCost }),
  define(["matches(string, string): bool"], matches, { cost: regexCost }),
  define(
    ["int", "uint", "double", "string", "timestamp", "duration"].map((type) => `int(${type}): int`),
    toInt,
  ),
  define(
    ["int", "uint", "double", "string"].map((type) => `uint(${type}): uint`),
    toUint,
  ),
  define(
    ["int", "uint", "double", "string"].map((type) => `double(${type}): double`),
    toDouble,
  ),
  define(
    ["int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration", "IP", "CIDR"].map(
      (type) => `string(${type}): string`,
    ),
    // The estimate has no limit for the string, as upstream: a rule that concatenates it is rejected there too.
    (a) => stringOf(a),
  ),
  define(["bytes(string): bytes", "bytes(bytes): bytes"], (a) => (a instanceof Uint8Array ? a : encodeUtf8(text(a))), {
    cost: traverseFirst,
    resultSize: (a) => 4 * a,
  }),
  define(["bool(bool): bool", "bool(string): bool"], toBool),
  define(["timestamp(string): timestamp", "timestamp(timestamp): timestamp", "timestamp(int): timestamp"], (a) => {
    if (a instanceof CelTimestamp) return a;
    return isInt(a) ? new CelTimestamp(BigInt(a) * 1_000_000_000n) : timestampFromText(text(a));
  }),
  define(["duration(string): duration", "duration(duration): duration", "duration(int): duration"], (a) => {
    if (a instanceof CelDuration) return a;
    return isInt(a) ? new CelDuration(BigInt(a)) : durationFromText(text(a));
  }),
  define(["dyn(A): dyn"], (a) => a, { resultSize: sameSize }),
  define(["type(A): type"], typeOf),
  timePart("getFullYear", (date) => date.getUTCFullYear()),
  timePart("getMonth", (date) => date.getUTCMonth()),
  timePart("getDate", (date) => date.getUTCDate()),
  timePart("getDayOfMonth", (date) => date.getUTCDate() - 1),
  timePart("getDayOfWeek", (date) => date.getUTCDay()),
  timePart("getDayOfYear", dayOfYear),
  timePart("getHours", (date) => date.getUTCHours(), 3_600_000_000_000n),
  timePart("getMinutes", (date) => date.getUTCMinutes(), 60_000_000_000n),
  timePart("getSeconds", (date) => date.getUTCSeconds(), 1_000_000_000n),
  timePart("getMilliseconds", (date) => date.getUTCMilliseconds(), 1_000_000n),
];

/** Lists: the Kubernetes functions, the lists extension and sets. */
import { add, compare } from "../arithmetic.ts";
import { type CelFunction, define, sameSize } from "../functions.ts";
import { type CelValue, equalValues, fail, isInt, isMap, mapHas, noOverload } from "../values.ts";

function list(value: CelValue): CelValue[] {
  return Array.isArray(value) ? value : noOverload();
}

const walk = { cost: (a: number) => a, resultSize: sameSize };
const ordered = ["int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration"];
const pairs = { cost: (a: number, b: number) => a * b };

/** Duplicate strings, booleans and nulls are found by hashing; other values are compared one by one. */
function distinct(items: readonly CelValue[]): CelValue[] {
  const seen = new Set<CelValue>();
  const others: CelValue[] = [];
  const out: CelValue[] = [];
  for (const item of items) {
    if (typeof item === "string" || typeof item === "boolean" || item === null) {
      if (seen.has(item)) continue;
      seen.add(item);
    } else {
      if (others.some((other) => equalValues(other, item))) continue;
      others.push(item);
    }
    out.push(item);
  }
  return out;
}

export function sortValues(items: readonly CelValue[]): CelValue[] {
  return [...items].sort(compare);
}

function flatten(items: readonly CelValue[], depth: number): CelValue[] {
  const out: CelValue[] = [];
  for (const item of items) {
    if (Array.isArray(item) && depth > 0) out.push(...flatten(item, depth - 1));
    else out.push(item);
  }
  return out;
}

function extreme(value: CelValue, name: string, wins: (order: number) => boolean): CelValue {
  const items = list(value);
  if (items.length === 0) fail(`${name} called on empty list`);
  return items.reduce((best, item) => (wins(compare(item, best)) ? item : best));
}

function has(items: CelValue[], wanted: CelValue): boolean {
  return items.some((item) => equalValues(item, wanted));
}

export const listLibrary: readonly CelFunction[] = [
  define(
    ordered.map((type) => `<list<${type}>>.isSorted(): bool`),
    (a) => list(a).every((item, i, all) => i === 0 || compare(all[i - 1] as CelValue, item) <= 0),
    walk,
  ),
  define(
    ["int", "uint", "double", "duration"].map((type) => `<list<${type}>>.sum(): ${type}`),
    (a) => {
      const items = list(a);
      if (items.length === 0) return 0;
      return items.reduce((sum, item) => {
        if (typeof item === "string" || Array.isArray(item)) noOverload();
        return add(sum, item);
      });
    },
    walk,
  ),
  define(
    ordered.map((type) => `<list<${type}>>.min(): ${type}`),
    (a) => extreme(a, "min", (order) => order < 0),
    walk,
  ),
  define(
    ordered.map((type) => `<list<${type}>>.max(): ${type}`),
    (a) => extreme(a, "max", (order) => order > 0),
    walk,
  ),
  define(
    ["<list<A>>.slice(int, int): list<A>"],
    (a, from, to) => {
      const items = list(a);
      const start = isInt(from) ? Number(from) : noOverload();
      const end = isInt(to) ? Number(to) : noOverload();
      if (start < 0 || end < 0) fail(`cannot slice(${start}, ${end}), negative indexes not supported`);
      if (start > end) fail(`cannot slice(${start}, ${end}), start index must be less than or equal to end index`);
      if (end > items.length) fail(`cannot slice(${start}, ${end}), list is length ${items.length}`);
      return items.slice(start, end);
    },
    walk,
  ),
  define(
    ["<list<dyn>>.flatten(): list<dyn>", "<list<dyn>>.flatten(int): list<dyn>"],
    (a, depth) => {
      if (depth === undefined) return flatten(list(a), 1);
      if (!isInt(depth)) noOverload();
      if (depth < 0) fail("level must be non-negative");
      return flatten(list(a), Number(depth));
    },
    walk,
  ),
  define(["<list<A>>.distinct(): list<A>"], (a) => distinct(list(a)), { cost: (a) => a * a, resultSize: sameSize }),
  define(
    ordered.map((type) => `<list<${type}>>.sort(): list<${type}>`),
    (a) => sortValues(list(a)),
    { cost: (a) => a * Math.max(1, Math.ceil(Math.log2(a + 1))), resultSize: sameSize },
  ),
  define(["lists.range(int): list<int>"], (n) => {
    if (!isInt(n)) noOverload();
    // The cost of a range is charged to the expression that iterates over it, so its length needs a limit of its own.
    if (n > 1_000_000) fail("lists.range: the range is too long");
    return Array.from({ length: Math.max(0, Number(n)) }, (_, i) => i);
  }),
  define(["sets.contains(list<A>, list<A>): bool"], (a, b) => list(b).every((item) => has(list(a), item)), pairs),
  define(["sets.intersects(list<A>, list<A>): bool"], (a, b) => list(b).some((item) => has(list(a), item)), pairs),
  define(
    ["sets.equivalent(list<A>, list<A>): bool"],
    (a, b) => list(b).every((item) => has(list(a), item)) && list(a).every((item) => has(list(b), item)),
    { cost: (a, b) => 2 * a * b },
  ),
  // An attribute of a device is one value or a list of values.
  define(
    ["<dyn>.includes(dyn): bool"],
    (a, b) => (Array.isArray(a) ? has(a, b) : isMap(a) ? mapHas(a, b) : equalValues(a, b)),
    { cost: (a) => a },
  ),
];

/** Small random damage to JSON documents: what a careless or hostile client might send instead of a valid object. */
import fc from "fast-check";

export type Value = null | boolean | number | string | Value[] | { [key: string]: Value };

/** One change at one place. The place is drawn as numbers, so that it fits every document. */
export interface Mutation {
  /** Picks a child on each level; the walk stops early when it is used up or there are no children. */
  steps: number[];
  change:
    | { kind: "replace"; value: Value }
    | { kind: "remove" }
    | { kind: "add"; key: string; value: Value }
    | { kind: "repeat"; times: number }
    | { kind: "rename"; key: string };
}

/** Words that mean something to a JavaScript program, to a patch, or to a parser of names and quantities. */
const oddText = fc.constantFrom(
  "",
  " ",
  "0",
  "-1",
  "1e9",
  "1e999999",
  "-9223372036854775809",
  "9999999999999999999999",
  "0.0000000000000000001",
  "NaN",
  "null",
  "a".repeat(300),
  "UPPER",
  "a/b",
  "a/b/c",
  "../..",
  "*",
  "%s%n",
  "\u0000",
  "\ud83d",
  "ä😀",
  "a\nb",
  "2026-13-45T99:99:99Z",
  "2026-01-01T00:00:00Z",
  "0001-01-01T00:00:00Z",
  "10.0.0.1",
  "::1",
  "300.300.300.300",
  "10.0.0.0/33",
  "50%",
  "101%",
  "x == y",
  "((((((((((",
  "self.all(x, x > 0)",
  "constructor",
  "toString",
  "hasOwnProperty",
  "kubernetes.io/x",
  "Never",
  "TCP",
  "AAA=",
  "====",
);

const oddNumber = fc.constantFrom(
  0,
  -0,
  1,
  -1,
  1.5,
  255,
  65_535,
  65_536,
  2_147_483_647,
  2_147_483_648,
  -2_147_483_649,
  9_007_199_254_740_991,
  1e21,
  1e300,
  5e-324,
);

const scalar: fc.Arbitrary<Value> = fc.oneof(
  { weight: 4, arbitrary: oddText },
  { weight: 3, arbitrary: oddNumber },
  { weight: 1, arbitrary: fc.boolean() },
  { weight: 2, arbitrary: fc.constant(null) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 20 }) },
);

const oddKey = fc.constantFrom(
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "valueOf",
  "length",
  "",
  " ",
  "$patch",
  "$retainKeys",
  "$setElementOrder/containers",
  "$deleteFromPrimitiveList/finalizers",
  "a/b",
  "a.b",
  "name",
  "spec",
  "status",
  "finalizers",
  "ownerReferences",
  "managedFields",
  "generateName",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "resourceVersion",
  "uid",
  "selfLink",
  "generation",
);

const value: fc.Arbitrary<Value> = fc.oneof(
  { weight: 6, arbitrary: scalar },
  { weight: 1, arbitrary: fc.array(scalar, { maxLength: 3 }) },
  { weight: 1, arbitrary: fc.dictionary(oddKey, scalar, { maxKeys: 3 }) as fc.Arbitrary<Value> },
  { weight: 1, arbitrary: fc.constantFrom<Value>([], {}, [{}], [[]], [null], { a: null }, { a: { b: { c: [] } } }) },
);

export const mutations: fc.Arbitrary<Mutation[]> = fc.array(
  fc.record({
    steps: fc.array(fc.nat(12), { minLength: 1, maxLength: 9 }),
    change: fc.oneof(
      { weight: 6, arbitrary: fc.record({ kind: fc.constant("replace" as const), value }) },
      { weight: 2, arbitrary: fc.constant({ kind: "remove" as const }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant("add" as const), key: oddKey, value }) },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constant("repeat" as const), times: fc.integer({ min: 2, max: 5 }) }),
      },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("rename" as const), key: oddKey }) },
    ),
  }),
  { minLength: 1, maxLength: 3 },
);

/** The document after the changes; the original stays as it is. */
export function mutate(document: Value, changes: readonly Mutation[]): Value {
  const root: Value[] = [structuredClone(document)];
  for (const { steps, change } of changes) applyOne(root, steps, change);
  return root[0] as Value;
}

function applyOne(root: Value[], steps: readonly number[], change: Mutation["change"]): void {
  let parent: Value[] | { [key: string]: Value } = root;
  let key: string | number = 0;
  for (const step of steps) {
    const here = child(parent, key);
    if (typeof here !== "object" || here === null) break;
    const keys: (string | number)[] = Array.isArray(here) ? [...here.keys()] : Object.keys(here);
    if (keys.length === 0) break;
    parent = here;
    key = keys[step % keys.length] as string | number;
  }
  const here = child(parent, key);
  switch (change.kind) {
    case "replace":
      put(parent, key, structuredClone(change.value));
      return;
    case "remove":
      if (Array.isArray(parent)) {
        if (parent !== root) parent.splice(Number(key), 1);
      } else delete parent[key];
      return;
    case "add":
      if (Array.isArray(here)) here.push(structuredClone(change.value));
      else if (typeof here === "object" && here !== null) put(here, change.key, structuredClone(change.value));
      return;
    case "repeat":
      if (Array.isArray(here) && here.length > 0) {
        for (let at = 1; at < change.times; at++) here.push(structuredClone(here[0] as Value));
      }
      return;
    case "rename":
      if (!Array.isArray(parent)) {
        delete parent[key];
        put(parent, change.key, here);
      }
      return;
  }
}

function child(parent: Value[] | { [key: string]: Value }, key: string | number): Value {
  return (parent as Record<string | number, Value>)[key] as Value;
}

function put(parent: Value[] | { [key: string]: Value }, key: string | number, next: Value): void {
  Object.defineProperty(parent, key, { value: next, writable: true, enumerable: true, configurable: true });
}

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  decodeFieldSet,
  describePath,
  difference,
  equalSets,
  type FieldSet,
  fromPaths,
  has,
  intersection,
  leaves,
  type Path,
  pathsOf,
  recursiveDifference,
  union,
} from "./fieldSet.ts";

const element = fc.constantFrom("f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80}', 'k:{"port":9}', "v:1", "i:0");
const path = fc.array(element, { minLength: 1, maxLength: 3 });
const paths = fc.array(path, { maxLength: 8 });

const texts = (set: FieldSet | undefined) => pathsOf(set).map(describePath).sort();
const textsOf = (some: readonly Path[]) => [...new Set(some.map(describePath))].sort();

describe("a field set", () => {
  test("is what fieldsV1 says", () => {
    const set = fromPaths([
      ["f:spec", "f:replicas"],
      ["f:metadata", "f:labels"],
      ["f:metadata", "f:labels", "f:app"],
      ["f:spec", "f:containers", 'k:{"name":"c"}'],
      ["f:spec", "f:containers", 'k:{"name":"c"}', "f:image"],
    ]);
    expect(JSON.stringify(set)).toBe(
      '{"f:metadata":{"f:labels":{".":{},"f:app":{}}},' +
        '"f:spec":{"f:containers":{"k:{\\"name\\":\\"c\\"}":{".":{},"f:image":{}}},"f:replicas":{}}}',
    );
  });

  test("lists fields before items, and items by the value of their keys", () => {
    const set = fromPaths([["v:true"], ['v:"a"'], ["v:10"], ["v:9"], ['k:{"port":80}'], ['k:{"port":9}'], ["f:z"]]);
    expect(Object.keys(set ?? {})).toEqual(["f:z", 'k:{"port":9}', 'k:{"port":80}', "v:9", "v:10", 'v:"a"', "v:true"]);
  });

  test("reads what a client wrote in another order and spelling", () => {
    const set = decodeFieldSet({
      "f:b": { ".": {} },
      'k:{ "protocol":"TCP", "port":80 }': { "f:x": {}, ".": {} },
      "f:a": {},
      "z:of the future": {},
    });
    expect(JSON.stringify(set)).toBe(
      '{"f:a":{},"f:b":{},"k:{\\"port\\":80,\\"protocol\\":\\"TCP\\"}":{".":{},"f:x":{}}}',
    );
  });

  test.each([
    { name: "a key without a kind", fields: { a: {} } },
    { name: "a list", fields: [] },
    { name: "a number below a field", fields: { "f:a": 1 } },
    { name: "a key that is no JSON", fields: { "k:{name": {} } },
    { name: "a key that is no object", fields: { "k:1": {} } },
    { name: "an index that is no number", fields: { "i:x": {} } },
  ])("does not read $name", ({ fields }) => {
    expect(() => decodeFieldSet(fields)).toThrow();
  });

  test("an empty fieldsV1 is the empty set", () => {
    expect(decodeFieldSet({})).toBeUndefined();
  });
});

describe("for all sets", () => {
  test("the operations are those of sets of paths", () => {
    fc.assert(
      fc.property(paths, paths, (some, others) => {
        const [a, b] = [fromPaths(some), fromPaths(others)];
        const inB = new Set(textsOf(others));
        const inA = textsOf(some);
        expect(texts(a)).toEqual(inA);
        expect(texts(union(a, b))).toEqual(textsOf([...some, ...others]));
        expect(texts(difference(a, b))).toEqual(inA.filter((text) => !inB.has(text)));
        expect(texts(intersection(a, b))).toEqual(inA.filter((text) => inB.has(text)));
        const below = (one: Path) => one.some((_, depth) => inB.has(describePath(one.slice(0, depth + 1))));
        expect(texts(recursiveDifference(a, b))).toEqual(textsOf(some.filter((one) => !below(one))));
        const isInner = (one: Path) => some.some((two) => two.length > one.length && one.every((e, i) => e === two[i]));
        expect(texts(leaves(a))).toEqual(textsOf(some.filter((one) => !isInner(one))));
        for (const one of others) expect(has(a, one)).toBe(inA.includes(describePath(one)));
      }),
    );
  });

  test("there is one way to write a set", () => {
    fc.assert(
      fc.property(paths, paths, (some, others) => {
        const forwards = union(fromPaths(some), fromPaths(others));
        const backwards = union(fromPaths([...others].reverse()), fromPaths([...some].reverse()));
        expect(JSON.stringify(forwards)).toBe(JSON.stringify(backwards));
        expect(equalSets(forwards, backwards)).toBe(true);
        const back = difference(union(forwards, fromPaths([["f:new", "f:x"]])), fromPaths([["f:new", "f:x"]]));
        expect(JSON.stringify(back)).toBe(JSON.stringify(forwards));
        if (forwards !== undefined) {
          expect(JSON.stringify(decodeFieldSet(JSON.parse(JSON.stringify(forwards))))).toBe(JSON.stringify(forwards));
        }
      }),
    );
  });

  test("an operation that changes nothing returns the very set", () => {
    fc.assert(
      fc.property(paths, (some) => {
        const set = fromPaths(some);
        const copy = set && (JSON.parse(JSON.stringify(set)) as FieldSet);
        expect(union(set, copy)).toBe(set);
        expect(difference(set, fromPaths([["f:elsewhere"]]))).toBe(set);
        expect(difference(set, copy)).toBeUndefined();
      }),
    );
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyJson, type Json, type JsonObject } from "../../model/objects/json.ts";
import { mergePatch } from "./mergePatch.ts";

describe("a merge patch", () => {
  test.each<[string, JsonObject, Json, JsonObject]>([
    ["replaces a value", { a: "b" }, { a: "c" }, { a: "c" }],
    ["adds a value", { a: "b" }, { b: "c" }, { a: "b", b: "c" }],
    ["removes with null", { a: "b", b: "c" }, { a: null }, { b: "c" }],
    ["does not mind removing what is not there", {}, { a: null }, {}],
    ["replaces lists whole", { a: [1, 2] }, { a: [3] }, { a: [3] }],
    ["turns a list into a map", { a: [1] }, { a: { b: 1 } }, { a: { b: 1 } }],
    ["goes into maps", { a: { b: 1, c: 2 } }, { a: { b: null, d: 3 } }, { a: { c: 2, d: 3 } }],
    ["leaves no null behind in new maps", {}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
    ["keeps null in lists", {}, { a: [null] }, { a: [null] }],
    ["treats constructor as a key like others", {}, { constructor: { name: "x" } }, { constructor: { name: "x" } }],
  ])("%s", (_name, target, patch, expected) => {
    expect(mergePatch(target, patch)).toEqual(expected);
  });

  test.each([[1], ["x"], [null], [[]], [true]])("%j is refused with 400", (patch) => {
    expect(() => mergePatch({}, patch as Json)).toThrow(
      expect.objectContaining({ status: expect.objectContaining({ code: 400 }) }),
    );
  });

  test("cannot reach a prototype", () => {
    const patch = JSON.parse('{"a":{"__proto__":{"polluted":true}}}') as Json;
    expect(() => mergePatch({}, patch)).toThrow("__proto__");
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("changes neither target nor patch, and shares what it does not touch", () => {
    const target = { a: { x: 1 }, b: { y: 2 } };
    const result = mergePatch(target, { a: { x: 2 } });
    expect(target).toEqual({ a: { x: 1 }, b: { y: 2 } });
    expect(result["b"]).toBe(target.b);
  });

  test("applied twice is the same as once", () => {
    const objects = fc.dictionary(fc.constantFrom("a", "b", "c"), fc.jsonValue({ maxDepth: 2 }), {
      noNullPrototype: true,
    });
    fc.assert(
      fc.property(objects, objects, (target, patch) => {
        fc.pre(!JSON.stringify([target, patch]).includes("__proto__"));
        const before = copyJson(target);
        const once = mergePatch(target as JsonObject, patch as Json);
        expect(mergePatch(once, patch as Json)).toEqual(once);
        expect(target).toEqual(before);
      }),
    );
  });
});

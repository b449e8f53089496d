import { describe, expect, test } from "vitest";
import { equalFields, equalJson } from "./json.ts";

describe("two values of an object's field", () => {
  test.each([
    ["null and absent", { a: null }, {}, true],
    ["null and undefined", { a: null }, { a: undefined }, true],
    ["null deep in a list", [{ a: 1, b: { c: null } }], [{ a: 1, b: {} }], true],
    ["nothing at all", null, undefined, true],
    ["null and a value", { a: null }, { a: 0 }, false],
    ["absent and a value", {}, { a: "" }, false],
    ["lists of different length", [null], [], false],
    ["an empty list and an empty object", [], {}, false],
    ["a list and null", { a: [] }, { a: null }, false],
    ["a key of the prototype", { toString: null }, {}, true],
  ])("%s", (_, a, b, same) => {
    expect(equalFields(a, b)).toBe(same);
    expect(equalFields(b, a)).toBe(same);
  });

  test("as JSON null and absent differ", () => {
    expect(equalJson({ a: null }, {})).toBe(false);
  });
});

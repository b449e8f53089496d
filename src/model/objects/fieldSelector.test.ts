import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { escapeFieldValue, exactFieldValue, matchesFields, parseFieldSelector } from "./fieldSelector.ts";

describe("a field selector", () => {
  test.each([
    ["", []],
    [",,", []],
    ["a=b", [["a", "=", "b"]]],
    ["a==b", [["a", "=", "b"]]],
    ["a!=b", [["a", "!=", "b"]]],
    ["a=", [["a", "=", ""]]],
    [
      "spec.nodeName=n1,status.phase!=Failed",
      [
        ["spec.nodeName", "=", "n1"],
        ["status.phase", "!=", "Failed"],
      ],
    ],
    ["a=b\\,c\\=d\\\\e", [["a", "=", "b,c=d\\e"]]],
    ["a!b!=c", [["a!b", "!=", "c"]]],
    ["a=b!c", [["a", "=", "b!c"]]],
  ])("%j", (text, expected) => {
    expect(parseFieldSelector(text).map((r) => [r.field, r.operator, r.value])).toEqual(expected);
  });

  test.each([
    ["a", "invalid selector: 'a'; can't understand 'a'"],
    ["x=y,a>b", "invalid selector: 'x=y,a>b'; can't understand 'a>b'"],
    ["a=b=c", "invalid field selector: unescaped character in value: 61"],
    ["a=\\n", "invalid field selector: invalid escape sequence: \\n"],
    ["a=\\", "invalid field selector: invalid escape sequence: \\"],
  ])("%j is refused with 400", (text, message) => {
    expect(() => parseFieldSelector(text)).toThrow(
      expect.objectContaining({ message, status: expect.objectContaining({ code: 400 }) }),
    );
  });

  test("an absent field counts as empty", () => {
    const pod: Record<string, string> = { "spec.nodeName": "n1" };
    const ask = (text: string) => matchesFields(parseFieldSelector(text), (field) => pod[field]);
    expect(ask("spec.nodeName=n1")).toBe(true);
    expect(ask("spec.nodeName=n1,status.phase=")).toBe(true);
    expect(ask("status.phase!=Failed")).toBe(true);
    expect(ask("spec.nodeName!=n1")).toBe(false);
    expect(exactFieldValue(parseFieldSelector("a!=b,c=d"), "c")).toBe("d");
    expect(exactFieldValue(parseFieldSelector("a!=b"), "a")).toBeUndefined();
  });

  test("every escaped value reads back", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[\\,=a]*$/)), (value) => {
        expect(parseFieldSelector(`f=${escapeFieldValue(value)}`)).toEqual([{ field: "f", operator: "=", value }]);
      }),
    );
  });
});

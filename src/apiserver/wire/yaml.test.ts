import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../model/objects/json.ts";
import { decodeYamlBody, parseYaml, toYaml } from "./yaml.ts";

const bytes = (text: string) => Buffer.from(text, "utf8");
const read = (text: string) => parseYaml(bytes(text)).value;

describe("YAML becomes the JSON that upstream would see", () => {
  test.each([
    ["a: 1\nb: [x, 'y']\n", { a: 1, b: ["x", "y"] }],
    ["time: 2026-01-02T03:04:05Z\nday: 2026-01-02", { time: "2026-01-02T03:04:05Z", day: "2026-01-02" }],
    ["mode: 0644", { mode: 0o644 }],
    ["a: 0x10", { a: 16 }],
    ["a: yes\nb: off\nc: 'yes'", { a: true, b: false, c: "yes" }],
    ["a: ~\nb:\nc: null", { a: null, b: null, c: null }],
    ["a: 1.5\nb: 1e3\nc: 100m\nd: 1Gi", { a: 1.5, b: 1000, c: "100m", d: "1Gi" }],
    ["port: 22:22", { port: "22:22" }],
    ["1: a\ntrue: b\n", { "1": "a", true: "b" }],
    ["a: &x {k: v}\nb: *x", { a: { k: "v" }, b: { k: "v" } }],
    ["base: &b {k: v, l: 1}\nmore:\n  <<: *b\n  l: 2", { base: { k: "v", l: 1 }, more: { k: "v", l: 2 } }],
    ["text: |\n  two\n  lines\n", { text: "two\nlines\n" }],
    ["---\na: 1\n", { a: 1 }],
    ["", null],
    ['{"a": 1, "b": [true]}', { a: 1, b: [true] }],
    ["{a: 1, b: [yes]}", { a: 1, b: [true] }],
  ])("%j", (text, value) => {
    expect(read(text)).toEqual(value);
  });
});

describe("YAML that is refused", () => {
  test.each([
    ["two documents", "a: 1\n---\nb: 2\n", /only one document/],
    ["a tab as indentation", "a:\n\t- b", /./],
    ["an unclosed bracket", "a: [1", /./],
    ["an unknown anchor", "a: *x", /./],
    ["infinity", "a: .inf", /not a JSON number/],
    ["not a number", "a: .nan", /not a JSON number/],
    ["a number beyond doubles", "a: 9007199254740993", /cannot be kept exactly/],
    ["a key that reaches a prototype", "a:\n  __proto__: {polluted: true}", /"a.__proto__" is not allowed/],
    ["the same by merge", "a: &x {b: 1}\n__proto__: *x", /"__proto__" is not allowed/],
    ["JSON with that key", '{"__proto__": 1}', /"__proto__" is not allowed/],
  ])("%s", (_what, text, message) => {
    expect(() => decodeYamlBody(bytes(text))).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(message),
        status: expect.objectContaining({ code: 400 }),
      }),
    );
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("a billion laughs", () => {
    let text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
    for (let i = 1; i < 12; i++) text += `a${i}: &a${i} [${new Array(9).fill(`*a${i - 1}`).join(",")}]\n`;
    expect(() => decodeYamlBody(bytes(text))).toThrow(/[Ee]xcessive alias count/);
  });

  test.each([
    ["brackets", "[".repeat(200_000)],
    ["braces", "{a: ".repeat(100_000)],
    ["dashes", `${"- ".repeat(100_000)}x`],
    ["JSON", `${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}`],
  ])("depth by %s", (_what, text) => {
    expect(() => decodeYamlBody(bytes(text))).toThrow(/max depth/);
  });

  test.each([
    ["keys inside keys", "? ".repeat(900)],
    ["keys that are maps", `${"{".repeat(500)}a${"}".repeat(500)}`],
    ["anchors upon anchors", "&a ".repeat(30_000)],
    ["dashes again and again", `${`${"- ".repeat(900)}x\n`.repeat(140)}]`],
    ["uses of one anchor", `a: &a x\nb: [${"*a,".repeat(20_000)}]`],
  ])("quickly: %s", (_what, text) => {
    expect(() => decodeYamlBody(bytes(text))).toThrow(
      expect.objectContaining({ status: expect.objectContaining({ code: 400 }) }),
    );
  });

  test("depth by indentation, by its bytes: a level more is a space more in each line", () => {
    const text = Array.from({ length: 1500 }, (_, i) => `${" ".repeat(i)}a:`).join("\n");
    expect(() => decodeYamlBody(bytes(text))).toThrow("at most 262144 bytes");
  });

  test("bytes that are not UTF-8", () => {
    expect(() => decodeYamlBody(Uint8Array.of(0x61, 0x3a, 0x20, 0xff))).toThrow("invalid UTF-8");
  });
});

test("duplicate keys are found on request", () => {
  const text = "a: 1\nspec:\n  b: 1\n  b: 2\n  c:\n  - d: 1\n    d: 2\na: 3\n";
  const body = parseYaml(bytes(text), { findDuplicates: true });
  expect(body.duplicates).toEqual(["spec.b", "spec.c[0].d", "a"]);
  expect(body.value).toEqual({ a: 3, spec: { b: 2, c: [{ d: 2 }] } });
  expect(parseYaml(bytes(text)).duplicates).toEqual([]);
});

describe("writing", () => {
  test("keys are sorted and words that mean something else are quoted", () => {
    expect(toYaml({ b: "yes", a: "0644", c: "2026-01-02", d: null, e: [] })).toBe(
      'a: "0644"\nb: "yes"\nc: "2026-01-02"\nd: null\ne: []\n',
    );
  });
  test("whatever is written reads back", () => {
    const plain = fc.letrec<{ value: Json }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.string(),
        fc.string({ unit: "binary" }),
        fc.constantFrom(
          "yes",
          "no",
          "1:30",
          "0x1",
          "1e3",
          "null",
          "~",
          "2026-01-01",
          " x ",
          "a: b",
          "- x",
          "#",
          "",
          "<<",
          ".inf",
          "1_000",
        ),
        fc.boolean(),
        fc.integer(),
        fc.constant(null),
        fc.array(tie("value"), { maxLength: 4 }),
        fc.dictionary(
          fc.oneof(fc.stringMatching(/^[a-zA-Z0-9./_-]{1,12}$/), fc.constantFrom("y", "on", "1", "null")),
          tie("value"),
          { maxKeys: 4, noNullPrototype: true },
        ),
      ),
    })).value;
    fc.assert(
      fc.property(plain, (value) => {
        fc.pre(!JSON.stringify(value).includes("__proto__"));
        expect(read(toYaml({ value }))).toEqual({ value });
      }),
      { numRuns: 300 },
    );
  });
});

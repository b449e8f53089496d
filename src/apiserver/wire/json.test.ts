import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BodyError, decodeJsonBody, nestingMax, parseJson } from "./json.ts";

const bytes = (text: string) => Buffer.from(text, "utf8");
const read = (text: string) => parseJson(bytes(text)).value;
const duplicatesOf = (text: string) => parseJson(bytes(text), { findDuplicates: true }).duplicates;

describe("what is not JSON is refused in Go's words", () => {
  test.each([
    ["", "unexpected end of JSON input"],
    ["  ", "unexpected end of JSON input"],
    ["{", "unexpected end of JSON input"],
    ['{"a"', "unexpected end of JSON input"],
    ['"abc', "unexpected end of JSON input"],
    ["hello", "invalid character 'h' looking for beginning of value"],
    ["{a:1}", "invalid character 'a' looking for beginning of object key string"],
    ['{"a":1,}', "invalid character '}' looking for beginning of object key string"],
    ['{"a" 1}', "invalid character '1' after object key"],
    ['{"a":1 "b"}', "invalid character '\"' after object key:value pair"],
    ["[1 2]", "invalid character '2' after array element"],
    ["[1,]", "invalid character ']' looking for beginning of value"],
    ["{}{}", "invalid character '{' after top-level value"],
    ["{} x", "invalid character 'x' after top-level value"],
    ["nul", "unexpected end of JSON input"],
    ["nuxl", "invalid character 'x' in literal null (expecting 'l')"],
    ["01", "invalid character '1' after top-level value"],
    ["-x", "invalid character 'x' in numeric literal"],
    ["1.x", "invalid character 'x' after decimal point in numeric literal"],
    ["1ex", "invalid character 'x' in exponent of numeric literal"],
    ['"\\x"', "invalid character 'x' in string escape code"],
    ['"\\u12x4"', "invalid character 'x' in \\u hexadecimal character escape"],
    ['"a\nb"', "invalid character '\\n' in string literal"],
    ["'a'", "invalid character '\\'' looking for beginning of value"],
    ["\ufeff{}", "invalid character '\ufeff' looking for beginning of value"],
    ["NaN", "invalid character 'N' looking for beginning of value"],
  ])("%j", (text, message) => {
    expect(() => read(text)).toThrow(new BodyError(message));
    expect(() => decodeJsonBody(bytes(text))).toThrow(
      expect.objectContaining({
        message: `couldn't get version/kind; json parse error: ${message}`,
        status: expect.objectContaining({ code: 400 }),
      }),
    );
  });

  test("our scanner and the fast parser agree on what JSON is", () => {
    const texts = fc.oneof(
      fc.json(),
      fc.string(),
      fc.stringMatching(/^[{}[\]",:0-9a\-.eE tru\\]{0,20}$/),
      fc.json().chain((text) => fc.nat(text.length).map((at) => text.slice(0, at) + text.slice(at + 1))),
    );
    fc.assert(
      fc.property(texts, (text) => {
        let good = true;
        try {
          JSON.parse(text);
        } catch {
          good = false;
        }
        // Digits force the careful scan, so both readers see the text.
        const padded = `[${text},1234567890123456]`;
        let paddedGood = true;
        try {
          JSON.parse(padded);
        } catch {
          paddedGood = false;
        }
        for (const [candidate, expected] of [
          [text, good],
          [padded, paddedGood],
        ] as const) {
          try {
            parseJson(bytes(candidate), { findDuplicates: true });
            expect(expected, candidate).toBe(true);
          } catch (error) {
            expect(error).toBeInstanceOf(BodyError);
            const { message } = error as Error;
            if (expected) expect(message).toMatch(/not allowed|exactly|out of range/);
            else expect(message).toMatch(/^(invalid character|unexpected end)/);
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("hostile bodies", () => {
  test("bytes that are not UTF-8 are refused", () => {
    expect(() => parseJson(Uint8Array.of(0x22, 0xff, 0x22))).toThrow("invalid UTF-8");
    expect(() => parseJson(Uint8Array.of(0x22, 0xc0, 0x80, 0x22))).toThrow("invalid UTF-8");
    expect(() => parseJson(Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22))).toThrow("invalid UTF-8");
    expect(read('"grün 🚀"')).toBe("grün 🚀");
  });

  test.each([nestingMax + 1, 10_000, 100_000, 1_500_000])("nesting of %d is refused", (depth) => {
    expect(() => read("[".repeat(depth) + "]".repeat(depth))).toThrow("exceeded max depth");
    expect(() => read('{"a":'.repeat(depth))).toThrow("exceeded max depth");
  });
  test("nesting at the limit is read, and brackets in strings do not count", () => {
    expect(read("[".repeat(nestingMax) + "]".repeat(nestingMax))).toBeInstanceOf(Array);
    expect(read(JSON.stringify("[".repeat(20_000)))).toHaveLength(20_000);
    expect(read(JSON.stringify({ a: `${'\\"'.repeat(3000)}[` }))).toBeTypeOf("object");
  });

  test.each([
    '{"__proto__":{"polluted":true}}',
    '{"a":[{"__proto__":1}]}',
    '{"\\u005f_proto__":1}',
    '{"__\\u0070roto__":1}',
    '{"__pr\\u006Fto__":1}',
    '{"__prot\\u006f_\\u005F":1}',
  ])("%s is refused and pollutes nothing", (text) => {
    expect(() => read(text)).toThrow(/field ".*__proto__" is not allowed/);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
  test("constructor and prototype are ordinary keys, and __proto__ is an ordinary value", () => {
    expect(read('{"constructor":{"prototype":1},"x":"__proto__"}')).toEqual({
      constructor: { prototype: 1 },
      x: "__proto__",
    });
  });

  test.each([
    ["9007199254740993", /cannot be kept exactly/],
    ["9223372036854775807", /cannot be kept exactly/],
    ["-9223372036854775808", /cannot be kept exactly/],
    ['{"a":{"b":[1,18446744073709551615]}}', /^field "a.b\[1\]": number 18446744073709551615 cannot be kept exactly/],
    ["1e999", /out of range/],
    ["-1e400", /out of range/],
  ])("the number in %s is refused, not changed", (text, message) => {
    expect(() => read(text)).toThrow(message);
  });
  test.each([
    "9007199254740991",
    "-9007199254740991",
    "10000000000000000000",
    "0.12345678901234567890",
    "1e300",
    '"9223372036854775807"',
  ])("%s is read", (text) => {
    expect(read(text)).toEqual(JSON.parse(text));
  });

  test("three megabytes are read in a blink", () => {
    const text = JSON.stringify({
      data: Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`key-${i}`, "v".repeat(30)])),
    });
    expect(text.length).toBeGreaterThan(2_500_000);
    expect(parseJson(bytes(text), { findDuplicates: true }).duplicates).toEqual([]);
  });
});

describe("keys given twice", () => {
  test.each([
    ['{"a":1,"a":2}', ["a"]],
    ['{"a":1,"a":2,"a":3}', ["a"]],
    ['{"a":{"b":[{"c":1,"c":2}]}}', ["a.b[0].c"]],
    ['{"spec":{"x":1},"spec":{"y":2,"y":3}}', ["spec", "spec.y"]],
    ['{"a":1,"\\u0061":2}', ["a"]],
    ['{"a":"x:y","b":[{},{}],"c":{"a":1}}', []],
    ["[]", []],
    ["3", []],
  ])("%s: %j", (text, expected) => {
    expect(duplicatesOf(text)).toEqual(expected);
  });
  test("are found only on request, and the last one counts", () => {
    expect(parseJson(bytes('{"a":1,"a":2}'))).toEqual({ value: { a: 2 }, duplicates: [] });
  });
  test("of which there are very many are reported up to a hundred", () => {
    const text = `{${Array.from({ length: 300 }, (_, i) => `"k${i}":1,"k${i}":2`).join(",")}}`;
    expect(duplicatesOf(text)).toHaveLength(100);
  });
  test("are never seen in what JSON.stringify wrote", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        try {
          expect(duplicatesOf(text)).toEqual([]);
        } catch (error) {
          expect((error as Error).message).toMatch(/__proto__|exactly/);
        }
      }),
    );
  });
});

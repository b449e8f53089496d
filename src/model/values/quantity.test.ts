import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addQuantities,
  canonicalMilliQuantity,
  canonicalQuantity,
  compareQuantities,
  formatQuantity,
  milliOf,
  parseQuantity,
  quantityError,
  quantityOf,
  quantityOfMilli,
  subtractQuantities,
  unitsOf,
} from "./quantity.ts";

describe("an amount has one canonical text", () => {
  test.each([
    ["0", "0"],
    ["0Gi", "0"],
    ["-0", "0"],
    ["0.0", "0"],
    ["1", "1"],
    ["1000m", "1"],
    ["1500m", "1500m"],
    ["0.5", "500m"],
    [".5", "500m"],
    ["5.", "5"],
    ["1.5", "1500m"],
    ["100m", "100m"],
    ["1000", "1k"],
    ["1024", "1024"],
    ["1000000", "1M"],
    ["1048576", "1048576"],
    ["1024Ki", "1Mi"],
    ["1024Mi", "1Gi"],
    ["1536Mi", "1536Mi"],
    ["1.5Gi", "1536Mi"],
    ["0.5Ki", "512"],
    ["512Ki", "512Ki"],
    ["0.0001Ki", "102400u"],
    ["1.1Ki", "1126400m"],
    ["1e3", "1e3"],
    ["1E3", "1e3"],
    ["1e+3", "1e3"],
    ["12e5", "1200e3"],
    ["1e0", "1"],
    ["1e-3", "1e-3"],
    ["1E", "1E"],
    ["1000E", "1000E"],
    ["+5", "5"],
    ["-500m", "-500m"],
    ["-1024Ki", "-1Mi"],
    ["007", "7"],
    ["100n", "100n"],
    ["1000n", "1u"],
    ["0.1n", "1n"],
    ["-0.1n", "-1n"],
    ["1e-30", "1e-9"],
    ["1000000000000000000000m", "1E"],
    ["7Ei", "7Ei"],
    ["8Ei", "9223372036854775807"],
    ["9007199254740993", "9007199254740993"],
  ])("%s is written %s", (text, canonical) => {
    expect(canonicalQuantity(text)).toBe(canonical);
    expect(canonicalQuantity(canonical), "writing is stable").toBe(canonical);
    expect(canonicalQuantity(text), "remembering does not change the answer").toBe(canonical);
  });

  test.each([
    ["100n", "1m"],
    ["1u", "1m"],
    ["1500u", "2m"],
    ["0.0001", "1m"],
    ["999999u", "1"],
    ["250m", "250m"],
    ["2Gi", "2Gi"],
    ["-1u", "-1m"],
  ])("in a resource list %s is rounded up to %s", (text, canonical) => {
    expect(canonicalMilliQuantity(text)).toBe(canonical);
  });
});

describe("what is not a quantity is refused with the known words", () => {
  const format = /^quantities must match the regular expression/;
  const suffix = /^unable to parse quantity's suffix$/;
  test.each([
    ["", format],
    ["NaN", format],
    ["Infinity", format],
    [".", format],
    ["+", format],
    ["-", format],
    ["1.1.1", format],
    ["1 Gi", format],
    [" 1", format],
    ["1\n", format],
    ["1+1.0M", format],
    ["aoeu", format],
    ["1gi", format],
    ["１", format],
    ["1i", suffix],
    ["1mi", suffix],
    ["1ki", suffix],
    ["1K", suffix],
    ["1e", suffix],
    ["1e-", suffix],
    ["1EE", suffix],
    ["1Ki5", suffix],
    ["1e1000", suffix],
    ["1e99999999999999999999", suffix],
    ["9".repeat(2000), format],
  ])("%j", (text, message) => {
    expect(quantityError(text)).toMatch(message);
    expect(() => canonicalQuantity(text)).toThrow(message);
  });
});

test("whole units and thousandths round away from zero", () => {
  expect(unitsOf(parseQuantity("1.1"))).toBe(2n);
  expect(unitsOf(parseQuantity("-1.1"))).toBe(-2n);
  expect(milliOf(parseQuantity("1.0001"))).toBe(1001n);
  expect(milliOf(parseQuantity("2"))).toBe(2000n);
});

test("a sum is written like its first term, or like the second when the first is nothing", () => {
  const sum = (a: string, b: string) => formatQuantity(addQuantities(parseQuantity(a), parseQuantity(b)));
  expect(sum("512Mi", "512Mi")).toBe("1Gi");
  expect(sum("0", "1Gi")).toBe("1Gi");
  expect(sum("500m", "500m")).toBe("1");
  expect(formatQuantity(subtractQuantities(parseQuantity("1"), parseQuantity("1m")))).toBe("999m");
  expect(formatQuantity(quantityOf(2048, "binarySI"))).toBe("2Ki");
  expect(formatQuantity(quantityOfMilli(250))).toBe("250m");
});

describe("properties", () => {
  const decimals = fc.constantFrom("n", "u", "m", "", "k", "M", "G", "T", "P", "E");
  const binaries = fc.constantFrom("Ki", "Mi", "Gi", "Ti", "Pi");
  const exponents = fc.integer({ min: -12, max: 24 }).map((e) => `e${e}`);
  const texts = fc
    .tuple(
      fc.constantFrom("", "-", "+"),
      fc.integer({ min: 0, max: 999_999 }),
      fc.option(fc.stringMatching(/^[0-9]{1,6}$/), { nil: undefined }),
      fc.oneof(decimals, binaries, exponents),
    )
    .map(
      ([sign, whole, fraction, suffix]) => `${sign}${whole}${fraction === undefined ? "" : `.${fraction}`}${suffix}`,
    );

  test("writing and reading back keeps the amount", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const quantity = parseQuantity(text);
        const written = formatQuantity(quantity);
        expect(parseQuantity(written).nano).toBe(quantity.nano);
        expect(canonicalQuantity(written)).toBe(written);
      }),
    );
  });

  test("equal amounts of one family have equal texts", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 1n, max: 10n ** 15n }), (milli) => {
        expect(canonicalQuantity(`${milli}m`)).toBe(canonicalQuantity(`${milli * 1000n}u`));
      }),
    );
  });

  test("order agrees with the order of the numbers", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer(), (a, b) => {
        expect(compareQuantities(parseQuantity(`${a}m`), parseQuantity(`${b}m`))).toBe(Math.sign(a - b));
      }),
    );
  });

  test("no text makes it fail in another way", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[-+0-9.eEinumkKMGTP]{0,12}$/)), (text) => {
        const message = quantityError(text);
        if (message === undefined) expect(canonicalQuantity(text)).toMatch(/^-?[0-9]+([a-zA-Z]{0,2}|e-?[0-9]+)$/);
      }),
    );
  });
});

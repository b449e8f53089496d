import { Buffer } from "node:buffer";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LineSplitter } from "./lineSplitter.ts";

function split(chunks: readonly Buffer[], bytesMax = 1024): { lines: string[]; fits: boolean; isWhole: boolean } {
  const splitter = new LineSplitter(bytesMax);
  const lines: string[] = [];
  const fits = chunks.every((chunk) => splitter.push(chunk, (line) => lines.push(line)));
  return { lines, fits, isWhole: splitter.isWhole };
}

const bytes = (...texts: string[]): Buffer[] => texts.map((text) => Buffer.from(text));

describe("lines of a stream", () => {
  test.each<[string, Buffer[], string[], boolean]>([
    ["several in one chunk", bytes("a\nb\nc\n"), ["a", "b", "c"], true],
    ["one in several chunks", bytes("a", "b", "c\n"), ["abc"], true],
    ["an end on its own", bytes("a", "\n"), ["a"], true],
    ["empty ones are skipped", bytes("\n\na\n\n"), ["a"], true],
    ["what has no end is no line", bytes("a\nb"), ["a"], false],
  ])("%s", (_, chunks, lines, isWhole) => {
    expect(split(chunks)).toEqual({ lines, fits: true, isWhole });
  });

  test("a character that two chunks share survives", () => {
    const whole = Buffer.from("gr\u00fc\u00dfe \u{1f600}\n");
    for (let at = 0; at <= whole.length; at++) {
      expect(split([whole.subarray(0, at), whole.subarray(at)]).lines).toEqual(["gr\u00fc\u00dfe \u{1f600}"]);
    }
  });

  test("a line longer than the bound is refused, in one chunk or in many, ended or not", () => {
    expect(split(bytes("12345\n"), 5).fits).toBe(true);
    expect(split(bytes("123456\n"), 5).fits).toBe(false);
    expect(split(bytes("123", "456"), 5).fits).toBe(false);
    expect(split(bytes("123", "456\n"), 5).fits).toBe(false);
    expect(split(bytes("12345\n12345\n12345\n"), 5)).toMatchObject({ fits: true, lines: ["12345", "12345", "12345"] });
  });

  test("however a stream is cut, its lines are the same", () => {
    const line = fc.string({ unit: "binary", minLength: 1 }).map((text) => text.replace(/[\r\n]/g, "."));
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 12 }), (lines, cuts) => {
        const whole = Buffer.from(lines.map((text) => `${text}\n`).join(""));
        const places = [0, ...cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b), whole.length];
        const chunks = places.slice(1).map((place, at) => whole.subarray(places[at], place));
        const expected = lines.map((text) => Buffer.from(text).toString("utf8"));
        expect(split(chunks, 1 << 20)).toEqual({ lines: expected, fits: true, isWhole: true });
      }),
    );
  });
});

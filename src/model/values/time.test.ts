import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { humanAge, humanDuration } from "./humanDuration.ts";
import { canonicalMicroTime, canonicalTime, formatMicroTime, formatTime, parseTime, timeToMs } from "./time.ts";

describe("moments are written in UTC", () => {
  test.each([
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"],
    ["2026-01-02T03:04:05.999Z", "2026-01-02T03:04:05Z"],
    ["2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"],
    ["2026-01-01T00:00:00-23:59", "2026-01-01T23:59:00Z"],
    ["2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"],
    ["0042-01-01T00:00:00Z", "0042-01-01T00:00:00Z"],
    ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"],
    ["0001-01-01T00:00:00Z", null],
  ])("%s is %s", (text, canonical) => {
    expect(canonicalTime(text)).toBe(canonical);
  });
  test.each([
    ["2026-01-02T03:04:05.000001Z", "2026-01-02T03:04:05.000001Z"],
    ["2026-01-02T03:04:05.123456+01:00", "2026-01-02T02:04:05.123456Z"],
    ["0001-01-01T00:00:00.000000Z", null],
  ])("with six digits %s is %s", (text, canonical) => {
    expect(canonicalMicroTime(text)).toBe(canonical);
  });
  test("a reading of the clock", () => {
    expect(formatTime(1_700_000_000_999)).toBe("2023-11-14T22:13:20Z");
    expect(formatMicroTime(1_700_000_000_007)).toBe("2023-11-14T22:13:20.007000Z");
    expect(formatMicroTime(-1)).toBe("1969-12-31T23:59:59.999000Z");
  });
});

describe("an invalid timestamp is refused with the position of the error", () => {
  test.each([
    ["", 'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'],
    ["yesterday", 'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"'],
    ["2026-01-02", 'parsing time "2026-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'],
    [
      "2026-01-02 03:04:05Z",
      'parsing time "2026-01-02 03:04:05Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 03:04:05Z" as "T"',
    ],
    [
      "2026-01-02T03:04:05",
      'parsing time "2026-01-02T03:04:05" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"',
    ],
    ["2026-13-02T03:04:05Z", 'parsing time "2026-13-02T03:04:05Z": month out of range'],
    ["2026-02-29T03:04:05Z", 'parsing time "2026-02-29T03:04:05Z": day out of range'],
    ["2026-01-02T24:04:05Z", 'parsing time "2026-01-02T24:04:05Z": hour out of range'],
    ["2026-01-02T03:04:60Z", 'parsing time "2026-01-02T03:04:60Z": second out of range'],
    ["9999-12-31T23:59:59-01:00", 'parsing time "9999-12-31T23:59:59-01:00": year out of range'],
  ])("%j", (text, message) => {
    expect(() => parseTime(text)).toThrow(message);
  });
  test("a MicroTime needs its six digits", () => {
    expect(() => canonicalMicroTime("2026-01-02T03:04:05Z")).toThrow('cannot parse "Z" as ".000000"');
    expect(() => canonicalMicroTime("2026-01-02T03:04:05.1Z")).toThrow('cannot parse ".1Z" as ".000000"');
    expect(() => canonicalMicroTime("2026-01-02T03:04:05.1234567Z")).toThrow('cannot parse "7Z" as "Z07:00"');
  });
});

test("our calendar agrees with JavaScript's", () => {
  fc.assert(
    fc.property(
      fc.date({ min: new Date("0001-01-02T00:00:00Z"), max: new Date("9999-12-31T23:59:59Z"), noInvalidDate: true }),
      (date) => {
        expect(timeToMs(date.toISOString())).toBe(date.getTime());
        expect(canonicalTime(date.toISOString())).toBe(`${date.toISOString().slice(0, 19)}Z`);
      },
    ),
  );
});

const s = 1000;
const m = 60 * s;
const h = 60 * m;
const d = 24 * h;
describe("durations as kubectl prints them", () => {
  test.each([
    [-2.5 * s, "<invalid>"],
    [-1.9 * s, "0s"],
    [0, "0s"],
    [119.9 * s, "119s"],
    [2 * m, "2m"],
    [2 * m + 5 * s, "2m5s"],
    [9 * m + 59 * s, "9m59s"],
    [10 * m + 59 * s, "10m"],
    [179 * m, "179m"],
    [3 * h, "3h"],
    [7 * h + 59 * m, "7h59m"],
    [8 * h + 59 * m, "8h"],
    [47 * h, "47h"],
    [48 * h, "2d"],
    [49 * h, "2d1h"],
    [7 * d + 23 * h, "7d23h"],
    [8 * d + 23 * h, "8d"],
    [729 * d, "729d"],
    [730 * d, "2y"],
    [731 * d, "2y1d"],
    [8 * 365 * d - h, "7y364d"],
    [8 * 365 * d + 5 * d, "8y"],
  ])("%d ms is %s", (ms, text) => {
    expect(humanDuration(ms)).toBe(text);
  });
  test("an object without a time has an unknown age", () => {
    expect(humanAge(undefined, 0)).toBe("<unknown>");
    expect(humanAge(null, 0)).toBe("<unknown>");
    expect(humanAge("1970-01-01T00:00:00Z", 5 * m)).toBe("5m");
  });
});

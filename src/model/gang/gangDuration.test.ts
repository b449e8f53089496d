import { expect, test } from "vitest";
import { formatGangDuration, parseGangDuration } from "./gangDuration.ts";

test.each([
  ["4h", 14_400_000, "4h"],
  ["1h30m", 5_400_000, "1h30m"],
  ["10s", 10_000, "10s"],
  ["250ms", 250, "0s"],
  ["1.5h", 5_400_000, "1h30m"],
  ["-1s", -1_000, "0s"],
  ["0", 0, "0s"],
])("%s is %i ms and reads %s", (text, ms, printed) => {
  expect(parseGangDuration(text)).toBe(ms);
  expect(formatGangDuration(ms)).toBe(printed);
});

test.each(["", "4", "4 h", "soon", "1d", "h"])("%j is no duration", (text) => {
  expect(parseGangDuration(text)).toBeUndefined();
});

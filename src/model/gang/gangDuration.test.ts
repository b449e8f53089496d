import { expect, test } from "vitest";
import { formatGangDuration } from "./gangDuration.ts";

test.each([
  [14_400_000, "4h"],
  [5_400_000, "1h30m"],
  [10_000, "10s"],
  [250, "0s"],
  [-1_000, "0s"],
])("%i ms are %s", (ms, printed) => {
  expect(formatGangDuration(ms)).toBe(printed);
});

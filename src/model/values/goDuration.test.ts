import { expect, test } from "vitest";
import { durationToMs } from "./goDuration.ts";

test.each([
  ["1h30m", 5_400_000],
  [".5s", 500],
  ["250ms", 250],
  ["1.5h", 5_400_000],
  ["-1s", -1_000],
  ["0", 0],
  // Go counts up to 9223372036.854775807 seconds.
  ["2562047h", 9_223_369_200_000],
])("%s is %d ms", (text, ms) => {
  expect(durationToMs(text)).toBe(ms);
});

test.each([["2562048h"], ["999999999h"], ["-999999999h"], ["5"], ["1d"], ["4 h"], ["h"], ["soon"], [""]])(
  "%s is no duration",
  (text) => {
    expect(durationToMs(text)).toBeUndefined();
  },
);

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { systemClock } from "./systemClock.ts";
import { systemRandom } from "./systemRandom.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

test("a delay runs once, when it is over", () => {
  const clock = systemClock();
  const runs: number[] = [];
  clock.after(500, () => runs.push(clock.nowMs()));
  vi.advanceTimersByTime(499);
  expect(runs).toEqual([]);
  vi.advanceTimersByTime(5000);
  expect(runs).toEqual([1_000_500]);
});

test("a delay longer than a timer of Node can wait does not run at once", () => {
  const monthsMs = 3 * 2 ** 31;
  let ran = false;
  const cancel = systemClock().after(monthsMs, () => {
    ran = true;
  });
  vi.advanceTimersByTime(monthsMs - 1);
  expect(ran).toBe(false);
  vi.advanceTimersByTime(1);
  expect(ran).toBe(true);
  cancel();
});

test("a cancelled delay never runs, not even when it waits in pieces", () => {
  let ran = false;
  const cancel = systemClock().after(2 ** 32, () => {
    ran = true;
  });
  vi.advanceTimersByTime(2 ** 31);
  cancel();
  vi.advanceTimersByTime(2 ** 33);
  expect(ran).toBe(false);
});

test("chance stays within 32 bits and does not repeat itself from block to block", () => {
  const random = systemRandom();
  const drawn = Array.from({ length: 2000 }, () => random.uint32());
  expect(drawn.every((one) => Number.isInteger(one) && one >= 0 && one < 2 ** 32)).toBe(true);
  // Two thousand of four thousand million: more than ten doubles would be a miracle, or a block handed out twice.
  expect(new Set(drawn).size).toBeGreaterThan(1990);
});

import { expect, test } from "vitest";
import { ManualClock } from "../../../testing/apiserver/manualClock.ts";
import { SteppedClock } from "../../../testing/control/steppedClock.ts";
import { MemoryMetrics } from "../../control/runtime/memoryMetrics.ts";
import { WorkQueue } from "../../control/runtime/workQueue.ts";
import { Wakes } from "./wakes.ts";

function started(clock = new ManualClock()) {
  const wakes = new Wakes(clock);
  const woken: string[] = [];
  const stop = wakes.start({ add: (key) => woken.push(key) });
  return { clock, wakes, woken, stop };
}

test("many keys share one timer and wake up in the order of their times", async () => {
  const { clock, wakes, woken } = started();
  const nowMs = clock.nowMs();
  for (let at = 0; at < 1000; at++) wakes.set(`n${at}`, nowMs + 1 + ((at * 7919) % 1000));
  expect(clock.pending).toBe(1);
  await clock.advance(500);
  expect(woken).toHaveLength(500);
  await clock.advance(500);
  expect([woken.length, new Set(woken).size, wakes.size]).toEqual([1000, 1000, 0]);
});

test("the wake-up that was set last counts, also when it is later, and none is none", async () => {
  const { clock, wakes, woken } = started();
  const nowMs = clock.nowMs();
  wakes.set("later", nowMs + 10);
  wakes.set("later", nowMs + 50);
  wakes.set("never", nowMs + 10);
  wakes.set("never", undefined);
  await clock.advance(40);
  expect(woken).toEqual([]);
  await clock.advance(20);
  expect(woken).toEqual(["later"]);
});

test("a clock that steps forward is noticed within seconds, one that steps back wakes no key early", async () => {
  const manual = new ManualClock();
  const clock = new SteppedClock(manual);
  const wakes = new Wakes(clock);
  const woken: string[] = [];
  wakes.start({ add: (key) => woken.push(key) });
  wakes.set("a", clock.nowMs() + 3_600_000);
  clock.step(3_600_000);
  await manual.advance(6_000);
  expect(woken).toEqual(["a"]);
  wakes.set("b", clock.nowMs() + 1_000);
  clock.step(-10_000);
  await manual.advance(2_000);
  expect(woken).toEqual(["a"]);
  await manual.advance(15_000);
  expect(woken).toEqual(["a", "b"]);
});

test("no key wakes up before the start or after the end", async () => {
  const clock = new ManualClock();
  const wakes = new Wakes(clock);
  const woken: string[] = [];
  wakes.set("early", clock.nowMs() + 1);
  await clock.advance(10);
  const stop = wakes.start({ add: (key) => woken.push(key) });
  await clock.advance(1);
  expect(woken).toEqual(["early"]);
  wakes.set("late", clock.nowMs() + 5);
  stop();
  await clock.advance(10);
  expect([woken, clock.pending]).toEqual([["early"], 0]);
});

test("a key with a priority overtakes queued keys, also when it is queued itself", async () => {
  const clock = new ManualClock();
  const queue = new WorkQueue({ name: "test", clock, metrics: new MemoryMetrics() });
  const wakes = new Wakes(clock, 1);
  wakes.start(queue);
  for (const key of ["a", "b", "c"]) queue.add(key);
  wakes.set("c", clock.nowMs() + 10);
  wakes.set("d", clock.nowMs() + 20);
  await clock.advance(30);
  expect([queue.next(), queue.next(), queue.next(), queue.next(), queue.next()]).toEqual([
    "c",
    "d",
    "a",
    "b",
    undefined,
  ]);
});

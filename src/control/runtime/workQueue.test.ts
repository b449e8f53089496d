import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../testing/apiserver/manualClock.ts";
import { SteppedClock } from "../../../testing/control/steppedClock.ts";
import { MemoryMetrics } from "./memoryMetrics.ts";
import { lowPriority, WorkQueue, type WorkQueueOptions } from "./workQueue.ts";

function newQueue(options: Partial<Pick<WorkQueueOptions, "fairEvery" | "retries" | "clock">> = {}) {
  const clock = new ManualClock();
  const metrics = new MemoryMetrics();
  const queue = new WorkQueue({ name: "test", clock, metrics, ...options });
  /** Takes and completes every ready key. */
  const drain = (): string[] => {
    const keys: string[] = [];
    for (let key = queue.next(); key !== undefined; key = queue.next()) {
      keys.push(key);
      queue.done(key);
    }
    return keys;
  };
  return { clock, metrics, queue, drain };
}

describe("a work queue", () => {
  test("returns a key once, however often it was added", () => {
    const { queue, drain } = newQueue();
    for (const key of ["a", "b", "a", "a"]) queue.add(key);
    expect(drain()).toEqual(["a", "b"]);
  });

  test("does not return a key that is being reconciled, and returns it again if it was added meanwhile", () => {
    const { queue } = newQueue();
    queue.add("a");
    expect(queue.next()).toBe("a");
    queue.add("a");
    expect(queue.next()).toBeUndefined();
    queue.done("a");
    expect(queue.next()).toBe("a");
    queue.done("a");
    expect(queue.next()).toBeUndefined();
    expect(queue.isIdle).toBe(true);
  });

  test("returns keys by priority, and in the order of arrival among equals", () => {
    const { queue, drain } = newQueue();
    queue.add("old-1", { priority: lowPriority });
    queue.add("old-2", { priority: lowPriority });
    queue.add("new-1");
    queue.add("new-2");
    queue.add("old-2");
    expect(drain()).toEqual(["old-2", "new-1", "new-2", "old-1"]);
  });

  test("adding a key with a lower priority does not lower its priority", () => {
    const { queue, drain } = newQueue();
    queue.add("a", { priority: 5 });
    queue.add("b", { priority: 1 });
    queue.add("a", { priority: lowPriority });
    expect(drain()).toEqual(["a", "b"]);
  });

  test("starves no key: every tenth slot goes to the key that has waited longest", () => {
    const { queue } = newQueue();
    queue.add("patient", { priority: lowPriority });
    const order: string[] = [];
    for (let turn = 0; turn < 20; turn++) {
      queue.add(`urgent-${turn}`);
      queue.add(`urgent-${turn}-too`);
      const key = queue.next() as string;
      order.push(key);
      queue.done(key);
    }
    expect(order.indexOf("patient")).toBe(9);
  });

  test("a delayed key becomes ready after its delay, and the earlier of two delays counts", async () => {
    const { queue, clock, drain } = newQueue();
    queue.addAfter("a", 1000);
    queue.addAfter("a", 500);
    queue.addAfter("a", 800);
    await clock.advance(499);
    expect(drain()).toEqual([]);
    await clock.advance(1);
    expect(drain()).toEqual(["a"]);
    await clock.advance(1000);
    expect(drain()).toEqual([]);
  });

  test("adding a delayed key makes it ready at once, and it is returned once", async () => {
    const { queue, clock, drain } = newQueue();
    queue.addAfter("a", 1000);
    queue.add("a");
    expect(drain()).toEqual(["a"]);
    await clock.advance(2000);
    expect(drain()).toEqual([]);
  });

  test("failures double the back-off from 5 ms up to 1000 s, and a success resets it", async () => {
    const { queue, clock, drain } = newQueue();
    const waits: number[] = [];
    for (let failure = 0; failure < 22; failure++) {
      queue.addFailed("a");
      const startMs = clock.nowMs();
      while (queue.size === 0) await clock.advance(failure < 8 ? 5 : 5 * 2 ** Math.min(failure, 17));
      waits.push(clock.nowMs() - startMs);
      drain();
    }
    expect(waits.slice(0, 6)).toEqual([5, 10, 20, 40, 80, 160]);
    expect(queue.failures("a")).toBe(22);
    expect(waits.at(-1)).toBeLessThanOrEqual(1_310_720);
    expect(waits.at(-1)).toBeGreaterThanOrEqual(1_000_000);
    queue.forget("a");
    queue.addFailed("a");
    await clock.advance(5);
    expect(drain()).toEqual(["a"]);
  });

  test.each([3_600_000, -3_600_000])(
    "the earlier of two delays counts though the clock steps by %i ms",
    async (byMs) => {
      const time = new ManualClock();
      const clock = new SteppedClock(time);
      const { queue, drain } = newQueue({ clock });
      queue.addAfter("a", 1_000);
      clock.step(byMs);
      queue.addAfter("a", 5_000);
      await time.advance(1_000);
      expect(drain()).toEqual(["a"]);
      queue.addAfter("a", 5_000);
      clock.step(byMs);
      queue.addAfter("a", 1_000);
      await time.advance(1_000);
      expect(drain()).toEqual(["a"]);
    },
  );

  test("a budget spreads the retries of many keys", async () => {
    const { queue, clock, drain } = newQueue({ retries: { perSecond: 10, burst: 3 } });
    for (const key of ["a", "b", "c", "d", "e"]) queue.addFailed(key);
    await clock.advance(5);
    expect(drain()).toEqual(["a", "b", "c"]);
    await clock.advance(95);
    expect(drain()).toEqual(["d"]);
    await clock.advance(100);
    expect(drain()).toEqual(["e"]);
    await clock.advance(1000);
    for (const key of ["f", "g", "h"]) queue.addFailed(key);
    await clock.advance(5);
    expect(drain()).toEqual(["f", "g", "h"]);
  });

  test("after an outage back-offs end, and what the server asked for and planned requeues stay", async () => {
    const { queue, clock, drain } = newQueue();
    for (let failure = 0; failure < 14; failure++) {
      queue.addFailed("failed");
      await clock.advance(81_920);
      drain();
    }
    queue.addFailed("failed");
    queue.addFailed("told to wait", { atLeastMs: 3_000 });
    queue.addAfter("planned", 5_000);
    await clock.advance(1_000);
    queue.endBackOffs();
    expect(drain()).toEqual(["failed"]);
    await clock.advance(2_000);
    expect(drain()).toEqual(["told to wait"]);
    await clock.advance(2_000);
    expect(drain()).toEqual(["planned"]);
    queue.addFailed("failed");
    await clock.advance(5);
    expect(drain()).toEqual(["failed"]);
  });

  test("a closed queue returns nothing and leaves no timer behind", () => {
    const { queue, clock } = newQueue();
    queue.add("a");
    queue.addAfter("b", 1000);
    queue.close();
    queue.add("c");
    expect(queue.next()).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  test("counts what it is given and how much waits", () => {
    const { queue, metrics } = newQueue();
    queue.add("a");
    queue.add("b");
    expect(metrics.value("workqueue_adds_total", { name: "test" })).toBe(2);
    expect(metrics.value("workqueue_depth", { name: "test" })).toBe(2);
  });

  test("whatever the order of steps, no key has two reconciles at once and no added key is lost", () => {
    const step = fc.record({
      do: fc.constantFrom("add", "low", "next", "done"),
      key: fc.constantFrom("a", "b", "c", "d"),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const { queue } = newQueue({ fairEvery: 3 });
        const wanted = new Set<string>();
        const active = new Set<string>();
        for (const { do: what, key } of steps) {
          if (what === "add" || what === "low") {
            queue.add(key, what === "low" ? { priority: lowPriority } : {});
            wanted.add(key);
          } else if (what === "next") {
            const given = queue.next();
            const possible = [...wanted].filter((each) => !active.has(each));
            if (given === undefined) expect(possible).toEqual([]);
            else {
              expect(possible).toContain(given);
              wanted.delete(given);
              active.add(given);
            }
          } else if (active.has(key)) {
            active.delete(key);
            queue.done(key);
          }
        }
      }),
    );
  });
});

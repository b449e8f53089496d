import { describe, expect, test } from "vitest";
import { ManualClock, settle } from "../../../testing/apiserver/manualClock.ts";
import { Turns, type WorkQueueOptions } from "./workQueue.ts";

function queueOf(work: WorkQueueOptions<string>["work"], failed?: WorkQueueOptions<string>["failed"]) {
  const clock = new ManualClock();
  const turns = new Turns(clock);
  const queue = turns.queue<string>({ work, ...(failed === undefined ? {} : { failed }) });
  return { clock, turns, queue };
}

describe("a work queue", () => {
  test("works on a key once, however often it was added", async () => {
    const done: string[] = [];
    const { clock, queue } = queueOf((key) => {
      done.push(key);
      return undefined;
    });
    for (const key of ["a", "b", "a", "a"]) queue.add(key);
    expect(done).toEqual([]);
    await clock.advance(0);
    expect(done).toEqual(["a", "b"]);
  });

  test("never works on a key twice at the same time, and again if it was added meanwhile", async () => {
    const finish: (() => void)[] = [];
    const { clock, turns, queue } = queueOf(() => new Promise<void>((resolve) => finish.push(resolve)));
    queue.add("a");
    await clock.advance(0);
    queue.add("a");
    queue.add("a");
    await clock.advance(100);
    expect(finish).toHaveLength(1);
    finish[0]?.();
    await settle();
    await clock.advance(0);
    expect(finish).toHaveLength(2);
    finish[1]?.();
    await turns.idle();
    expect(queue.size).toBe(0);
  });

  test("tries again after a failure, later each time, and starts over after a success", async () => {
    const attempts: number[] = [];
    let fails = true;
    const { clock, queue } = queueOf(() => {
      attempts.push(clock.nowMs());
      if (fails) throw new Error("no");
      return undefined;
    });
    const startMs = clock.nowMs();
    queue.add("a");
    await clock.advance(100);
    expect(attempts.map((atMs) => atMs - startMs)).toEqual([0, 5, 15, 35, 75]);
    fails = false;
    await clock.advance(100);
    fails = true;
    attempts.length = 0;
    const againMs = clock.nowMs();
    queue.add("a");
    await clock.advance(6);
    expect(attempts.map((atMs) => atMs - againMs)).toEqual([0, 5]);
  });

  test("treats a rejected promise as a failure and reports it", async () => {
    const reported: string[] = [];
    const { clock, queue } = queueOf(
      () => Promise.reject(new Error("conflict")),
      (key, error) => reported.push(`${key}: ${(error as Error).message}`),
    );
    queue.add("a");
    await clock.advance(0);
    expect(reported).toEqual(["a: conflict"]);
  });

  test("takes a bounded number of keys in one turn", async () => {
    const clock = new ManualClock();
    const turnSizes: number[] = [];
    const counting = {
      nowMs: () => clock.nowMs(),
      monotonicMs: () => clock.monotonicMs(),
      after: (delayMs: number, run: () => void) =>
        clock.after(delayMs, () => {
          turnSizes.push(0);
          run();
        }),
    };
    const queue = new Turns(counting).queue<string>({
      work: () => {
        turnSizes[turnSizes.length - 1]! += 1;
        return undefined;
      },
    });
    for (let at = 0; at < 1000; at++) queue.add(String(at));
    await clock.advance(0);
    expect(Math.max(...turnSizes)).toBe(128);
    expect(turnSizes.reduce((sum, size) => sum + size, 0)).toBe(1000);
  });

  test("lets other queues work in the same turn", async () => {
    const done: string[] = [];
    const { clock, turns, queue } = queueOf((key) => {
      done.push(key);
      return undefined;
    });
    const other = turns.queue<string>({
      work: (key) => {
        done.push(key);
        return undefined;
      },
    });
    for (let at = 0; at < 500; at++) queue.add(`many ${at}`);
    other.add("one");
    await clock.advance(0);
    expect(done.indexOf("one")).toBeLessThan(3);
  });

  test("keeps the earliest of several times", async () => {
    const done: number[] = [];
    const { clock, queue } = queueOf(() => {
      done.push(clock.nowMs());
      return undefined;
    });
    const startMs = clock.nowMs();
    queue.addAfter("a", 100);
    queue.addAfter("a", 50);
    queue.addAfter("a", 80);
    await clock.advance(200);
    expect(done.map((atMs) => atMs - startMs)).toEqual([50]);
  });

  test("does nothing after it was stopped", async () => {
    const done: string[] = [];
    const { clock, turns, queue } = queueOf((key) => {
      done.push(key);
      return undefined;
    });
    queue.add("a");
    queue.addAfter("b", 10);
    turns.stop();
    await clock.advance(100);
    await turns.idle();
    expect(done).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});

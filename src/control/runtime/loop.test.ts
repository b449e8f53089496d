import { describe, expect, test } from "vitest";
import { ManualClock, settle } from "../../../testing/apiserver/manualClock.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { assert } from "../../model/assert.ts";
import { type RefusalReason, refused } from "../../model/outcome.ts";
import { Loop, type LoopOptions, type Reconcile, reconcileResultOf } from "./loop.ts";
import { MemoryMetrics } from "./memoryMetrics.ts";
import { WorkQueue } from "./workQueue.ts";

function newLoop(reconcile: Reconcile, options: Partial<LoopOptions> = {}) {
  const clock = new ManualClock();
  const log = new KeptLog();
  const metrics = new MemoryMetrics();
  const queue = new WorkQueue({ name: "test", clock, metrics });
  const loop = new Loop({ name: "test", queue, reconcile, clock, log, metrics, ...options });
  return { clock, log, metrics, queue, loop };
}

/** Reconciles that the test completes. */
function heldReconciles() {
  const open: { key: string; end: () => void }[] = [];
  const begun: string[] = [];
  const reconcile: Reconcile = (key) => {
    begun.push(key);
    return new Promise((resolve) => open.push({ key, end: () => resolve(undefined) }));
  };
  const end = async (key: string): Promise<void> => {
    const at = open.findIndex((each) => each.key === key);
    open.splice(at, 1)[0]?.end();
    await settle(2);
  };
  return { reconcile, begun, end };
}

describe("a loop", () => {
  test("runs as many reconciles at once as it may, and never two of one key", async () => {
    const { reconcile, begun, end } = heldReconciles();
    const { queue, loop } = newLoop(reconcile, { concurrency: 2 });
    for (const key of ["a", "b", "c"]) queue.add(key);
    expect(begun).toEqual([]);
    loop.resume();
    await settle(1);
    expect(begun).toEqual(["a", "b"]);
    queue.add("a");
    await end("b");
    expect(begun).toEqual(["a", "b", "c"]);
    await end("c");
    expect(begun).toEqual(["a", "b", "c"]);
    await end("a");
    expect(begun).toEqual(["a", "b", "c", "a"]);
  });

  test("requeues when a reconcile asks for it", async () => {
    const turns: number[] = [];
    const { clock, queue, loop } = newLoop(() => {
      turns.push(clock.nowMs());
      return turns.length < 3 ? { requeueAfterMs: 1000 } : undefined;
    });
    loop.resume();
    queue.add("a");
    await settle(2);
    await clock.advance(10_000);
    expect(turns.map((ms) => ms - (turns[0] as number))).toEqual([0, 1000, 2000]);
    expect(queue.isIdle).toBe(true);
  });

  test("retries with growing back-off, which a success resets", async () => {
    const seen: number[] = [];
    const { clock, queue, loop } = newLoop((_key, { failures }) => {
      seen.push(failures);
      return seen.length % 4 === 0 ? undefined : { again: "not yet" };
    });
    loop.resume();
    queue.add("a");
    await settle(2);
    await clock.advance(1000);
    queue.add("a");
    await settle(2);
    await clock.advance(1000);
    expect(seen).toEqual([0, 1, 2, 3, 0, 1, 2, 3]);
  });

  test("waits at least as long as the server asked for", async () => {
    let turns = 0;
    const { clock, queue, loop } = newLoop(() => {
      turns++;
      return reconcileResultOf(refused("TooManyRequests", "slow down", { retryAfterMs: 5000 }));
    });
    loop.resume();
    queue.add("a");
    await settle(2);
    await clock.advance(4999);
    expect(turns).toBe(1);
    await clock.advance(1);
    expect(turns).toBe(2);
  });

  test("an exception ends that reconcile only, is logged, and the key is reconciled again", async () => {
    let turns = 0;
    const { clock, queue, loop, log, metrics } = newLoop((key) => {
      turns++;
      assert(key !== "bad" || turns > 2, "node n1 has -200 milli-GPU free");
      return undefined;
    });
    loop.resume();
    queue.add("bad");
    queue.add("good");
    await settle(2);
    await clock.advance(1000);
    expect(turns).toBe(3);
    expect(log.errors).toEqual(["reconcile threw an exception"]);
    expect(metrics.value("muster_reconcile_exceptions_total", { controller: "test", kind: "assertion" })).toBe(1);
    expect(queue.failures("bad")).toBe(0);
  });

  test("does not retry a permanent failure until the object changes", async () => {
    let turns = 0;
    const { clock, queue, loop, log } = newLoop(() => {
      turns++;
      return reconcileResultOf(refused("Invalid", "spec.gpu: -1 is negative"));
    });
    loop.resume();
    queue.add("a");
    await settle(2);
    await clock.advance(3_600_000);
    expect(turns).toBe(1);
    expect(log.lines.at(-1)).toMatchObject({ level: "warn", message: "gave up" });
    queue.add("a");
    await settle(2);
    await clock.advance(1);
    expect(turns).toBe(2);
  });

  test("a reconcile that takes too long is cancelled, and keeps its key until it has ended", async () => {
    let isTold = false;
    let finish = (): void => {};
    const { clock, queue, loop } = newLoop(
      (_key, { cancel }) => {
        cancel.onCancel(() => {
          isTold = true;
        });
        return new Promise((resolve) => {
          finish = () => resolve(undefined);
        });
      },
      { deadlineMs: 1000 },
    );
    loop.resume();
    queue.add("a");
    await settle(2);
    await clock.advance(999);
    expect(isTold).toBe(false);
    await clock.advance(5000);
    expect(isTold).toBe(true);
    expect(loop.isBusy).toBe(true);
    finish();
    await settle(2);
    expect(loop.isBusy).toBe(false);
    // It ran over its budget, so its key backs off.
    expect(queue.failures("a")).toBe(1);
    expect(clock.pending).toBe(1);
  });

  test("a pause starts no reconcile, waits for running ones, and cancels them after the grace", async () => {
    const { reconcile, begun, end } = heldReconciles();
    const { clock, queue, loop } = newLoop(reconcile);
    loop.resume();
    queue.add("a");
    queue.add("b");
    await settle(1);
    let isPaused = false;
    void loop.pause(30_000).then(() => {
      isPaused = true;
    });
    await clock.advance(1000);
    expect(isPaused).toBe(false);
    await end("a");
    expect(isPaused).toBe(true);
    expect(begun).toEqual(["a"]);
    loop.resume();
    await settle(1);
    expect(begun).toEqual(["a", "b"]);
  });

  test("a stop abandons a reconcile that does not end, and names it", async () => {
    const { reconcile } = heldReconciles();
    const { clock, queue, loop, log } = newLoop(reconcile);
    loop.resume();
    queue.add("a");
    await settle(1);
    let isStopped = false;
    void loop.stop(10_000).then(() => {
      isStopped = true;
    });
    await clock.advance(10_000);
    expect(isStopped).toBe(false);
    await clock.advance(5_000);
    expect(isStopped).toBe(true);
    expect(JSON.stringify(log.lines)).toContain("abandoned");
  });

  test.each<[RefusalReason, "done" | "again" | "giveUp" | "requeueAfterMs"]>([
    ["NotFound", "done"],
    ["Conflict", "again"],
    ["AlreadyExists", "again"],
    ["Expired", "again"],
    ["Invalid", "giveUp"],
    ["Forbidden", "again"],
    ["Unauthorized", "again"],
    ["TooManyRequests", "again"],
    ["Unavailable", "again"],
    ["Unknown", "again"],
    ["Fenced", "requeueAfterMs"],
  ])("a write that was refused as %s means: %s", (reason, expected) => {
    const result = reconcileResultOf(refused(reason, "no"));
    expect(result === undefined ? "done" : Object.keys(result)[0]).toBe(expected);
  });
});

import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../testing/apiserver/manualClock.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import { callSocketsMax } from "./agents.ts";
import { RequestLimiter, type Turn } from "./requestLimiter.ts";

function scene() {
  const clock = new ManualClock();
  const limiter = new RequestLimiter(clock);
  const turns: Turn[] = [];
  /** Those that have their turn are in `turns`. */
  const enter = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at++) void limiter.enter(undefined).then((turn) => turn && turns.push(turn));
    await clock.advance(0);
  };
  const leave = async (count: number, isRejected: boolean): Promise<void> => {
    for (const turn of turns.splice(0, count)) limiter.leave(turn, isRejected);
    await clock.advance(0);
  };
  return { clock, limiter, turns, enter, leave };
}

describe("requests under way", () => {
  test("are as many as there are connections until one is rejected", async () => {
    const { turns, enter, leave } = scene();
    await enter(1_000);
    expect(turns).toHaveLength(callSocketsMax);
    await leave(10, false);
    expect(turns).toHaveLength(callSocketsMax);
  });

  test("that are rejected together halve the limit once, and later ones queue", async () => {
    const { turns, enter, leave } = scene();
    await enter(40);
    await leave(40, true);
    await enter(30);
    expect(turns).toHaveLength(20);
    await leave(5, false);
    expect(turns).toHaveLength(20);
    await leave(20, false);
    expect(turns).toHaveLength(5);
  });

  test("are more again with each second without a rejection", async () => {
    const { clock, turns, enter, leave } = scene();
    await enter(40);
    await leave(40, true);
    await enter(500);
    for (let second = 0; second < 60; second++) {
      await clock.advance(1_000);
      await leave(1, false);
    }
    expect(turns).toHaveLength(callSocketsMax);
  });

  test("that are cancelled in the queue are not sent", async () => {
    const { limiter, enter, leave } = scene();
    await enter(2);
    await leave(2, true);
    await enter(1);
    const cancel = new CancelSource();
    const queued = limiter.enter(cancel);
    cancel.cancel();
    expect(await queued).toBeUndefined();
  });

  test("of a closed connection do not wait", async () => {
    const { limiter, turns, enter, leave } = scene();
    await enter(2);
    await leave(2, true);
    await enter(3);
    expect(turns).toHaveLength(1);
    limiter.releaseAll();
    await enter(0);
    expect(turns).toHaveLength(3);
  });

  test("keep the three seats of a server busy, with few rejections", async () => {
    const seats = 3;
    const answerMs = 20;
    const { clock, limiter } = scene();
    const counts = { served: 0, rejected: 0 };
    let seated = 0;
    const request = async (): Promise<void> => {
      const turn = await limiter.enter(undefined);
      if (turn === undefined) throw new Error("nothing cancels it");
      const isRejected = seated >= seats;
      counts[isRejected ? "rejected" : "served"]++;
      if (!isRejected) seated++;
      clock.after(isRejected ? 1 : answerMs, () => {
        if (!isRejected) seated--;
        limiter.leave(turn, isRejected);
      });
      // As a controller does with a Retry-After of one second.
      if (isRejected) clock.after(1_000, () => void request());
    };
    for (let at = 0; at < 2_000; at++) void request();
    const seconds = 20;
    for (let ms = 0; ms < seconds * 1_000; ms++) await clock.advance(1);
    const possible = (seconds * 1_000 * seats) / answerMs;
    expect(counts.served).toBeGreaterThan(0.6 * Math.min(2_000, possible));
    // One for each connection, half as many, and so on; then one or two a second.
    expect(counts.rejected).toBeLessThan(2 * callSocketsMax + 2 * seconds);
  });
});

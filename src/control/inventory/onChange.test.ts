import { expect, test } from "vitest";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, WatchSink } from "../../ports/kubeApi.ts";
import { wakeOnChange } from "./onChange.ts";

/** Timers that fire when the test says so, and watches that it feeds. */
function world() {
  const timers: { atMs: number; run: () => void }[] = [];
  let nowMs = 0;
  const clock: Clock = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    after: (delayMs, run) => {
      const timer = { atMs: nowMs + delayMs, run };
      timers.push(timer);
      return () => {
        timers.splice(timers.indexOf(timer), 1);
      };
    },
  };
  const sinks: WatchSink[] = [];
  const kube = {
    watch: (_: unknown, __: unknown, sink: WatchSink) => {
      sinks.push(sink);
      return { stop: () => {} };
    },
  } as KubeApi;
  const pass = (ms: number): void => {
    nowMs += ms;
    for (const timer of [...timers]) {
      if (timer.atMs > nowMs) continue;
      timers.splice(timers.indexOf(timer), 1);
      timer.run();
    }
  };
  let woken = 0;
  const stop = wakeOnChange({ kube, clock }, 2_000, () => {
    woken++;
  });
  const change = (): void => sinks[0]?.event({ type: "MODIFIED", object: {} as never });
  return { sinks, pass, change, stop, woken: () => woken };
}

test("many changes at once wake one run, after a short wait", () => {
  const { change, pass, woken } = world();
  for (let n = 0; n < 50; n++) change();
  expect(woken()).toBe(0);
  pass(2_000);
  expect(woken()).toBe(1);
  change();
  pass(2_000);
  expect(woken()).toBe(2);
});

test("a bookmark is not a change, and a watch that ends is restarted and counts as one", () => {
  const { sinks, pass, woken } = world();
  sinks[0]?.event({ type: "BOOKMARK", revision: "1", initialEventsEnd: false });
  pass(5_000);
  expect(woken()).toBe(0);
  sinks[1]?.ended(undefined);
  pass(1_000);
  expect(sinks).toHaveLength(3);
  pass(2_000);
  expect(woken()).toBe(1);
});

test("nothing wakes after it was stopped", () => {
  const { change, pass, stop, woken } = world();
  change();
  stop();
  pass(10_000);
  expect(woken()).toBe(0);
});

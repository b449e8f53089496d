import { expect, test } from "vitest";
import { relistWaitMsMax } from "../../src/control/cache/reflector.ts";
import { componentScenarios } from "../../src/sim/scenarios.ts";

/** Short worlds: their faults end before a watch has failed often enough to wait for long. */
const short = /^(gpu-labels|pod-sets|inventory|verify|gang-barrier)/;

test("a simulation rests only when no watch waits any more before it lists again", () => {
  const hasty = componentScenarios().filter(({ name, quietMs }) => !short.test(name) && quietMs <= relistWaitMsMax);
  expect(hasty.map(({ name }) => name)).toEqual([]);
});

test("a simulation has time to rest after the longest wait of a watch", () => {
  const late = componentScenarios().filter(
    ({ name, quietMs, settleMs }) => !short.test(name) && settleMs < quietMs + 2 * relistWaitMsMax,
  );
  expect(late.map(({ name }) => name)).toEqual([]);
});

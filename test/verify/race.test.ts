import { expect, test } from "vitest";
import { ObjectStore } from "../../src/apiserver/storage/objectStore.ts";
import { ManualClock } from "../../src/apiserver/testing/manualClock.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { linesIn, numbersAddUp, saidLine } from "../../src/sim/verify/observedVerdicts.ts";
import { verifyScenario } from "../../src/sim/verify/scenario.ts";

/** The thousand runs are played by `npm run sim:long`. */
const slice = 8;

test("200 pods are made and bound while verify loops: no line that cannot be, no pass on an error", async () => {
  const from = 1 + (Date.now() % 100_000);
  const fixed = await runSeeds(verifyScenario(), { from: 1, count: slice });
  const fresh = await runSeeds(verifyScenario(), { from, count: slice });
  expect(fixed.broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
  expect(
    fresh.broken.map(({ seed, violation }) => ({ seed, violation })),
    `seeds from ${from}`,
  ).toEqual([]);
});

test("the line of the field's flake is one that cannot be", () => {
  const store = new ObjectStore({ clock: new ManualClock(), indexedFields: {} });
  const checks = numbersAddUp.begin({ store, nowUs: () => 0, nowMsOf: () => 0 });
  const [line] = linesIn("Pod status: 20 total, 20 running, 0 pending (1 unscheduled), 0 failed");
  expect(checks.observe?.("harness", saidLine, line)).toContain("more unscheduled than pending");
  const [fine] = linesIn("[INFO] Pod status: 20 total, 19 running, 1 pending (1 unscheduled), 0 failed (attempts=1)");
  expect(checks.observe?.("harness", saidLine, fine)).toBeUndefined();
});

/** Slices of the seeds of the scenarios `workloads` and `node-lives`; `npm run sim:long` plays many more. */
import { expect, test } from "vitest";
import { violationReport } from "../../src/sim/report.ts";
import { withTripwires } from "../../src/sim/runSeed.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { shrink } from "../../src/sim/shrink.ts";
import { nodeLivesScenario } from "../../src/sim/workloads/nodeLives.ts";
import { workloadsScenario } from "../../src/sim/workloads/scenario.ts";

async function told(scenario: Scenario, range: { from: number; count: number }): Promise<string> {
  const { broken } = await runSeeds(scenario, range);
  const [first] = broken;
  if (first === undefined) return "";
  return violationReport(scenario, first, await withTripwires(() => shrink(scenario, first)));
}

test("workloads survive a fixed slice of seeds with all faults on", { timeout: 120_000 }, async () => {
  expect(await told(workloadsScenario, { from: 1, count: 50 })).toBe("");
});

test("nodes that come and go leave nothing behind, on a fixed slice of seeds", { timeout: 120_000 }, async () => {
  expect(await told(nodeLivesScenario, { from: 1, count: 12 })).toBe("");
});

test("workloads survive a fresh slice of seeds, whose first one is printed", { timeout: 120_000 }, async () => {
  const from = Date.now() % 1_000_000_000;
  process.stdout.write(`fresh slice of workloads: seeds ${from} to ${from + 19}\n`);
  expect(await told(workloadsScenario, { from, count: 20 })).toBe("");
});

test("workloads change no object that others read", { timeout: 120_000 }, async () => {
  expect(await told({ ...workloadsScenario, freeze: true }, { from: 101, count: 15 })).toBe("");
});

/** Slices of the seeds of the scenarios `workloads` and `node-lives`; `npm run sim:long` plays many more. */
import { expect, test } from "vitest";
import { nodeLivesScenario } from "../../src/sim/workloads/nodeLifecycle.ts";
import { workloadsScenario } from "../../src/sim/workloads/scenario.ts";
import { told, toldOfFresh } from "../sim/slice.ts";

test("workloads survive a fixed slice of seeds with all faults on", { timeout: 120_000 }, async () => {
  expect(await told(workloadsScenario, { from: 1, count: 50 })).toBe("");
});

test("silent, returning and deleted nodes pass a fixed slice of seeds", { timeout: 120_000 }, async () => {
  expect(await told(nodeLivesScenario, { from: 1, count: 12 })).toBe("");
});

test("workloads survive a fresh slice of seeds, whose first one is printed", { timeout: 120_000 }, async () => {
  expect(await toldOfFresh(workloadsScenario, 20)).toBe("");
});

test("workloads change no object that others read", { timeout: 120_000 }, async () => {
  expect(await told({ ...workloadsScenario, freeze: true }, { from: 101, count: 15 })).toBe("");
});

/** Slices of the seeds of the scenarios `workloads`, `workloads/volumes`, `schedule/volumes` and `node-lives`; `npm run sim:long` plays many more. */
import { expect, test } from "vitest";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { volumesScenario } from "../../src/sim/schedule/volumesScenario.ts";
import { nodeLivesScenario } from "../../src/sim/workloads/nodeLifecycle.ts";
import { workloadsScenario } from "../../src/sim/workloads/scenario.ts";
import { volumeMistakes, volumesWith } from "../../src/sim/workloads/volumeScenario.ts";
import { freshViolationOf, violationOf } from "../sim/slice.ts";

test("workloads survive a fixed slice of seeds with all faults on", { timeout: 120_000 }, async () => {
  expect(await violationOf(workloadsScenario, { from: 1, count: 50 })).toBe("");
});

test("silent, returning and deleted nodes pass a fixed slice of seeds", { timeout: 120_000 }, async () => {
  expect(await violationOf(nodeLivesScenario, { from: 1, count: 12 })).toBe("");
});

test("workloads survive a fresh slice of seeds, whose first one is printed", { timeout: 120_000 }, async () => {
  expect(await freshViolationOf(workloadsScenario, 20)).toBe("");
});

test("workloads change no object that others read", { timeout: 120_000 }, async () => {
  expect(await violationOf({ ...workloadsScenario, freeze: true }, { from: 101, count: 15 })).toBe("");
});

test("volumes survive a fixed slice of seeds with all faults on", { timeout: 120_000 }, async () => {
  expect(await violationOf(volumesWith(), { from: 1, count: 40 })).toBe("");
});

test("volumes survive a fresh slice of seeds, whose first one is printed", { timeout: 120_000 }, async () => {
  expect(await freshViolationOf(volumesWith(), 15)).toBe("");
});

test("pods go where their volumes are in a fixed slice of seeds", { timeout: 120_000 }, async () => {
  expect(await violationOf(volumesScenario, { from: 1, count: 15 })).toBe("");
});

test.each(volumeMistakes.map((mistake) => ({ mistake, name: mistake.name, invariant: mistake.invariant })))(
  "volumes: $name is found, as a violation of $invariant",
  { timeout: 120_000 },
  async ({ mistake, invariant }) => {
    const { broken } = await runSeeds(volumesWith(mistake), { from: 1, count: 60, untilBroken: invariant });
    expect(broken.map(({ violation }) => violation?.invariant)).toContain(invariant);
  },
);

import { expect, test } from "vitest";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { extendedScenario } from "../../src/sim/schedule/claimsScenario.ts";
import { growthScenario } from "../../src/sim/schedule/growthScenario.ts";
import { scheduleMistakes } from "../../src/sim/schedule/mistakes.ts";
import { poisonedScenario } from "../../src/sim/schedule/poisonedScenario.ts";
import { scheduleScenario, scheduleWith } from "../../src/sim/schedule/scenario.ts";
import { freshViolationOf, violationOf } from "./slice.ts";

test("placement survives a fixed slice of seeds, with two schedulers that quarrel, and a fresh one", async () => {
  expect(await violationOf(scheduleScenario, { from: 1, count: 18 })).toBe("");
  expect(await freshViolationOf(scheduleScenario, 8)).toBe("");
});

test("a job that grows by a subgroup gets it as a whole, on a fixed slice of seeds and on a fresh one", async () => {
  expect(await violationOf(growthScenario, { from: 1, count: 12 })).toBe("");
  expect(await freshViolationOf(growthScenario, 6)).toBe("");
});

test("pods on which the decision throws hold up no other, on a fixed slice of seeds and on a fresh one", async () => {
  expect(await violationOf(poisonedScenario, { from: 1, count: 8 })).toBe("");
  expect(await freshViolationOf(poisonedScenario, 4)).toBe("");
});

test("pods that ask for a resource that devices serve get each device once, on a fixed slice of seeds and on a fresh one", async () => {
  expect(await violationOf(extendedScenario, { from: 1, count: 4 })).toBe("");
  expect(await freshViolationOf(extendedScenario, 2)).toBe("");
});

test.each(
  scheduleMistakes
    // The others take hundreds of seeds: `npm run sim:long -- --only mutants`.
    .filter(({ name }) => name === "says-the-time" || name === "keeps-requests")
    .map((mistake) => ({ mistake, name: mistake.name, invariant: mistake.invariant })),
)("a scheduler's mistake is found within forty seeds: $name breaks $invariant", async ({ mistake }) => {
  const { invariant } = mistake;
  const { broken } = await runSeeds(scheduleWith(mistake), { from: 1, count: 40, untilBroken: invariant });
  expect(broken.map(({ violation }) => violation?.invariant)).toContain(invariant);
});

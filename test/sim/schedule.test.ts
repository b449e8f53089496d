import { expect, test } from "vitest";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { scheduleMistakes } from "../../src/sim/schedule/mistakes.ts";
import { scheduleScenario, scheduleWith } from "../../src/sim/schedule/scenario.ts";

// Fresh seeds are left to `npm run sim:long` until the scenario has held on all 5,000 of it.
test("placement survives twenty-five seeds, with two schedulers that quarrel", async () => {
  const { broken } = await runSeeds(scheduleScenario, { from: 1, count: 25 });
  expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
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

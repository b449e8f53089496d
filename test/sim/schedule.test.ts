import { expect, test } from "vitest";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { scheduleScenario } from "../../src/sim/schedule/scenario.ts";

// Fresh seeds are left to `npm run sim:long` until the scenario has held on all 5,000 of it.
test("placement survives twenty-five seeds, with two schedulers that quarrel", async () => {
  const { broken } = await runSeeds(scheduleScenario, { from: 1, count: 25 });
  expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
});

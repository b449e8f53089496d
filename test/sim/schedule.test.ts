import { expect, test } from "vitest";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { scheduleScenario } from "../../src/sim/schedule/scenario.ts";

/** Fresh seeds are left to `npm run sim:long` until a thousand in a row hold: about one in ten still breaks. */
test("placement survives ten known seeds, with two schedulers that quarrel", async () => {
  const { broken } = await runSeeds(scheduleScenario, { from: 1, count: 10 });
  expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
});

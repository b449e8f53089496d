import { expect, test } from "vitest";
import { nodesScenario } from "../../src/sim/nodes/scenario.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";

/** The rest of the two thousand seeds is played by `npm run sim:long`. */
const slice = 25;

test("simulated nodes hold I14 and I15 while nodes flap, vanish, break and let go slowly", async () => {
  const { broken } = await runSeeds(nodesScenario, { from: 1, count: slice });
  expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
});

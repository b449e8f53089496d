import { expect, test } from "vitest";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { findScenario } from "../../src/sim/scenarios.ts";

/** Thousands of seeds are played by `npm run sim:long`. */
async function broken(name: string, from: number, count: number): Promise<unknown[]> {
  const scenario = findScenario(name);
  if (scenario === undefined) throw new Error(`there is no scenario ${name}`);
  const result = await runSeeds(scenario, { from, count });
  return result.broken.map(({ seed, violation }) => ({ seed, violation }));
}

test("claims on one node and on two: every device is given once, and everybody is served", async () => {
  expect(await broken("devices/one-node", 1, 30)).toEqual([]);
  expect(await broken("devices", 1, 20)).toEqual([]);
});

test("so it is on seeds that nobody has seen before", async () => {
  const from = Math.floor(Math.random() * 1_000_000) + 1;
  console.info(`devices from seed ${from}`);
  expect(await broken("devices", from, 10)).toEqual([]);
});

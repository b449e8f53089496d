import { describe, expect, test } from "vitest";
import { doubtMistakes, doubtsScenario } from "../../src/sim/inventory/doubts.ts";
import { inventoryMistakes, inventoryScenario } from "../../src/sim/inventory/scenario.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";

/** `npm run sim:long` plays five thousand. */
const slice = 25;

describe("the race matrix of the inventory", () => {
  test("breaks no invariant on a fixed slice of seeds, and on one that is new each time", async () => {
    const from = 10_000 + (Date.now() % 1_000_000);
    process.stdout.write(`inventory: seeds 1 to ${slice}, and ${from} to ${from + slice - 1}\n`);
    for (const first of [1, from]) {
      const { broken } = await runSeeds(inventoryScenario(), { from: first, count: slice });
      expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
    }
  });

  test("gives the same history for the same seed", async () => {
    const seeds = { from: 7, count: 3 };
    const [first, second] = [
      await runSeeds(inventoryScenario(), seeds),
      await runSeeds(inventoryScenario(), { ...seeds, backwards: true }),
    ];
    expect(second.hash).toBe(first.hash);
  });

  test.each(inventoryMistakes.map((mistake) => ({ mistake, name: mistake.name })))(
    "finds the original's mistake within a hundred seeds: $name",
    async ({ mistake }) => {
      const { broken } = await runSeeds(inventoryScenario(mistake), { from: 1, count: 100, untilBroken: true });
      expect(broken).toHaveLength(1);
      expect(["I14", "I21"]).toContain(broken[0]?.violation?.invariant);
    },
  );
});

describe("sources that answer wrongly without an error, or not at all", () => {
  test("breaks no invariant on a fixed slice of seeds, and on one that is new each time", async () => {
    const from = 10_000 + (Date.now() % 1_000_000);
    process.stdout.write(`inventory-doubts: seeds 1 to ${slice}, and ${from} to ${from + slice - 1}\n`);
    for (const first of [1, from]) {
      const { broken } = await runSeeds(doubtsScenario(), { from: first, count: slice });
      expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
    }
  });

  /** Where the search begins, so that it is short: disks in use guard against most of what this one believes. */
  const firstSeeds: Readonly<Record<string, number>> = { "clean-runs-only": 50 };

  test.each(doubtMistakes.map((mistake) => ({ mistake, name: mistake.name })))(
    "finds what the inventory once believed within twenty-five seeds: $name",
    async ({ mistake }) => {
      const from = firstSeeds[mistake.name] ?? 1;
      const { broken } = await runSeeds(doubtsScenario(mistake), { from, count: 25, untilBroken: true });
      expect(broken.map(({ violation }) => violation?.invariant)).toEqual([mistake.invariant]);
    },
  );
});

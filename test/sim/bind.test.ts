import { expect, test } from "vitest";
import { bindScenario } from "../../src/sim/bind/scenario.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { playEachWrite } from "./eachWrite.ts";

// Fresh seeds are left to `npm run sim:long` until the scenario has held on all 10,000 of it.
test("shares of GPUs survive sixty seeds", async () => {
  const { broken } = await runSeeds(bindScenario, { from: 1, count: 60 });
  expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
});

test("binder and scheduler may die before or after a write, and a write may land seconds late: a slice of all of them", async () => {
  const about = { storyteller: "scheduler", seed: 1, authors: ["ann", "bob", "scheduler"], every: 23 };
  const { calm, strokes, played, broken } = await playEachWrite(bindScenario, about);
  expect(calm).toBeUndefined();
  expect(strokes).toBeGreaterThan(500);
  expect(played).toBeGreaterThan(20);
  expect(broken).toEqual([]);
});

import { expect, test } from "vitest";
import { bindScenario } from "../../src/sim/bind/scenario.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { playEachWrite } from "./eachWrite.ts";

test("shares of GPUs survive forty known seeds and twenty fresh ones", async () => {
  const fresh = Math.floor(Date.now() / 1000) % 1_000_000;
  process.stdout.write(`fresh seeds of bind begin at ${fresh}\n`);
  for (const seeds of [
    { from: 1, count: 40 },
    { from: fresh, count: 20 },
  ]) {
    const { broken } = await runSeeds(bindScenario, seeds);
    expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
  }
});

test("binder and scheduler may die before or after a write, and a write may land seconds late: a slice of all of them", async () => {
  const about = { storyteller: "scheduler", seed: 1, authors: ["ann", "bob", "scheduler"], every: 23 };
  const { calm, strokes, played, broken } = await playEachWrite(bindScenario, about);
  expect(calm).toBeUndefined();
  expect(strokes).toBeGreaterThan(500);
  expect(played).toBeGreaterThan(20);
  expect(broken).toEqual([]);
});

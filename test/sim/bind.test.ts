import { expect, test } from "vitest";
import { bindScenario } from "../../src/sim/bind/scenario.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";

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

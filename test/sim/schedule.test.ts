import { expect, test } from "vitest";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { scheduleScenario } from "../../src/sim/schedule/scenario.ts";

test("placement survives fifteen known seeds and ten fresh ones, with two schedulers that quarrel", async () => {
  const fresh = Math.floor(Date.now() / 1000) % 1_000_000;
  process.stdout.write(`fresh seeds of schedule begin at ${fresh}\n`);
  for (const seeds of [
    { from: 1, count: 15 },
    { from: fresh, count: 10 },
  ]) {
    const { broken } = await runSeeds(scheduleScenario, seeds);
    expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
  }
});

import { parentPort } from "node:worker_threads";
import { assert } from "../../model/assert.ts";
import { runSeeds } from "../../sim/runSeeds.ts";
import { findScenario } from "./scenarios.ts";
import type { PlayedSeed, SeedOrder } from "./seedsOnCores.ts";

/** A thread that runs the seeds of its orders and reports the result of each. */
parentPort?.on("message", (order: SeedOrder) => void play(order));

async function play({ scenario: name, from, count }: SeedOrder): Promise<void> {
  const scenario = findScenario(name);
  assert(scenario !== undefined, () => `there is no scenario ${name}`);
  const played: PlayedSeed[] = [];
  await runSeeds(scenario, {
    from,
    count,
    each: ({ seed, hash, events, simulatedUs, violation }) =>
      played.push({ seed, hash, events, simulatedUs, violation }),
  });
  parentPort?.postMessage(played);
}

/** Slices of a scenario's seeds, for `npm test`; `npm run sim:long` plays the numbers that were promised. */
import { violationReport } from "../../src/sim/report.ts";
import { withTripwires } from "../../src/sim/runSeed.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { shrink } from "../../src/sim/shrink.ts";

/** What became of the first seed that broke something, as short as it can be told; nothing when all held. */
export async function told(scenario: Scenario, range: { from: number; count: number }): Promise<string> {
  const { broken } = await runSeeds(scenario, range);
  const [first] = broken;
  if (first === undefined) return "";
  return violationReport(scenario, first, await withTripwires(() => shrink(scenario, first)));
}

/** The same for seeds that nobody has played before. They are printed, so that they can be played again. */
export function toldOfFresh(scenario: Scenario, count: number): Promise<string> {
  const from = Date.now() % 1_000_000_000;
  process.stdout.write(`fresh slice of ${scenario.name}: seeds ${from} to ${from + count - 1}\n`);
  return told(scenario, { from, count });
}

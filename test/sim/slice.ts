/** Slices of a scenario's seeds, for `npm test`; `npm run sim:long` plays the numbers that the docs name. */
import { violationReport } from "../../src/sim/report.ts";
import { withTripwires } from "../../src/sim/runSeed.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { shrink } from "../../src/sim/shrink.ts";

/** The shrunk report of the first seed that violates an invariant; empty if none does. */
export async function violationOf(scenario: Scenario, range: { from: number; count: number }): Promise<string> {
  const { broken } = await runSeeds(scenario, range);
  const [first] = broken;
  if (first === undefined) return "";
  return violationReport(scenario, first, await withTripwires(() => shrink(scenario, first)));
}

/** The same for seeds that are new in each run. They are printed, so that they can be replayed. */
export function freshViolationOf(scenario: Scenario, count: number): Promise<string> {
  const from = Date.now() % 1_000_000_000;
  process.stdout.write(`fresh slice of ${scenario.name}: seeds ${from} to ${from + count - 1}\n`);
  return violationOf(scenario, { from, count });
}

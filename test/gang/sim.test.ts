/** A slice of the seeds of the scenarios `gang` and `gang/terminate`; `npm run sim:long` plays many more. */
import { describe, expect, test } from "vitest";
import { gangScenario } from "../../src/sim/gang/scenario.ts";
import { violationReport } from "../../src/sim/report.ts";
import { withTripwires } from "../../src/sim/runSeed.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { shrink } from "../../src/sim/shrink.ts";
import { playEachWrite } from "../sim/eachWrite.ts";

async function told(scenario: Scenario, range: { from: number; count: number }): Promise<string> {
  const { broken } = await runSeeds(scenario, range);
  const [first] = broken;
  if (first === undefined) return "";
  return violationReport(scenario, first, await withTripwires(() => shrink(scenario, first)));
}

describe.each(["Suppress", "Terminate"] as const)("gangs under %s", (policy) => {
  // Fresh seeds are left to `npm run sim:long` until the scenarios have held on all 5,000 of them.
  test("survive a fixed slice of seeds with all faults on", { timeout: 120_000 }, async () => {
    expect(await told(gangScenario(policy), { from: 1, count: 18 })).toBe("");
  });

  test("their operator may die before or after a write, and a write may land late: a slice of all of them", {
    timeout: 120_000,
  }, async () => {
    const about = { storyteller: "user", choice: "act", seed: 1, authors: ["ann", "bob"], every: 301 };
    const { calm, strokes, played, broken } = await playEachWrite(gangScenario(policy), about);
    expect(calm).toBeUndefined();
    expect(strokes).toBeGreaterThan(1_000);
    expect(played).toBeGreaterThan(5);
    expect(broken).toEqual([]);
  });
});

test("gangs change no object that others read", { timeout: 120_000 }, async () => {
  expect(await told({ ...gangScenario(), freeze: true }, { from: 1, count: 3 })).toBe("");
});

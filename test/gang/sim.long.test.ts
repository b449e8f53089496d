/**
 * Each write of the operator in one scenario meets each fault: the operator crashes before or after it, or it lands
 * late.
 */
import { expect, test } from "vitest";
import { gangScenario } from "../../src/sim/gang/scenario.ts";
import { playEachWrite } from "../sim/eachWrite.ts";

test.each(["Suppress", "Terminate"] as const)("gangs under %s", { timeout: 3_600_000 }, async (policy) => {
  const about = { storyteller: "user", choice: "act", seed: 1, authors: ["ann", "bob"], every: 1 };
  const { calm, strokes, played, broken } = await playEachWrite(gangScenario(policy), about);
  process.stdout.write(`${played} faults of gangs under ${policy}\n`);
  expect(calm).toBeUndefined();
  expect(played).toBe(strokes);
  expect(broken).toEqual([]);
});

/** A slice of the seeds of the scenarios `gang` and `gang/terminate`; `npm run sim:long` plays many more. */
import { describe, expect, test } from "vitest";
import { gangScenario } from "../../src/sim/gang/scenario.ts";
import { playEachWrite } from "../sim/eachWrite.ts";
import { told, toldOfFresh } from "../sim/slice.ts";

describe.each(["Suppress", "Terminate"] as const)("gangs under %s", (policy) => {
  test("survive a fixed slice of seeds with all faults on, and a fresh one", { timeout: 120_000 }, async () => {
    expect(await told(gangScenario(policy), { from: 1, count: 12 })).toBe("");
    expect(await toldOfFresh(gangScenario(policy), 6)).toBe("");
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

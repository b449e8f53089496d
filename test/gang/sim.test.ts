/** A slice of the seeds of the scenarios `gang` and `gang/terminate`; `npm run sim:long` plays many more. */
import { describe, expect, test } from "vitest";
import type { Node, Pod } from "../../src/model/kubernetes.generated.ts";
import { gangMistakes } from "../../src/sim/gang/mistakes.ts";
import { gangScenario } from "../../src/sim/gang/scenario.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { playEachWrite } from "../sim/eachWrite.ts";
import { freshViolationOf, violationOf } from "../sim/slice.ts";

describe.each(["Suppress", "Terminate"] as const)("gangs under %s", (policy) => {
  test("survive a fixed slice of seeds with all faults on, and a fresh one", { timeout: 120_000 }, async () => {
    expect(await violationOf(gangScenario(policy), { from: 1, count: 12 })).toBe("");
    expect(await freshViolationOf(gangScenario(policy), 6)).toBe("");
  });

  test("their operator may crash before or after a write, and a write may land late: a slice of all cases", {
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
  expect(await violationOf({ ...gangScenario(), freeze: true }, { from: 1, count: 3 })).toBe("");
});

test.each(gangMistakes.map((mistake) => ({ mistake, name: mistake.name, invariant: mistake.invariant })))(
  "a mistake in counting is found within 50 seeds: $name breaks $invariant",
  { timeout: 120_000 },
  async ({ mistake }) => {
    const range = { from: 1, count: 50, untilBroken: mistake.invariant };
    const scenario = gangScenario("Suppress", mistake);
    // A run ends at its first violation, and a wrong count also writes what changes nothing.
    const invariants = scenario.invariants.filter(({ id }) => id !== "I23");
    const { broken } = await runSeeds({ ...scenario, invariants }, range);
    expect(broken.map(({ violation }) => violation?.invariant)).toContain(mistake.invariant);
  },
);

test("in at least a third of the seeds a node falls silent and its evicted pods stay Terminating", {
  timeout: 120_000,
}, async () => {
  let stranded = false;
  let count = 0;
  const watching: Invariant = {
    id: "watching",
    fact: "nothing",
    begin: ({ store }) => ({
      commit: ({ event: { current } }) => {
        if (current.resource !== "/pods" || current.deleted) return undefined;
        const { metadata, spec } = current.object() as unknown as Pod;
        const node = store.get("/nodes", "", spec?.nodeName ?? "")?.object() as unknown as Node | undefined;
        const ready = node?.status?.conditions?.find(({ type }) => type === "Ready")?.status;
        if (metadata.deletionTimestamp !== undefined && ready === "Unknown") stranded = true;
        return undefined;
      },
    }),
  };
  const scenario = { ...gangScenario(), invariants: [watching] };
  const each = (): void => {
    if (stranded) count++;
    stranded = false;
  };
  await runSeeds(scenario, { from: 1, count: 12, each });
  expect(count).toBeGreaterThanOrEqual(4);
});

import { expect, test } from "vitest";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { verifyMistakes } from "../../src/sim/verify/mistakes.ts";
import { verifyScenario } from "../../src/sim/verify/scenario.ts";
import { freshViolationOf, violationOf } from "./slice.ts";

test("verify keeps to one revision, and passes over no error and no refusal, on a slice of seeds and a fresh one", async () => {
  expect(await violationOf(verifyScenario(), { from: 1, count: 8 })).toBe("");
  expect(await freshViolationOf(verifyScenario(), 4)).toBe("");
});

test.each(verifyMistakes.map((mistake) => ({ mistake, name: mistake.name, invariant: mistake.invariant })))(
  "a verifier's mistake is found: $name breaks $invariant",
  async ({ mistake, invariant }) => {
    const { broken } = await runSeeds(verifyScenario(mistake), { from: 1, count: 20, untilBroken: invariant });
    expect(broken.map(({ violation }) => violation?.invariant)).toContain(invariant);
  },
);

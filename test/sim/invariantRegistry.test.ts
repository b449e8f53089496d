import { expect, test } from "vitest";
import { scenarios } from "../../src/cli/simulator/scenarios.ts";
import { invariantFacts } from "../../src/sim/invariants/registry.ts";

test("every invariant that is checked has a number of the field's list", () => {
  for (const { name, invariants } of scenarios()) {
    for (const { id } of invariants) expect(invariantFacts[id], `${id} of ${name}`).toBeDefined();
  }
});

test("the invariants that need no later part are checked by the scenarios that are here", () => {
  const checked = new Set(scenarios().flatMap(({ invariants }) => invariants.map(({ id }) => id)));
  // I17 (settles and is silent) and I20 (same seed, same history) are also checked on every run as such.
  for (const id of ["I5", "I6", "I7", "I8", "I9", "I11", "I12", "I13", "I17", "I19", "I21", "I22", "I23"]) {
    expect(checked.has(id), `${id} is checked nowhere`).toBe(true);
  }
});

import { expect, test } from "vitest";
import { everythingScenario } from "../../src/sim/everything/scenario.ts";
import { violationOf } from "./slice.ts";

test("the whole control plane keeps its invariants in a fixed slice of seeds", async () => {
  expect(await violationOf(everythingScenario, { from: 1, count: 12 })).toBe("");
});

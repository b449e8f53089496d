import { expect, test } from "vitest";
import { everythingScenario } from "../../src/sim/everything/scenario.ts";
import { told } from "./slice.ts";

test("the whole control plane survives a fixed slice of seeds", async () => {
  expect(await told(everythingScenario, { from: 1, count: 12 })).toBe("");
});

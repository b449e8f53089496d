import { expect, test } from "vitest";
import { nodesScenario } from "../../src/sim/nodes/scenario.ts";
import { freshViolationOf, violationOf } from "./slice.ts";

test("simulated nodes hold I14 and I15 while nodes flap, are deleted, fail and release slowly", async () => {
  expect(await violationOf(nodesScenario, { from: 1, count: 20 })).toBe("");
  expect(await freshViolationOf(nodesScenario, 10)).toBe("");
});

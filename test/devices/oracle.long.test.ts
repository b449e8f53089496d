import { expect, test } from "vitest";
import { oracle } from "./oracle.ts";
import { agrees } from "./oracleAgrees.ts";
import { oracleCase } from "./oracleCases.ts";

test("twenty thousand cases agree with the oracle, many of them with a solution", () => {
  let answers = 0;
  for (let seed = 0; seed < 20_000; seed++) {
    agrees(seed);
    if (oracle(oracleCase(seed).forOracle) !== undefined) answers++;
  }
  expect(answers).toBeGreaterThan(5_000);
  expect(answers).toBeLessThan(15_000);
});

import fc from "fast-check";
import { test } from "vitest";
import { agrees } from "./oracleAgrees.ts";

test("a thousand cases agree with the oracle", () => {
  for (let seed = 0; seed < 1000; seed++) agrees(seed);
});

test("so do cases that nobody has seen before", () => {
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 31 - 1 }), (seed) => agrees(seed)),
    { numRuns: 500 },
  );
});

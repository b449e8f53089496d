import fc from "fast-check";
import { test } from "vitest";
import { agrees } from "./oracleAgrees.ts";

test("a thousand cases agree with the oracle", () => {
  for (let seed = 0; seed < 1000; seed++) agrees(seed);
});

test("cases of a fresh seed agree too", () => {
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 31 - 1 }), (seed) => agrees(seed)),
    { numRuns: 500 },
  );
});

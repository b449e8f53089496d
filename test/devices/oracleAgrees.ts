import { expect } from "vitest";
import { runCase } from "../../testing/decide/deviceCluster.ts";
import { oracle } from "./oracle.ts";
import { oracleCase } from "./oracleCases.ts";

/**
 * The allocator, in all three ways of searching, finds what the oracle finds first, and nothing where there is nothing.
 */
export function agrees(seed: number): void {
  const { forAllocator, forOracle } = oracleCase(seed);
  const expected = oracle(forOracle);
  for (const aids of [undefined, "never", "always"] as const) {
    const result = runCase(forAllocator, aids);
    const found =
      result.kind !== "allocated"
        ? result.kind
        : result.results.flatMap(({ devices }, claim) =>
            (devices?.results ?? []).map(
              (each) => `${claim} ${each.request} ${each.driver}/${each.pool}/${each.device}`,
            ),
          );
    expect({ aids, found }).toEqual({ aids, found: expected ?? "doesNotFit" });
  }
}

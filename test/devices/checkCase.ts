import { expect } from "vitest";
import { type AllocationCase, linesOf, nameSelector, node1, runCase } from "../../testing/decide/deviceCluster.ts";

/**
 * Runs a case three times: as a user gets it, without pruning and with pruning from the start. All three must have the
 * same result.
 */
export function checkCase(each: AllocationCase): void {
  const before = JSON.stringify([each.claims, each.slices, each.classes]);
  for (const aids of [undefined, "never", "always"] as const) {
    const result = runCase(each, aids);
    if (each.expect === "none") {
      expect(result).toMatchObject({ kind: "doesNotFit" });
    } else if ("error" in each.expect) {
      expect(result.kind).toBe("failed");
      if (result.kind !== "failed") return;
      expect(result.message).toContain(each.expect.error);
      expect(result.isNodeLocal).toBe(each.expect.isNodeLocal ?? false);
    } else {
      expect(result.kind === "failed" ? result.message : result.kind).toBe("allocated");
      if (result.kind !== "allocated") return;
      expect(result.results.map(linesOf)).toEqual(each.expect.map((lines) => [...lines].sort()));
      const local = nameSelector((each.node ?? node1).metadata.name);
      const selectors = each.selectors ?? each.expect.map(() => local);
      expect(result.results.map(({ nodeSelector }) => nodeSelector)).toEqual(selectors);
      const configs = each.configs ?? each.expect.map(() => []);
      expect(result.results.map(({ devices }) => devices?.config ?? [])).toEqual(configs);
    }
    if (each.visitsMax !== undefined) expect(result.visited).toBeLessThanOrEqual(each.visitsMax);
  }
  expect(JSON.stringify([each.claims, each.slices, each.classes])).toBe(before);
}

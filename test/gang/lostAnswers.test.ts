/** Writes of the operator without an answer: each is looked up, and none is forgotten. */
import { expect, test } from "vitest";
import { refused } from "../../src/model/outcome.ts";
import { GangCluster } from "./gangCluster.ts";
import { clique, pcs } from "./setBuilder.ts";

test("creates that were lost together are decided again, also when the first of them cannot be looked up at once", async () => {
  const cluster = await GangCluster.start({ nodes: 6 });
  let creates = 0;
  let lost = 0;
  let reads = 1;
  cluster.faults.before = (verb, what) => {
    if (verb === "create" && what.startsWith("pods ")) {
      creates++;
      // The second and the third leave together.
      if (creates !== 2 && creates !== 3) return undefined;
      lost++;
      return refused("Unknown", "timed out");
    }
    if (verb !== "list" || !what.startsWith("pods") || lost < 2 || reads-- <= 0) return undefined;
    return refused("Unavailable", "busy");
  };
  await cluster.apply(pcs("set", [clique({ name: "a", replicas: 5, min: 5 })]));
  await cluster.pass(60);
  expect(lost).toBe(2);
  expect(cluster.pods("set-0-a")).toHaveLength(5);
});

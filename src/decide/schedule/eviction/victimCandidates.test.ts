import { expect, test } from "vitest";
import { clusterWith, gang, gpuBounds, queue, together } from "../../../../testing/decide/scheduleCluster.ts";
import { VictimCandidates } from "./victimCandidates.ts";
import type { VictimRules } from "./victimRules.ts";

test("jobs are asked once for all rules of one kind, and again after an eviction", () => {
  const cluster = clusterWith({
    queues: [queue("q", gpuBounds(8))],
    ...together(gang("a", 1, { gpus: 1, on: "n1" }), gang("b", 1, { gpus: 1, on: "n1" })),
  });
  const asked: string[] = [];
  const rules = (kind: string): VictimRules =>
    ({ kind, isVictim: ({ name }: { name: string }) => asked.push(`${kind} ${name}`) < 0 }) as never;
  const candidates = new VictimCandidates(cluster);
  for (let times = 0; times < 100; times++) expect(candidates.exist(rules("one"))).toBe(false);
  expect(asked).toEqual(["one a", "one b"]);
  expect(candidates.exist(rules("two"))).toBe(false);
  expect(asked.splice(0)).toHaveLength(4);
  candidates.clear();
  candidates.exist(rules("one"));
  expect(asked).toEqual(["one a", "one b"]);
});

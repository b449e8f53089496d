import { expect, test } from "vitest";
import type { SchedulingShard } from "../../model/scheduling/schedulingShard.ts";
import { poolClusters } from "./poolClusters.ts";
import { answerWhy, jobRows, queueRows } from "./report.ts";
import { gang, node, queue, startMs, together } from "./testCluster.ts";

const none = { topologies: [], requests: [], priorityClasses: [], claims: [], volumes: [], classes: [] };
const label = { "kai.scheduler/node-pool": "gold" };

function inGold<T extends { metadata: object }>(each: T): T {
  return { ...each, metadata: { ...each.metadata, labels: label } };
}

test("every pool is asked by itself, with the settings of its shard", () => {
  const rich = gang("rich", 1, { gpus: 8 }, { queue: "gold" });
  const clusters = poolClusters(
    {
      ...none,
      nodes: [node("plain"), node("g1", { labels: label })],
      queues: [queue("q"), inGold(queue("gold"))],
      ...together({ groups: rich.groups.map(inGold), pods: rich.pods }, gang("wide", 2, { gpus: 8 })),
    },
    [{ spec: { partitionLabelValue: "gold", placementStrategy: { gpu: "spread" } } } as SchedulingShard],
  );
  expect(clusters.map(({ settings }) => [settings.nodePool, settings.gpuStrategy])).toEqual([
    ["", "binpack"],
    ["gold", "spread"],
  ]);
  const nowMs = startMs + 60_000;
  expect(clusters.map((cluster) => jobRows(cluster, nowMs).map(({ id, reason }) => [id, reason]))).toEqual([
    [["default/wide", "PodSchedulingErrors"]],
    [["default/rich", "fits now"]],
  ]);
  expect(clusters.map((cluster) => queueRows(cluster, nowMs).map(({ name }) => name))).toEqual([["q"], ["gold"]]);
  const answers = clusters.flatMap((cluster) => answerWhy(cluster, "rich-000", nowMs));
  expect(answers.map(({ next }) => next)).toEqual(["it fits g1 now"]);
});

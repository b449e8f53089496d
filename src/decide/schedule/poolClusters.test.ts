import { expect, test } from "vitest";
import { gang, node, queue, startMs, together } from "../../../testing/decide/scheduleCluster.ts";
import type { SchedulingShard } from "../../model/scheduling/schedulingShard.ts";
import { answerWhy, jobRows, queueRows } from "./explain/report.ts";
import { poolClusters } from "./poolClusters.ts";

const none = { topologies: [], requests: [], priorityClasses: [], volumeClaims: [], volumes: [], classes: [] };
const label = { "kai.scheduler/node-pool": "gold" };

function inGold<T extends { metadata: object }>(each: T): T {
  return { ...each, metadata: { ...each.metadata, labels: label } };
}

test("a queue of another pool is there, and not for this one", () => {
  const words = gang("a", 1, {}, { queue: "gold" });
  const ask = (groups: typeof words.groups, queues: ReturnType<typeof queue>[]) =>
    poolClusters({ ...none, nodes: [node("n1"), node("n2", { labels: label })], queues, groups, pods: words.pods }, [
      { spec: { partitionLabelValue: "gold" } } as SchedulingShard,
    ]).flatMap((cluster) => answerWhy(cluster, "a", startMs + 60_000));
  expect(ask(words.groups, [inGold(queue("gold"))])).toMatchObject([
    {
      reason: "QueueTakesNoPods",
      message: "queue gold is of node pool gold, and PodGroup default/a is of node pool default",
      cure: "name a queue of node pool default, or set the label kai.scheduler/node-pool to gold on PodGroup default/a",
    },
  ]);
  expect(ask(words.groups.map(inGold), [inGold(queue("gold"))])).toMatchObject([{ next: "it fits n2 now" }]);
  expect(ask(words.groups.map(inGold), [queue("gold")])[0]?.cure).toBe(
    "name a queue of node pool gold, or remove the label kai.scheduler/node-pool from PodGroup default/a",
  );
});

test("a pool that no shard names has no scheduler", () => {
  const words = gang("a", 1, { gpus: 1 });
  const groups = words.groups.map(inGold);
  const [, gold] = poolClusters(
    { ...none, nodes: [node("n1", { labels: label })], queues: [inGold(queue("q"))], groups, pods: words.pods },
    [],
  );
  expect(jobRows(gold!, startMs).map(({ reason }) => reason)).toEqual(["NoScheduler"]);
  expect(answerWhy(gold!, "a-000", startMs)).toMatchObject([{ reason: "NoScheduler", next: "" }]);
});

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

import { describe, expect, test } from "vitest";
import { clusterWith, gpuBounds, group, node, pod, queue, startMs } from "../../../testing/decide/scheduleCluster.ts";
import type { Cluster } from "../schedule/cluster/cluster.ts";
import { cycle } from "../schedule/cycle.ts";
import { explain } from "../schedule/explain/explain.ts";
import { headline } from "./headline.ts";

test.each([
  [
    "PodSchedulingErrors",
    "group a needs places for 8 pods at once and 3 were found: x",
    "Three of eight places found. A gang starts whole or not at all.",
  ],
  [
    "PodSchedulingErrors",
    "pod a/b requests 16 GPUs, and the largest node has 8",
    "No node will ever have sixteen GPUs.",
  ],
  [
    "PodSchedulingErrors",
    "group a needs places for 4 pods at once and 3 were found: not enough resources for the workload in one rack: r1 has resources for 3 of 4 pods",
    "Three of four places in one rack. It asked for one rack.",
  ],
  ["PodSchedulingErrors", "pod a/b fits 0 of 64 nodes: 64 node(s) have not enough GPUs", "No node has a place for it."],
  [
    "OverLimit",
    "queue q has reached its limit of gpu: the limit is 80, 72 are in use, 16 more are requested",
    "Its queue may hold 80 GPUs, and has 72.",
  ],
  [
    "NonPreemptibleOverQuota",
    "a cannot be evicted and goes beyond the gpu quota of queue q: the quota is 5, work",
    "It cannot be evicted, so it must fit the quota.",
  ],
  ["NotReady", "group a waits for 4 pods, 3 exist, 1 of them gated", "It waits for a pod that does not exist yet."],
  ["SchedulingGated", "its schedulingGates keep it from being placed: x", "It has scheduling gates."],
  ["QueueDoesNotExist", "queue q does not exist", "Its queue does not exist."],
  [
    "QueueTakesNoPods",
    "queue q has queues below it; only queues without children take workloads",
    "Its queue takes no workloads.",
  ],
  [
    "PreemptionDelayNotElapsed",
    "it may not preempt before 2026-01-01T14:40:00Z (preemptionDelay), and nothing is free",
    "It may evict others from 14:40 UTC on.",
  ],
  ["BindingRefused", "no", "A place was found, and the bind was refused."],
])("%s, %s", (reason, message, head) => {
  const found = headline({ reason, message, cure: "" }, false);
  expect(found.head).toBe(head);
  expect(found.head.length).toBeLessThanOrEqual(70);
  expect(found.short.length).toBeLessThanOrEqual(48);
});

test("a job that is nominated has its places, whatever was reported before", () => {
  expect(headline({ reason: "OverLimit", message: "", cure: "" }, true).head).toBe(
    "It has its places. Pods are still leaving them.",
  );
});

describe("what the scheduler really says", () => {
  const nowMs = startMs + 60_000;
  const said = (cluster: Cluster): string[] => {
    const found: string[] = [];
    cycle(cluster, nowMs, (session) => {
      for (const [job, obstacle] of session.obstacles)
        found.push(headline(explain(session, job, obstacle), false).head);
    });
    return found;
  };

  test("has a head sentence of its own: larger than any node, half a gang, a queue at its limit", () => {
    const nodes = [node("n1", { gpus: 2 })];
    const queues = [queue("q", gpuBounds(2)), queue("small", gpuBounds(1, 1))];
    const large = { groups: [group("large")], pods: [pod("p", { gpus: 3, group: "large" })] };
    expect(said(clusterWith({ nodes, queues, ...large }))).toEqual(["No node will ever have three GPUs."]);
    const half = {
      groups: [group("gang", { minMember: 3 })],
      pods: ["a", "b", "c"].map((name) => pod(name, { gpus: 1, group: "gang" })),
    };
    expect(said(clusterWith({ nodes, queues, ...half }))).toEqual([
      "Two of three places found. A gang starts whole or not at all.",
    ]);
    const over = { groups: [group("over", { queue: "small" })], pods: [pod("o", { gpus: 2, group: "over" })] };
    expect(said(clusterWith({ nodes, queues, ...over }))).toEqual(["Its queue may hold 1 GPUs, and has 0."]);
  });
});

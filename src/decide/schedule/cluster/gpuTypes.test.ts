import { describe, expect, test } from "vitest";
import {
  addPod,
  carryOut,
  clusterWith,
  decide,
  gang,
  group,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import { cycle } from "../cycle.ts";
import { explain } from "../explain/explain.ts";
import { sentenceOf } from "../explain/verdict.ts";

const ofType = (type: string) => ({ labels: { "nvidia.com/gpu.product": type } });
const nodes = [node("a1", ofType("A100")), node("h1", ofType("H100"))];
const unbounded = { quota: -1, limit: -1, overQuotaWeight: 1 };
const bounded = (gpuTypes: Record<string, { quota?: number; limit?: number }>, more: object = {}) => ({
  resources: { gpu: unbounded, cpu: unbounded, memory: unbounded, gpuTypes },
  ...more,
});
const typesOf = (placed: Record<string, string>): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const name of Object.values(placed)) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
};
const jobs = (queueName: string, count: number, words: object = { gpus: 1 }, spec: object = {}) =>
  together(
    ...Array.from({ length: count }, (_, at) => gang(`${queueName}${at}`, 1, words, { queue: queueName, ...spec })),
  );

describe("a queue's bounds by type of GPU", () => {
  test("beyond the limit of one type other types are used", () => {
    const queues = [queue("q", bounded({ A100: { limit: 2 } }))];
    expect(typesOf(outcome(decide(clusterWith({ nodes, queues, ...jobs("q", 6) }))))).toEqual({ a1: 2, h1: 4 });
  });

  test("a type that is not named has no bound, and no GPU at all needs none", () => {
    const queues = [queue("q", bounded({ A100: { limit: 0 }, H100: { limit: 0 } }))];
    const other = [...nodes, node("x1", ofType("B200"))];
    expect(typesOf(outcome(decide(clusterWith({ nodes: other, queues, ...jobs("q", 3) }))))).toEqual({ x1: 3 });
    expect(Object.keys(outcome(decide(clusterWith({ nodes, queues, ...jobs("q", 2, { cpu: "1" }) }))))).toHaveLength(2);
  });

  test("the limit of a queue above holds for all below it together", () => {
    const queues = [
      queue("top", bounded({ A100: { limit: 3 }, H100: { limit: 0 } })),
      queue("x", bounded({}, { parentQueue: "top" })),
      queue("y", bounded({}, { parentQueue: "top" })),
    ];
    const placed = outcome(decide(clusterWith({ nodes, queues, ...together(jobs("x", 3), jobs("y", 3)) })));
    expect(typesOf(placed)).toEqual({ a1: 3 });
  });

  test("what runs counts, and counts no more when it ends", () => {
    const queues = [queue("q", bounded({ A100: { limit: 1 }, H100: { limit: 0 } }))];
    const cluster = clusterWith({ nodes, queues, ...jobs("q", 2) });
    carryOut(cluster, cycle(cluster, startMs));
    expect(outcome(decide(cluster))).toEqual({});
    addPod(cluster, pod("q0-000", { gpus: 1, group: "q0", on: "a1", phase: "Succeeded" }));
    expect(typesOf(outcome(decide(cluster)))).toEqual({ a1: 1 });
    cluster.assertCounts();
  });

  test("a share counts as much as it is", () => {
    const queues = [queue("q", bounded({ A100: { limit: 1 }, H100: { limit: 0 } }))];
    expect(typesOf(outcome(decide(clusterWith({ nodes, queues, ...jobs("q", 3, { fraction: "0.5" }) }))))).toEqual({
      a1: 2,
    });
  });

  test("work that cannot be evicted stays within the quota of a type", () => {
    const queues = [queue("q", bounded({ A100: { quota: 1 }, H100: { quota: 0 } }))];
    const fixed = jobs("q", 3, { gpus: 1 }, { preemptibility: "non-preemptible" });
    expect(typesOf(outcome(decide(clusterWith({ nodes, queues, ...fixed }))))).toEqual({ a1: 1 });
    expect(Object.keys(outcome(decide(clusterWith({ nodes, queues, ...jobs("q", 3) }))))).toHaveLength(3);
  });

  test("a gang that would go beyond it does not begin", () => {
    const queues = [queue("q", bounded({ A100: { limit: 2 }, H100: { limit: 1 } }))];
    const gangOf = (count: number) => gang("g", count, { gpus: 1 }, { queue: "q" });
    expect(outcome(decide(clusterWith({ nodes, queues, ...gangOf(4) })))).toEqual({});
    expect(typesOf(outcome(decide(clusterWith({ nodes, queues, ...gangOf(3) }))))).toEqual({ a1: 2, h1: 1 });
  });

  test("a node whose type becomes known later counts from then on", () => {
    const queues = [queue("q", bounded({ A100: { limit: 1 } }))];
    const cluster = clusterWith({ nodes: [node("n")], queues, groups: [group("r", { queue: "q" })] });
    addPod(cluster, pod("r", { gpus: 1, group: "r", on: "n", phase: "Running" }));
    cluster.putNode(node("n", ofType("A100")));
    cluster.putPodGroup(group("late", { queue: "q" }));
    addPod(cluster, pod("late", { gpus: 1, group: "late" }));
    expect(outcome(decide(cluster))).toEqual({});
    cluster.assertCounts();
  });

  test("the reason names queue, type and limit", () => {
    const queues = [queue("q", bounded({ A100: { limit: 0 }, H100: { limit: 0 } }))];
    const cluster = clusterWith({ nodes, queues, ...jobs("q", 1) });
    let sentence = "";
    cycle(cluster, startMs, (session) => {
      for (const [job, obstacle] of session.obstacles) sentence = sentenceOf(explain(session, job, obstacle));
    });
    expect(sentence).toContain(
      "1 node(s) have GPUs of type A100, and the pod would exceed the limit of 0 that queue q has for this type",
    );
    expect(sentence).toContain("To run: give queue q a higher limit of A100");
  });
});

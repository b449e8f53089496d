import { expect, test } from "vitest";
import { clusterWith, gpuBounds, group, node, pod, queue, startMs } from "../../../testing/decide/scheduleCluster.ts";
import { whyOf } from "./why.ts";

const nowMs = startMs + 60_000;

function cluster() {
  const product = { "nvidia.com/gpu.product": "T4" };
  const selector = { nodeSelector: { kind: "big" } };
  const big = { kind: "big" };
  return clusterWith({
    nodes: [
      node("a", { labels: big }),
      node("b", { labels: big }),
      node("c", { labels: big, spec: { unschedulable: true } }),
      node("t", { gpus: 2, labels: product }),
    ],
    queues: [queue("q", gpuBounds(8)), queue("r", gpuBounds(8))],
    groups: [group("wants", { minMember: 2 }), group("has", { queue: "q", priorityClassName: "train" })],
    pods: [
      pod("has-0", { gpus: 4, group: "has", on: "b" }),
      pod("w-0", { gpus: 8, group: "wants", spec: selector }),
      pod("w-1", { gpus: 8, group: "wants", spec: selector }),
    ],
  });
}

test("every node is found or refused for one reason, and the counts add up", () => {
  const why = whyOf(cluster(), "default/wants", nowMs);
  expect(why?.places).toEqual({ needed: 2, found: ["a"] });
  expect(why?.evidence.map((each) => [each.class, each.nodes])).toEqual(
    expect.arrayContaining([
      ["unhealthy", ["c"]],
      ["selector", ["t"]],
    ]),
  );
  const refused = why?.evidence.reduce((sum, { nodes }) => sum + nodes.length, 0) ?? 0;
  expect(refused + new Set(why?.places.found).size).toBe(why?.total);
});

test("a smaller minimum starts on the places that were found, and does start when it is set", () => {
  const given = cluster();
  const cures = whyOf(given, "default/wants", nowMs)?.cures ?? [];
  expect(cures.find(({ id }) => id === "min=1")).toMatchObject({ verdict: "starts" });
  given.putPodGroup(group("wants", { minMember: 1 }));
  expect(whyOf(given, "default/wants", nowMs)?.places.needed ?? 1).toBe(1);
});

test("holders are named with their GPUs, and why they are not evicted for it", () => {
  const holders = whyOf(cluster(), "default/wants", nowMs)?.holders ?? [];
  expect(holders).toEqual([expect.objectContaining({ of: "default/has", queue: "q", gpus: 4000, evictable: false })]);
  expect(holders[0]?.why).toContain("own queue");
});

test("a question leaves the cluster as it was, and a job that does not wait has no answer", () => {
  const given = cluster();
  const first = whyOf(given, "default/wants", nowMs);
  expect(whyOf(given, "default/wants", nowMs)).toEqual(first);
  given.assertCounts();
  expect(whyOf(given, "default/has", nowMs)).toBeUndefined();
});

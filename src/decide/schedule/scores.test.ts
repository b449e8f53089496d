import { describe, expect, test } from "vitest";
import { decide, gang, group, node, outcome, pod, startMs, together, world } from "./testCluster.ts";

const likes = (label: string, weight = 1) =>
  ({
    affinity: {
      podAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          {
            weight,
            podAffinityTerm: { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: label } } },
          },
        ],
      },
    },
  }) as never;

describe("of two nodes", () => {
  const friend = { groups: [group("f")], pods: [pod("f", { on: "n2", group: "f", labels: { app: "db" } })] };

  test("the one with company that the pod likes is better than the one that is fuller", () => {
    const full = gang("x", 1, { gpus: 4, on: "n1" });
    const cluster = world({
      nodes: [node("n1"), node("n2")],
      ...together(friend, full, gang("a", 1, { gpus: 1, spec: likes("db") })),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("the one that was promised is better than company", () => {
    const status = { nominatedNodeName: "n1" } as never;
    const cluster = world({
      nodes: [node("n1"), node("n2")],
      ...together(friend, gang("a", 1, { gpus: 1, spec: likes("db"), status })),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n1" });
  });

  test("the one where nothing has to be waited for is better than the fuller one", () => {
    const going = gang("x", 1, { gpus: 8, on: "n1", deletedMs: startMs + 3_600_000 });
    const cluster = world({
      nodes: [node("n1"), node("n2")],
      ...together(going, gang("a", 1, { gpus: 1 })),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("a shared GPU with room is better than one where a pod without GPUs would go", () => {
    const cluster = world({
      nodes: [node("n1"), node("n2")],
      ...together(
        { groups: [group("s")], pods: [pod("s", { fraction: "0.5", on: "n2", group: "s", groups: ["g"] })] },
        gang("x", 1, { gpus: 7, on: "n1" }),
        gang("a", 1, { fraction: "0.5" }),
      ),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("a node whose GPUs are for claims takes no share of one", () => {
    const cluster = world({ nodes: [node("dra", { gpus: 0 })], ...gang("a", 1, { fraction: "0.5" }) });
    cluster.setClaimGpus("dra", 8);
    expect(outcome(decide(cluster))).toEqual({});
  });
});

import { describe, expect, test } from "vitest";
import {
  clusterWith,
  decide,
  evicted,
  gang,
  gpuBounds,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../testing/decide/scheduleCluster.ts";

/** Elastic jobs shrink before any job dies: pods beyond the minimum are evicted before a core. */

/** A job with a pod of one GPU on each of the nodes. */
const across = (name: string, nodes: readonly string[], spec: Parameters<typeof gang>[3] = {}) => {
  const { groups, pods } = gang(name, nodes.length, { gpus: 1 }, spec);
  const on = (at: number) => ({ gpus: 1, on: nodes[at] ?? "", group: name });
  return { groups, pods: pods.map(({ metadata }, at) => pod(metadata.name, on(at))) };
};
const high = { priorityClassName: "build-preemptible" };

describe("pods beyond the minimum of all victims are evicted before a core", () => {
  test("in preemption, from several elastic jobs", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 4 })],
        ...together(
          gang("old", 2, { gpus: 1, on: "n1" }, { minMember: 1, createdMs: startMs - 9_000 }),
          gang("young", 2, { gpus: 1, on: "n1" }, { minMember: 1 }),
          gang("high", 1, { gpus: 2 }, high),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["old-001", "young-001"]);
    expect(outcome(plan)).toEqual({ "high-000": "~n1" });
  });

  test("also of a job with a higher priority than the one that would die", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 3 })],
        ...together(
          gang("rigid", 1, { gpus: 1, on: "n1" }),
          gang("elastic", 2, { gpus: 1, on: "n1" }, { minMember: 1, ...high }),
          gang("boss", 1, { gpus: 1 }, { priorityClassName: "inference", preemptibility: "preemptible" }),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["elastic-001"]);
  });

  test("on another node, where the core would be a single pod", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 2 }), node("n2", { gpus: 2 }), node("n3", { gpus: 1 })],
        ...together(
          gang("rigid", 1, { gpus: 2, on: "n1" }),
          across("elastic", ["n3", "n2", "n2"], { minMember: 1 }),
          gang("high", 1, { gpus: 2 }, high),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["elastic-001", "elastic-002"]);
    expect(outcome(plan)).toEqual({ "high-000": "~n2" });
  });

  test("in reclaim, of the queues beyond their share", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 4 })],
        queues: [queue("mine", gpuBounds(2)), queue("theirs", gpuBounds(2))],
        ...together(
          gang("old", 2, { gpus: 1, on: "n1" }, { queue: "theirs", minMember: 1, createdMs: startMs - 9_000 }),
          gang("young", 2, { gpus: 1, on: "n1" }, { queue: "theirs", minMember: 1 }),
          gang("m", 2, { gpus: 1 }, { queue: "mine" }),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["old-001", "young-001"]);
  });

  test("for a gang, although its first pod could take what another job's core needs", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 3 }), node("n2", { gpus: 1 })],
        ...together(
          across("both", ["n1", "n2"], { minMember: 1, createdMs: startMs + 1_000 }),
          across("first", ["n1", "n1"], { minMember: 1 }),
          gang("high", 2, { gpus: 1 }, high),
        ),
      }),
    );
    expect(evicted(plan)).toHaveLength(2);
    expect(new Set(evicted(plan).map((name) => name.split("-")[0]))).toEqual(new Set(["both", "first"]));
  });

  test("and the surplus stays where the core alone is enough", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 4 })],
        ...together(
          gang("elastic", 2, { gpus: 1, on: "n1" }, { minMember: 1, ...high }),
          gang("rigid", 1, { gpus: 2, on: "n1" }),
          gang("boss", 1, { gpus: 2 }, { priorityClassName: "inference", preemptibility: "preemptible" }),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["rigid-000"]);
  });
});

describe("no more pods go than have to", () => {
  test("under the limit of a queue: two of four", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 8 })],
        queues: [queue("solo", gpuBounds(4, 4))],
        ...together(
          gang("elastic", 4, { gpus: 1, on: "n1" }, { queue: "solo", minMember: 1 }),
          gang("high", 2, { gpus: 1 }, { queue: "solo", ...high }),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["elastic-002", "elastic-003"]);
  });

  test("under a limit, a subgroup that is not required before the core of any job", () => {
    const subGroups = ["a", "b"].map((name) => ({ name, minMember: 2 }));
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 8 })],
        queues: [queue("solo", gpuBounds(6, 6))],
        ...together(
          gang("rigid", 2, { gpus: 1, on: "n1" }, { queue: "solo" }),
          {
            groups: gang("parts", 1, {}, { queue: "solo", subGroups, minSubGroup: 1 }).groups,
            pods: subGroups.flatMap(({ name }) =>
              [0, 1].map((at) => pod(`parts-${name}${at}`, { gpus: 1, on: "n1", group: "parts", subGroup: name })),
            ),
          },
          gang("high", 1, { gpus: 1 }, { queue: "solo", ...high }),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["parts-b0", "parts-b1"]);
  });

  test("of a gang and a job alone the gang, which is enough by itself", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 2 }), node("n2", { gpus: 2 })],
        ...together(
          gang("alone", 1, { gpus: 1, on: "n1" }, { createdMs: startMs + 1_000 }),
          across("three", ["n1", "n2", "n2"]),
          gang("high", 3, { gpus: 1 }, high),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["three-000", "three-001", "three-002"]);
  });
});

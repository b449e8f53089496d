import { describe, expect, test } from "vitest";
import {
  clusterWith,
  decide,
  evicted,
  gang,
  gpuBounds,
  node,
  outcome,
  queue,
  startMs,
  together,
  topology,
} from "../../../testing/decide/scheduleCluster.ts";

/** Pods are moved together so that a job fits, and each of them has its place before the first is evicted. */

const rack = (name: string, at: string) => node(name, { gpus: 2, labels: { rack: at } });
const inRack = { topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } };
const alone = (name: string, on: string, gpus: number, ageMs: number) =>
  gang(name, 1, { gpus, on }, { createdMs: startMs - ageMs });

describe("a job that must be close together", () => {
  const topologies = [topology("t", "rack")];

  test("gets a rack out of which the youngest job can move", () => {
    const plan = decide(
      clusterWith({
        topologies,
        nodes: [rack("a1", "a"), rack("b1", "b")],
        ...together(alone("old", "a1", 1, 9_000), alone("young", "b1", 1, 1_000), gang("w", 2, { gpus: 1 }, inRack)),
      }),
    );
    expect(outcome(plan)).toEqual({ "w-000": "~b1", "w-001": "~b1" });
    expect(evicted(plan)).toEqual(["young-000"]);
  });

  test("leaves a job where it is that has no other place, and moves another", () => {
    const plan = decide(
      clusterWith({
        topologies,
        nodes: [rack("a1", "a"), rack("b1", "b"), rack("b2", "b")],
        ...together(
          alone("old", "a1", 1, 9_000),
          alone("large", "b1", 2, 1_000),
          alone("small", "b2", 1, 5_000),
          gang("w", 2, { gpus: 1 }, inRack),
        ),
      }),
    );
    expect(outcome(plan)).toEqual({ "w-000": "~b2", "w-001": "~b2" });
    expect(evicted(plan)).toEqual(["small-000"]);
  });

  test("waits where no rack can be emptied", () => {
    const plan = decide(
      clusterWith({
        topologies,
        nodes: [rack("a1", "a"), rack("b1", "b")],
        ...together(alone("old", "a1", 1, 9_000), alone("young", "b1", 1, 1_000), gang("w", 3, { gpus: 1 }, inRack)),
      }),
    );
    expect(evicted(plan)).toEqual([]);
  });
});

test("of two pods of a node the older one moves where the younger one has no other place", () => {
  const plan = decide(
    clusterWith({
      nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 4 })],
      ...together(
        alone("full", "n1", 3, 30_000),
        alone("small", "n2", 1, 20_000),
        alone("large", "n2", 2, 10_000),
        gang("w", 1, { gpus: 2 }),
      ),
    }),
  );
  expect(outcome(plan)).toEqual({ "w-000": "~n2" });
  expect(evicted(plan)).toEqual(["small-000"]);
});

describe("a job beyond the share of its queue", () => {
  const words = (more: ReturnType<typeof gang>) => ({
    nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 4 })],
    queues: [queue("mine", gpuBounds(4)), queue("theirs", gpuBounds(4))],
    ...together(
      gang("a", 1, { gpus: 2, on: "n1" }, { queue: "theirs", createdMs: startMs - 3_000 }),
      gang("b", 1, { gpus: 2, on: "n2" }, { queue: "theirs", createdMs: startMs - 2_000 }),
      gang("c", 1, { gpus: 1, on: "n2" }, { queue: "theirs", createdMs: startMs - 1_000 }),
      gang("w", 1, { gpus: 3 }, { queue: "theirs" }),
      more,
    ),
  });

  test("is not started just before another queue takes back what is its own", () => {
    const plan = decide(clusterWith(words(gang("m", 1, { gpus: 4 }, { queue: "mine" }))));
    expect(Object.keys(outcome(plan))).toEqual(["m-000"]);
    expect(evicted(plan)).toEqual(["a-000"]);
  });

  test("is started where the other queue can take nothing back", () => {
    const tooLarge = gang("m", 2, { gpus: 4 }, { queue: "mine" });
    const plan = decide(clusterWith(words(tooLarge)));
    expect(Object.keys(outcome(plan))).toEqual(["w-000"]);
    // The job fits into its queue's share, but no node that it accepts can be freed.
    const nowhere = gang("m", 1, { gpus: 4, spec: { nodeSelector: { zone: "none" } } }, { queue: "mine" });
    expect(Object.keys(outcome(decide(clusterWith(words(nowhere)))))).toEqual(["w-000"]);
  });
});

import { describe, expect, test } from "vitest";
import {
  clusterWith,
  decide,
  evicted,
  gang,
  gpuBounds,
  group,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../testing/decide/scheduleCluster.ts";
import { cycle } from "./cycle.ts";

/** What others were evicted for is kept until it is taken, and nobody takes it twice. */

const promised = { nominatedNodeName: "n1" } as never;

describe("what was promised to a pod", () => {
  const backOffs = (times: number) => {
    const mine = pod("a-000", { gpus: 2, group: "a", status: promised });
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      ...together({ groups: [group("a")], pods: [mine] }, gang("b", 1, { gpus: 2 })),
    });
    cluster.backOffs.set(mine.metadata.uid, { untilMs: startMs + 5_000, why: "the bind failed", times });
    return decide(cluster, startMs + 1_000);
  };

  test("is kept for it while it waits after a bind that failed", () => {
    const plan = backOffs(1);
    expect(outcome(plan)).toEqual({});
    expect(plan.broken.size).toBe(0);
  });

  test("is given to others when its bind has failed again and again", () => {
    const plan = backOffs(6);
    expect(outcome(plan)).toEqual({ "b-000": "n1" });
    expect([...plan.broken.keys()]).toEqual([pod("a-000", {}).metadata.uid]);
  });

  test("is not used by a third pod that evicts another one, though it is free at this moment", () => {
    // n1: 3 free, 2 about to be, 4 of them promised. `small` may go, so `late` fits when it has gone, and not before.
    const gangPods = gang("first", 2, { gpus: 2 }).pods.map((each) => ({
      ...each,
      status: { ...each.status, nominatedNodeName: "n1" },
    }));
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 6 })],
      queues: [queue("mine", gpuBounds(6)), queue("theirs", gpuBounds(0))],
      ...together(
        { groups: [group("first", { minMember: 2, queue: "mine" })], pods: gangPods },
        {
          groups: [group("old")],
          pods: [pod("leaving", { gpus: 2, on: "n1", group: "old", deletedMs: startMs + 30_000 })],
        },
        gang("small", 1, { gpus: 1, on: "n1" }, { queue: "theirs" }),
        gang("late", 1, { gpus: 2 }, { queue: "mine", createdMs: startMs + 500 }),
      ),
    });
    const plan = decide(cluster, startMs + 1_000);
    expect(evicted(plan)).toEqual(["small-000"]);
    expect(outcome(plan)).toEqual({ "first-000": "~n1", "first-001": "~n1", "late-000": "~n1" });
  });
});

test("a cycle that throws leaves nothing of what it tried", () => {
  const cluster = clusterWith({ nodes: [node("n1")], ...gang("a", 1, { gpus: 8 }) });
  expect(() =>
    cycle(cluster, startMs, () => {
      throw new Error("no words for it");
    }),
  ).toThrow("no words for it");
  cluster.assertCounts();
  expect(outcome(decide(cluster))).toEqual({ "a-000": "n1" });
});

test("a pod that could be evicted when it has arrived changes what is decided, and one that no job wants to evict does not", () => {
  const queues = [queue("mine", gpuBounds(4)), queue("theirs", gpuBounds(0))];
  const theirs = gang("t", 1, { gpus: 4 }, { queue: "theirs" });
  const [victim] = theirs.pods;
  const arrive = (waits: boolean) => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 4 })],
      queues,
      ...together(theirs, ...(waits ? [gang("m", 1, { gpus: 4 }, { queue: "mine" })] : [])),
    });
    const { uid } = victim!.metadata;
    cluster.setPlaces(uid, [{ node: "n1", groups: [] }]);
    expect(evicted(decide(cluster))).toEqual([]);
    const before = cluster.changes.count;
    cluster.putPod({ ...victim!, spec: { ...victim!.spec!, nodeName: "n1" } });
    cluster.setPlaces(uid, [{ node: "n1", groups: [] }]);
    return { hasChanged: cluster.changes.count > before, goes: evicted(decide(cluster)) };
  };
  expect(arrive(true)).toEqual({ hasChanged: true, goes: ["t-000"] });
  expect(arrive(false)).toEqual({ hasChanged: false, goes: [] });
});

import { expect, test } from "vitest";
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

/** A victim gang is evicted as a whole, and not for jobs that have their share already. */

test("a gang with one pod in the way is evicted as a whole", () => {
  const words = (minMember: number) => ({
    nodes: [node("n1"), node("n2")],
    groups: [group("v", { minMember }), group("vip", { priorityClassName: "build-preemptible" })],
    pods: [
      // The newcomer goes to n1, so that the first pod could stay.
      pod("v-0", { gpus: 8, on: "n2", group: "v" }),
      pod("v-1", { gpus: 8, on: "n1", group: "v" }),
      pod("vip", { gpus: 8, group: "vip" }),
    ],
  });
  const plan = decide(clusterWith(words(2)));
  expect(outcome(plan)).toEqual({ vip: "~n1" });
  expect(evicted(plan)).toEqual(["v-0", "v-1"]);
  expect(evicted(decide(clusterWith(words(1))))).toEqual(["v-1"]);
});

test("a queue that would have more than its fair share takes nothing back, however far others are beyond theirs", () => {
  const nowhere = { spec: { nodeSelector: { zone: "nowhere" } } };
  const words = (mine: number) => ({
    nodes: [node("n1", { gpus: 9 })],
    queues: ["mine", "theirs", "third"].map((name) => queue(name, gpuBounds(3))),
    settings: { actions: ["allocate", "reclaim"] as const },
    ...together(
      gang("t", 9 - mine, { gpus: 1, on: "n1" }, { queue: "theirs", minMember: 1 }),
      gang("m", mine, { gpus: 1, on: "n1" }, { queue: "mine", minMember: 1 }),
      // It wants its share, and fits nowhere.
      gang("w", 3, { gpus: 1, ...nowhere }, { queue: "third", createdMs: startMs }),
      gang("n", 1, { gpus: 1 }, { queue: "mine" }),
    ),
  });
  expect(evicted(decide(clusterWith(words(3))))).toEqual([]);
  expect(evicted(decide(clusterWith(words(2))))).toHaveLength(1);
});

test("a gang below its minimum that needs not go stays, though another one cannot", () => {
  const plan = decide(
    clusterWith({
      queues: ["red", "blue"].map((name) => queue(name, gpuBounds(4))),
      nodes: [node("n0", { gpus: 4 })],
      groups: [
        // A pod of it is on a node that was deleted.
        group("lost", { minMember: 3, queue: "red" }),
        group("small", { minMember: 2, queue: "red" }),
        group("own", { minMember: 2, queue: "blue" }),
        group("vip", { queue: "blue", priorityClassName: "build-preemptible" }),
      ],
      pods: [
        pod("lost-0", { gpus: 1, on: "n1", group: "lost" }),
        pod("lost-1", { gpus: 1, on: "n0", group: "lost" }),
        pod("lost-2", { gpus: 1, on: "n0", group: "lost" }),
        pod("small-0", { gpus: 1, on: "n0", group: "small" }),
        pod("own-0", { gpus: 1, on: "n0", group: "own" }),
        pod("vip", { fraction: "0.4", group: "vip" }),
      ],
    }),
  );
  expect(plan.faults).toEqual([]);
  expect(outcome(plan)).toEqual({ vip: "~n0" });
  expect(evicted(plan)).not.toContain("small-0");
});

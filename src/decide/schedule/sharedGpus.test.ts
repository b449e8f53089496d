import { describe, expect, test } from "vitest";
import { clusterWith, decide, group, node, outcome, pod, startMs } from "../../../testing/decide/scheduleCluster.ts";
import type { Settings } from "./settings.ts";

/** A GPU that is shared has to hold its sharers now and when those who go have gone. */

const goes = { deletedMs: startMs + 3_600_000 };
const on = (gpu: string, fraction: string, more = {}) => ({ fraction, on: "n1", groups: [gpu], group: "x", ...more });

/** Which GPUs a pod that comes shares from now on, and who waits for others to go. */
function decided(settings: Partial<Settings>, ...pods: ReturnType<typeof pod>[]) {
  const groups = [group("x"), group("first", { createdMs: startMs - 9 }), group("p")];
  const { jobs } = decide(clusterWith({ settings, nodes: [node("n1", { gpus: 2 })], groups, pods }));
  return {
    joins: jobs.flatMap(({ binds }) => binds.flatMap(({ groups: gpus }) => gpus)),
    waits: jobs.flatMap(({ pipelined }) => pipelined.map(({ task }) => task.name)),
  };
}

test("the fuller of two GPUs is not joined when what is left of it was promised to another", () => {
  const sharers = [
    // 0.8 are used, and 0.5 when the second has gone.
    pod("s1", on("fuller", "0.5")),
    pod("s2", on("fuller", "0.3", goes)),
    pod("t", on("other", "0.6")),
  ];
  const first = pod("first", { fraction: "0.5", group: "first" });
  const p = pod("p", { fraction: "0.2", group: "p" });
  expect(decided({}, ...sharers, p)).toEqual({ joins: ["fuller"], waits: [] });
  expect(decided({}, ...sharers, first, p)).toEqual({ joins: ["other"], waits: ["first"] });
});

test("the emptier of two GPUs is not joined when it was promised to another as a whole", () => {
  const sharers = [pod("s", on("emptier", "0.1", goes)), pod("t", on("other", "0.2"))];
  const first = pod("first", { gpus: 1, group: "first" });
  const p = pod("p", { fraction: "0.5", group: "p" });
  const spread = { gpuStrategy: "spread" } as const;
  expect(decided(spread, ...sharers, p)).toEqual({ joins: ["emptier"], waits: [] });
  expect(decided(spread, ...sharers, first, p)).toEqual({ joins: ["other"], waits: ["first"] });
});

test.each(["binpack", "spread"] as const)(
  "a node that has given out more GPUs than it has left gives no share (%s)",
  (gpuStrategy) => {
    const sharers = ["a", "b", "c"].map((gpu) => pod(`s-${gpu}`, on(gpu, "0.1")));
    const p = pod("p", { fraction: "0.2", group: "p" });
    expect(decided({ gpuStrategy }, ...sharers, p)).toEqual({ joins: [], waits: [] });
  },
);

describe("a share that fits a shared GPU when a pod there has gone", () => {
  const sharers = [pod("s1", on("shared", "0.5")), pod("s2", on("shared", "0.5", goes))];
  const p = pod("p", { fraction: "0.5", group: "p" });

  test("waits for it, and the free GPU stays whole", () => {
    expect(decided({}, ...sharers, p)).toEqual({ joins: [], waits: ["p"] });
  });

  test("takes a free GPU where pods are spread", () => {
    expect(decided({ gpuStrategy: "spread" }, ...sharers, p)).toMatchObject({ waits: [] });
  });

  test("does not wait for a GPU that no pod will share any more", () => {
    const [, leaving] = sharers;
    expect(decided({}, leaving as typeof p, p).waits).toEqual([]);
  });

  test("does not wait for a pod that is stuck", () => {
    const stuck = pod("s2", on("shared", "0.5", { deletedMs: startMs - 3_600_000 }));
    expect(decided({}, sharers[0] as typeof p, stuck, p).waits).toEqual([]);
  });
});

test.each([
  ["binpack", "n1"],
  ["spread", "n2"],
] as const)("a share goes to the node that has a GPU to share, unless pods are spread (%s)", (gpuStrategy, where) => {
  const cluster = clusterWith({
    settings: { gpuStrategy },
    nodes: [node("n1", { gpus: 2 }), node("n2", { gpus: 2 })],
    groups: [group("x"), group("p")],
    pods: [pod("s", on("shared", "0.5")), pod("p", { fraction: "0.2", group: "p" })],
  });
  expect(outcome(decide(cluster))).toEqual({ p: where });
});

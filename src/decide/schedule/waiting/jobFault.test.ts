import { expect, test } from "vitest";
import {
  addPod,
  carryOut,
  clusterWith,
  gang,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { cycle } from "../cycle.ts";
import { explain } from "../explain/explain.ts";

const nowMs = startMs + 60_000;
const settings = { retryLimits: { jobsMax: 16, pauseMs: 25 } };

/** Decisions throw on pods of this name: where their requests are read, or where their victims are looked for. */
function poison(cluster: Cluster, name: string): void {
  const { vectorOf } = cluster;
  cluster.vectorOf = (task, deviceMemoryMiB) => {
    if (task.name.startsWith(name)) throw new Error(`pod ${task.key} is poisoned`);
    return vectorOf.call(cluster, task, deviceMemoryMiB);
  };
}

function reasonsOf(cluster: Cluster, atMs = nowMs): Record<string, string> {
  const reasons: Record<string, string> = {};
  cycle(cluster, atMs, (session) => {
    for (const [job, obstacle] of session.obstacles) reasons[job.name] = explain(session, job, obstacle).message;
  });
  return reasons;
}

test("a job that the cycle fails on is left out and gets a reason, and the others are placed", () => {
  const cluster = clusterWith({ ...together(gang("a", 1, { gpus: 1 }), gang("b", 1, { gpus: 1 })), settings });
  poison(cluster, "a-");
  const plan = cycle(cluster, nowMs);
  expect(outcome(plan)).toEqual({ "b-000": "n1" });
  expect(plan.faults.map(({ job }) => job.name)).toEqual(["a"]);
  expect(plan.wakeMs).toBe(nowMs + 1_000);
  carryOut(cluster, plan);
  // Within its back-off it is not tried, and its reason still holds.
  const next = cycle(cluster, nowMs + 500);
  expect([next.faults, next.wakeMs, cluster.waitingJobs.isRemembered(cluster.jobs.get("default/a"))]).toEqual([
    [],
    nowMs + 1_000,
    true,
  ]);
  const later = cycle(cluster, nowMs + 1_000);
  expect(later.faults).toHaveLength(1);
  expect(later.wakeMs).toBe(nowMs + 3_000);
});

test("its reason is an internal error, and a cured job is placed at once", () => {
  const cluster = clusterWith({ ...together(gang("a", 1, { gpus: 1 }), gang("b", 1, { gpus: 9 })), settings });
  const { vectorOf } = cluster;
  poison(cluster, "a-");
  expect(reasonsOf(cluster)["a"]).toContain("internal error");
  cluster.vectorOf = vectorOf;
  addPod(cluster, pod("a-000", { gpus: 2, group: "a" }));
  expect(outcome(cycle(cluster, nowMs))).toEqual({ "a-000": "n1" });
});

test("a running job that decisions fail on is no victim, and others are evicted instead", () => {
  const { groups, pods } = together(
    gang("bad", 1, { gpus: 4, on: "n1" }, { queue: "q" }),
    gang("good", 1, { gpus: 4, on: "n2" }, { queue: "q" }),
    gang("high", 1, { gpus: 4 }, { queue: "q", priorityClassName: "build-preemptible" }),
  );
  const cluster = clusterWith({
    nodes: ["n1", "n2"].map((name) => node(name, { gpus: 4 })),
    queues: [queue("q")],
    groups,
    pods,
    settings,
  });
  cluster.refresh(nowMs);
  const bad = cluster.jobs.get("default/bad");
  Object.defineProperty(bad, "isPreemptible", {
    get: () => {
      throw new Error("poisoned");
    },
  });
  const plan = cycle(cluster, nowMs);
  expect(plan.evictions.map(({ task }) => task.name)).toEqual(["good-000"]);
  expect(plan.faults.map(({ job }) => job.name)).toEqual(["bad"]);
});

import { describe, expect, test } from "vitest";
import {
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
import type { Vector } from "../cluster/resources.ts";
import { compareQueues, JobLine } from "./order.ts";
import { allocatable, dominantShare } from "./queueShares.ts";
import { QueueState } from "./queueTree.ts";

const total: Vector = [8000, 64_000, 1e12];

interface Words {
  readonly name?: string;
  readonly quota?: number;
  readonly limit?: number;
  readonly priority?: number;
  readonly createdMs?: number;
  readonly fairGpus?: number;
  readonly usedGpus?: number;
  readonly nextGpus?: number;
  /** Of CPU and memory in use. */
  readonly others?: number;
}

/** A queue with so much of its GPUs in use, and a job that asks for more. */
function standing({
  name = "q",
  quota = 0,
  limit = -1,
  priority = 100,
  createdMs = startMs,
  fairGpus = 4,
  usedGpus = 0,
  nextGpus = 1,
  others = 0,
}: Words) {
  const state = new QueueState(
    queue(name, { priority, createdMs, resources: { gpu: { quota, limit, overQuotaWeight: 1 } } }),
  );
  state.fairShare = [fairGpus * 1000, 64_000, 1e12];
  const allocated: Vector = [usedGpus * 1000, others, others];
  state.allocated = allocated;
  return { queue: state, allocated, withJob: [(usedGpus + nextGpus) * 1000, others, others] as Vector };
}

describe("among queues", () => {
  // Whoever goes first would lose by every rule after the one that decides, as far as those can be told apart.
  test.each<[string, Words, Words]>([
    [
      "who is beyond its fair share in everything goes last, whatever its quota",
      { fairGpus: 4, usedGpus: 9 },
      { fairGpus: 4, usedGpus: 5, quota: 6, nextGpus: 1, others: 2e12 },
    ],
    [
      "who stays within its quota with its next job goes first",
      { quota: 2, usedGpus: 1, priority: 50 },
      { quota: 1, usedGpus: 1, priority: 200 },
    ],
    ["then the higher priority", { priority: 200, usedGpus: 3 }, { priority: 100, usedGpus: 0 }],
    [
      "then who does not touch a resource of which it may have nothing",
      { fairGpus: 1, others: 1e12 },
      { fairGpus: 0, others: 0 },
    ],
    [
      "then the smaller dominant share with the job",
      { fairGpus: 4, usedGpus: 2, nextGpus: 1 },
      { fairGpus: 4, usedGpus: 1, nextGpus: 3 },
    ],
    [
      "then the smaller dominant share without it",
      { fairGpus: 4, usedGpus: 1, nextGpus: 2 },
      { fairGpus: 4, usedGpus: 2, nextGpus: 1, createdMs: startMs - 1000 },
    ],
    [
      "then the one that may have less",
      { fairGpus: 2, usedGpus: 0, nextGpus: 0, priority: 100, createdMs: startMs },
      { fairGpus: 3, usedGpus: 0, nextGpus: 0, createdMs: startMs - 1000 },
    ],
    ["then the older", { createdMs: startMs - 1000 }, { createdMs: startMs }],
  ])("%s", (_, first, second) => {
    const [one, other] = [standing({ name: "b", ...first }), standing({ name: "a", ...second })];
    expect(compareQueues(one, other, total)).toBeLessThan(0);
    expect(compareQueues(other, one, total)).toBeGreaterThan(0);
  });

  test("at last the one whose UID comes first", () => {
    expect(compareQueues(standing({ name: "a" }), standing({ name: "b" }), total)).toBeLessThan(0);
    expect(compareQueues(standing({ name: "b" }), standing({ name: "a" }), total)).toBeGreaterThan(0);
  });

  test("what a queue may have is the larger of quota and fair share, up to its limit", () => {
    expect(allocatable(standing({ quota: 2, fairGpus: 4 }).queue)[0]).toBe(4000);
    expect(allocatable(standing({ quota: 6, fairGpus: 4 }).queue)[0]).toBe(6000);
    expect(allocatable(standing({ quota: 6, fairGpus: 4, limit: 3 }).queue)[0]).toBe(3000);
    expect(allocatable(standing({ quota: -1, fairGpus: 4, limit: 5 }).queue)[0]).toBe(5000);
  });

  test("use of what a queue may not have weighs a thousand times", () => {
    const { queue: state } = standing({ fairGpus: 0 });
    expect(dominantShare(state, [1000, 0, 0], total)).toBe(1_000_000);
    const { queue: open } = standing({ quota: -1 });
    expect(dominantShare(open, [4000, 0, 0], total)).toBe(0.5);
  });
});

describe("inside a queue", () => {
  const one = [node("n1", { gpus: 1 })];

  test("pods with a priority label go before those without, the higher first, of them nonsense last", () => {
    const labelled = (name: string, value?: string) =>
      pod(name, {
        gpus: 1,
        group: "g",
        ...(value !== undefined && { labels: { "kai.scheduler/task-priority": value } }),
      });
    // In whatever order they come.
    const first = (...pods: ReturnType<typeof pod>[]) => {
      const chosen = [pods, [...pods].reverse()].map((each) =>
        Object.keys(
          outcome(decide(clusterWith({ nodes: one, groups: [group("g", { minMember: 1 })], pods: each }))),
        ).join(),
      );
      return [...new Set(chosen)];
    };
    expect(first(labelled("a"), labelled("b", "1"), labelled("c", "5"))).toEqual(["c"]);
    expect(first(labelled("a"), labelled("b", "-1"))).toEqual(["b"]);
    expect(first(labelled("a", "much"), labelled("b", "-3"))).toEqual(["b"]);
    expect(first(labelled("a"), labelled("b", "much"))).toEqual(["b"]);
  });

  test("a Ray head is placed before its workers", () => {
    const pods = [
      pod("a-worker", { gpus: 1, group: "g", labels: { "ray.io/node-type": "worker" } }),
      pod("z-head", { gpus: 1, group: "g", labels: { "ray.io/node-type": "head" } }),
    ];
    expect(outcome(decide(clusterWith({ nodes: one, groups: [group("g", { minMember: 1 })], pods })))).toEqual({
      "z-head": "n1",
    });
  });

  test.each([
    ["the higher priority", { priorityClassName: "build-preemptible", createdMs: startMs + 9 }, { createdMs: startMs }],
    ["then the older", { createdMs: startMs - 9000 }, { createdMs: startMs }],
    ["then the one whose UID comes first", {}, {}],
  ])("of two jobs %s goes first", (_, first, second) => {
    const cluster = clusterWith({
      nodes: one,
      ...together(gang("b", 1, { gpus: 1 }, second), gang("a", 1, { gpus: 1 }, first)),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n1" });
  });

  test.each([
    ["the older pod", { createdMs: startMs - 5000 }, {}],
    ["then the one whose UID comes first", {}, {}],
    [
      "a launcher",
      { labels: { "training.kubeflow.org/job-role": "launcher" } },
      {
        labels: { "training.kubeflow.org/job-role": "worker" },
        createdMs: startMs - 5000,
      },
    ],
    [
      "a master, also before a worker with a priority",
      { labels: { "training.kubeflow.org/replica-type": "master" } },
      {
        labels: { "training.kubeflow.org/replica-type": "worker", "kai.scheduler/task-priority": "9" },
      },
    ],
  ])("of two pods of a job %s goes first", (_, first, second) => {
    const pods = [pod("b", { gpus: 1, group: "g", ...second }), pod("a", { gpus: 1, group: "g", ...first })];
    expect(outcome(decide(clusterWith({ nodes: one, groups: [group("g", { minMember: 1 })], pods })))).toEqual({
      a: "n1",
    });
  });

  test("a job below its minimum is tried before one that would grow", () => {
    const running = {
      groups: [group("old", { minMember: 1, createdMs: startMs - 5000 })],
      pods: [pod("old-0", { gpus: 1, on: "n1", group: "old" }), pod("old-1", { gpus: 1, group: "old" })],
    };
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      ...together(running, gang("new", 1, { gpus: 1 })),
    });
    expect(outcome(decide(cluster))).toEqual({ "new-000": "n1" });
  });

  test("queues that are alike are served by age, whichever of them have no job left", () => {
    const names = ["e", "b", "g", "a", "f", "c", "d"];
    const ages = new Map([..."abcdefg"].map((name, at) => [name, startMs + at]));
    const cluster = clusterWith({
      queues: names.map((name) => queue(name, { createdMs: ages.get(name) ?? 0 })),
      ...together(...names.map((name) => gang(`j${name}`, 1, { gpus: 1 }, { queue: name }))),
    });
    cluster.refresh(startMs);
    const line = new JobLine(cluster, cluster.total(), cluster.jobs.values());
    const served: string[] = [];
    for (let job = line.pop(); job !== undefined; job = line.pop()) served.push(job.queueName);
    expect(served.join("")).toBe("abcdefg");
  });

  test("only so many jobs of a queue are looked at as its depth allows", () => {
    const cluster = clusterWith({
      settings: { queueDepth: { allocate: 2 } },
      ...together(...[0, 1, 2, 3].map((at) => gang(`j${at}`, 1, { gpus: 1 }))),
    });
    expect(Object.keys(outcome(decide(cluster)))).toHaveLength(2);
  });

  test("in another namespace the same name is another group", () => {
    const cluster = clusterWith({
      groups: [group("g", { minMember: 2 }), group("g", { minMember: 1, namespace: "other" })],
      pods: [pod("p", { gpus: 1, group: "g" }), pod("q", { gpus: 1, group: "g", namespace: "other" })],
    });
    expect(outcome(decide(cluster))).toEqual({ q: "n1" });
  });
});

test("with two levels only, what lies between is passed over", () => {
  const queues = [queue("top"), queue("mid", { parentQueue: "top" }), queue("q", { parentQueue: "mid" })];
  const cluster = clusterWith({ queues, settings: { hasFullHierarchy: false }, ...gang("a", 1, { gpus: 1 }) });
  decide(cluster);
  expect(cluster.queues.byName.get("q")?.parent?.name).toBe("top");
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addPod,
  carryOut,
  clusterWith,
  evicted,
  gpuBounds,
  group,
  node,
  outcome,
  type PodFields,
  pod,
  queue,
  startMs,
} from "../../../../testing/decide/scheduleCluster.ts";
import type { Node } from "../../../model/kubernetes.generated.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { cycle, type Plan } from "../cycle.ts";

const retryLimits = { jobsMax: 2, pauseMs: 25 };
const waiting = 40;
const affinityTo = (label: string): NonNullable<PodFields["spec"]> => ({
  affinity: {
    podAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: label } } },
      ],
    },
  },
});

/** Why each of the waiting pods fits nowhere, each in its own way. */
const shapes: Readonly<Record<string, (at: number) => PodFields>> = {
  "node selectors": (at) => ({ gpus: 1, spec: { nodeSelector: { [`shape-${at}`]: "x" } } }),
  amounts: (at) => ({ gpus: 8, cpu: `${100 + at}m` }),
  "pod affinities": (at) => ({ gpus: 1, spec: affinityTo(`shape-${at}`) }),
  "a queue without GPUs": (at) => ({ gpus: 1, cpu: `${100 + at}m` }),
};

/** Two nodes with a pod each, and 40 pods of a tenant that were tried already. */
function crowded(kind: keyof typeof shapes): {
  cluster: Cluster;
  run: (laterMs?: number) => Plan;
  tried: () => number;
} {
  const nodes = ["n1", "n2"].map((name) => node(name));
  const cluster = clusterWith({
    nodes,
    queues: [queue("noisy", kind === "a queue without GPUs" ? gpuBounds(0, 0) : {}), queue("quiet")],
    groups: ["r1", "r2"].map((name) => group(name, { queue: "quiet", priorityClassName: "inference" })),
    pods: ["1", "2"].map((at) => pod(`r${at}`, { gpus: 1, on: `n${at}`, group: `r${at}` })),
    settings: { retryLimits, consolidationJobsMax: 0 },
  });
  for (let at = 0; at < waiting; at++) add(cluster, `w${at}`, "noisy", shapes[kind]?.(at));
  let nowMs = startMs + 60_000;
  let due = 0;
  const run = (laterMs = 0): Plan => {
    nowMs += laterMs;
    return cycle(cluster, nowMs, (session) => {
      due = session.due.length;
    });
  };
  for (let plan = run(); plan.wakeMs !== undefined; plan = run(retryLimits.pauseMs)) expect(outcome(plan)).toEqual({});
  return { cluster, run, tried: () => due };
}

function add(cluster: Cluster, name: string, queueName: string, words: PodFields = { gpus: 1 }): void {
  cluster.putPodGroup(group(name, { queue: queueName }));
  addPod(cluster, pod(name, { ...words, group: name }));
}

describe.each(Object.keys(shapes))("40 pods that wait because of %s", (kind) => {
  test("are not tried again for a pod of another tenant that is placed and ends", () => {
    const { cluster, run, tried } = crowded(kind);
    add(cluster, "mine", "quiet");
    const plan = run();
    expect(outcome(plan)).toEqual({ mine: "n1" });
    expect(tried()).toBeLessThanOrEqual(1 + retryLimits.jobsMax);
    carryOut(cluster, plan);
    run();
    cluster.removePod("pod-default-mine");
    run();
    expect(tried()).toBeLessThanOrEqual(2 * retryLimits.jobsMax);
    cluster.assertCounts();
  });

  test("are tried again slice by slice after a change, until each was", () => {
    const { cluster, run, tried } = crowded(kind);
    add(cluster, "mine", "quiet");
    carryOut(cluster, run());
    let plan = run(retryLimits.pauseMs);
    let count = tried();
    while (plan.wakeMs !== undefined) {
      plan = run(retryLimits.pauseMs);
      expect(tried()).toBeLessThanOrEqual(retryLimits.jobsMax);
      count += tried();
    }
    // No pod can have become possible where the facts of nodes are against it.
    if (kind !== "node selectors") expect(count).toBeGreaterThanOrEqual(waiting - 1);
  });
});

test("a pod is placed by the first cycle after a node has gained room for it", () => {
  const { cluster, run } = crowded("amounts");
  cluster.removePod("pod-default-r2");
  expect(Object.values(outcome(run()))).toEqual(["n2"]);
});

test("a pod is placed by the first cycle after a node has got its label, and after a node with it was added", () => {
  const { cluster, run } = crowded("node selectors");
  cluster.putNode(node("n1", { labels: { "shape-33": "x" } }));
  const plan = run();
  expect(outcome(plan)).toEqual({ w33: "n1" });
  carryOut(cluster, plan);
  cluster.putNode(node("n3", { labels: { "shape-7": "x" } }));
  expect(outcome(run())).toEqual({ w7: "n3" });
});

test("a pod is placed by the first cycle after the pod that its affinity waits for was", () => {
  const { cluster, run } = crowded("pod affinities");
  add(cluster, "mine", "quiet", { gpus: 1, labels: { app: "shape-20" } });
  carryOut(cluster, run());
  expect(Object.keys(outcome(run()))).toEqual(["w20"]);
});

test("pods are placed by the first cycle after their queue got a higher limit", () => {
  const { cluster, run } = crowded("a queue without GPUs");
  cluster.putQueue({
    ...queue("noisy", gpuBounds(0, 3)),
    metadata: { ...queue("noisy").metadata, resourceVersion: "2" },
  });
  expect(Object.keys(outcome(run()))).toHaveLength(3);
});

test("a pod is placed by the first cycle after another of its queue has ended", () => {
  const { cluster, run } = crowded("a queue without GPUs");
  cluster.putQueue(queue("noisy", gpuBounds(0, 3)));
  const plan = run();
  carryOut(cluster, plan);
  expect(outcome(run())).toEqual({});
  const [first] = Object.keys(outcome(plan));
  cluster.removePod(`pod-default-${first}`);
  expect(Object.keys(outcome(run()))).toHaveLength(1);
});

test("a changed pod is tried at once", () => {
  const { cluster, run } = crowded("amounts");
  const smaller = pod("w39", { gpus: 7, group: "w39" });
  cluster.putPod(smaller);
  expect(Object.keys(outcome(run()))).toEqual(["w39"]);
});

test("a pod that may preempt is served by the first cycle after it got its priority", () => {
  const { cluster, run } = crowded("amounts");
  // Two of the tenant's own pods keep it from a whole node.
  cluster.putQueue(queue("noisy", gpuBounds(16)));
  for (const at of [1, 2]) {
    cluster.putPodGroup(group(`own${at}`, { queue: "noisy" }));
    addPod(cluster, pod(`own${at}`, { gpus: 1, on: `n${at}`, group: `own${at}` }));
    cluster.removePod(`pod-default-r${at}`);
  }
  run();
  cluster.putPodGroup(group("w30", { queue: "noisy", priorityClassName: "inference" }));
  const plan = run();
  expect(evicted(plan)).toHaveLength(1);
  expect(plan.jobs.map(({ job }) => job.name)).toEqual(["w30"]);
});

interface Change {
  readonly type: "add" | "end" | "label" | "limit";
  readonly at: number;
  readonly queue: "noisy" | "quiet";
  readonly gpus: number;
  readonly zone: string | undefined;
  readonly near: string | undefined;
  readonly priority: "train" | "inference";
}

const changes = fc.array(
  fc.record({
    type: fc.constantFrom<Change["type"]>("add", "add", "add", "end", "end", "label", "limit"),
    at: fc.nat(30),
    queue: fc.constantFrom<Change["queue"]>("noisy", "noisy", "quiet"),
    gpus: fc.integer({ min: 0, max: 4 }),
    zone: fc.constantFrom(undefined, undefined, "a", "b"),
    near: fc.constantFrom(undefined, undefined, undefined, "0", "1"),
    priority: fc.constantFrom<Change["priority"]>("train", "inference"),
  }),
  { minLength: 5, maxLength: 30 },
);

/** The same objects in a cluster that has tried nothing yet and tries everything. */
function readAgain(cluster: Cluster): Cluster {
  const nodes = cluster.table.nodes.map((state) => state.node).filter((each): each is Node => each !== undefined);
  const queues = [...cluster.queues.byName.values()].map((state) => state.queue);
  const groups = [...cluster.jobs.values()].map(({ owner }) => owner as PodGroup);
  const copy = clusterWith({ nodes, queues, groups });
  for (const task of cluster.tasks.values()) {
    copy.putPod(task.pod);
    copy.setPlaces(task.uid, task.places);
  }
  return copy;
}

test("once no cycle is due, a cluster that was just read decides nothing more", () => {
  fc.assert(
    fc.property(changes, (all) => {
      const cluster = clusterWith({
        nodes: ["n1", "n2"].map((name) => node(name, { gpus: 4 })),
        queues: [queue("noisy", gpuBounds(2)), queue("quiet", gpuBounds(2))],
        settings: { retryLimits: { jobsMax: 1, pauseMs: 25 } },
      });
      let nowMs = startMs + 60_000;
      let cycles = 0;
      for (const [index, change] of all.entries()) {
        apply(cluster, change, index);
        for (let isBusy = true; isBusy && cycles < 2_000; cycles++) {
          const plan = cycle(cluster, nowMs);
          carryOut(cluster, plan);
          const hasDone = plan.evictions.length > 0 || plan.jobs.some(({ binds }) => binds.length > 0);
          isBusy = hasDone || plan.wakeMs !== undefined;
          nowMs += 25;
        }
      }
      cluster.assertCounts();
      if (cycles >= 2_000) return;
      const plan = cycle(readAgain(cluster), nowMs);
      expect([outcome({ ...plan, jobs: plan.jobs.filter(({ binds }) => binds.length > 0) }), evicted(plan)]).toEqual([
        {},
        [],
      ]);
    }),
    { numRuns: 150 },
  );
});

function apply(cluster: Cluster, { type, at, ...words }: Change, index: number): void {
  if (type === "add") {
    const name = `p${index}`;
    cluster.putPodGroup(
      group(name, { queue: words.queue, priorityClassName: words.priority, createdMs: startMs + index }),
    );
    const spec = {
      ...(words.zone !== undefined && { nodeSelector: { zone: words.zone } }),
      ...(words.near !== undefined && affinityTo(words.near)),
    };
    addPod(cluster, pod(name, { gpus: words.gpus, group: name, labels: { app: String(at % 3) }, spec }));
  } else if (type === "end") {
    const tasks = [...cluster.tasks.keys()];
    const uid = tasks[at % Math.max(1, tasks.length)];
    if (uid !== undefined) cluster.removePod(uid);
  } else if (type === "label") {
    const zone = words.zone ?? "c";
    cluster.putNode(node(`n${1 + (at % 2)}`, { gpus: 4, labels: { zone } }));
  } else {
    cluster.putQueue(queue(words.queue, gpuBounds(at % 4, at % 5 === 0 ? -1 : 2 + (at % 5))));
  }
}

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  carryOut,
  clusterWith,
  evicted,
  gang,
  group,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../testing/decide/scheduleCluster.ts";
import type { Pod, PriorityClass } from "../../model/kubernetes.generated.ts";
import { type PodGroup, shippedPriorityClasses } from "../../model/scheduling/podGroup.ts";
import { Cluster } from "./cluster/cluster.ts";
import type { Job } from "./cluster/job.ts";
import { isAllocatedStatus } from "./cluster/task.ts";
import { cycle, type Plan } from "./cycle.ts";
import type { Settings } from "./settings.ts";

const runs = 100;
const nowMs = startMs + 60_000;

interface Case {
  readonly nodes: readonly NodeCase[];
  /** The two queues at the top. */
  readonly tops: readonly QueueCase[];
  /** Below the first, the second, the first and so on. */
  readonly leaves: readonly QueueCase[];
  readonly jobs: readonly JobCase[];
}

interface NodeCase {
  readonly gpus: number;
  readonly gpuMemory: number;
}

interface QueueCase {
  readonly quota: number;
  readonly limit: number;
}

interface JobCase {
  readonly queue: number;
  readonly pods: number;
  readonly min: number;
  readonly ask: keyof typeof asks;
  readonly priority: "train" | "build-preemptible" | "inference";
  /** Without subgroups; with two of which both are needed; or with two of which one is enough. */
  readonly parts: "none" | "both" | "either";
}

const asks = {
  whole: { gpus: 1 },
  two: { gpus: 2 },
  half: { fraction: "0.5" },
  third: { fraction: "0.3" },
  pair: { fraction: "0.5", devices: 2 },
  memory: { gpuMemory: "30000" },
  cpu: {},
} as const;

const queueCase = fc.record({ quota: fc.integer({ min: 0, max: 4 }), limit: fc.constantFrom(-1, -1, 2, 5) });
const nodeCase = fc.record({ gpus: fc.constantFrom(0, 1, 2, 4), gpuMemory: fc.constantFrom(40_000, 80_000) });

const train = { min: 0, priority: "train", parts: "none" } as const;
const bound = (quota: number, limit = -1): QueueCase => ({ quota, limit });

/**
 * What has broken a promise: a job that was promised two places got one; a job that others had moved for was evicted
 * itself; others were evicted for a job that had lost a pod in the same cycle; shares of GPUs that a plan had packed
 * well were packed badly when it came true, also those of a second plan, of the same job or of another.
 */
const onceBroken: readonly Case[] = [
  {
    nodes: [{ gpus: 4, gpuMemory: 40_000 }],
    tops: [bound(2, 2), bound(0)],
    leaves: [bound(0), bound(0), bound(0)],
    jobs: [
      { ...train, queue: 1, pods: 1, ask: "whole" },
      { ...train, queue: 1, pods: 4, ask: "half" },
      { ...train, queue: 2, pods: 1, ask: "whole" },
      { ...train, queue: 0, pods: 3, ask: "third" },
      { ...train, queue: 0, pods: 3, min: 3, ask: "whole" },
    ],
  },
  {
    nodes: [1, 1, 4].map((gpus) => ({ gpus, gpuMemory: 40_000 })),
    tops: [bound(1), bound(0)],
    leaves: [bound(1), bound(0), bound(0)],
    jobs: [
      { ...train, queue: 1, pods: 3, ask: "third", priority: "build-preemptible" },
      { ...train, queue: 0, pods: 1, ask: "whole" },
      { ...train, queue: 0, pods: 2, ask: "whole", parts: "both" },
      { ...train, queue: 2, pods: 1, ask: "pair" },
      { ...train, queue: 0, pods: 1, ask: "pair", priority: "inference" },
      { ...train, queue: 1, pods: 2, min: 1, ask: "whole", priority: "build-preemptible", parts: "both" },
      { ...train, queue: 1, pods: 2, min: 2, ask: "half" },
      { ...train, queue: 0, pods: 2, min: 2, ask: "two", priority: "inference" },
    ],
  },
  {
    nodes: [40_000, 80_000].map((gpuMemory) => ({ gpus: 2, gpuMemory })),
    tops: [bound(0), bound(2)],
    leaves: [bound(0), bound(0, 2)],
    jobs: [
      { ...train, queue: 0, pods: 1, ask: "whole" },
      { ...train, queue: 0, pods: 1, ask: "whole" },
      { ...train, queue: 1, pods: 4, ask: "memory", parts: "both" },
      { ...train, queue: 0, pods: 1, ask: "whole" },
    ],
  },
  {
    nodes: [
      { gpus: 4, gpuMemory: 80_000 },
      { gpus: 1, gpuMemory: 40_000 },
    ],
    tops: [bound(2), bound(0)],
    leaves: [bound(2)],
    jobs: [
      { ...train, queue: 0, pods: 1, ask: "memory" },
      { ...train, queue: 0, pods: 2, ask: "whole", priority: "inference" },
      { ...train, queue: 0, pods: 3, min: 3, ask: "pair", priority: "build-preemptible" },
      { ...train, queue: 0, pods: 1, min: 1, ask: "pair" },
    ],
  },
  {
    nodes: [
      { gpus: 4, gpuMemory: 40_000 },
      { gpus: 1, gpuMemory: 80_000 },
    ],
    tops: [bound(0), bound(0)],
    leaves: [bound(0)],
    jobs: [
      { ...train, queue: 0, pods: 2, ask: "third", priority: "build-preemptible" },
      { ...train, queue: 0, pods: 1, ask: "memory" },
      { ...train, queue: 0, pods: 4, min: 1, ask: "pair", priority: "build-preemptible" },
    ],
  },
  {
    nodes: [4, 2].map((gpus) => ({ gpus, gpuMemory: 40_000 })),
    tops: [bound(1), bound(0)],
    leaves: [bound(0), bound(0), bound(0)],
    jobs: [
      { ...train, queue: 1, pods: 4, ask: "half" },
      { ...train, queue: 0, pods: 1, ask: "memory" },
      { ...train, queue: 0, pods: 3, ask: "half" },
      { ...train, queue: 0, pods: 1, ask: "cpu" },
      { ...train, queue: 2, pods: 2, ask: "pair" },
      { ...train, queue: 0, pods: 3, min: 1, ask: "cpu", parts: "both" },
    ],
  },
];

/** Which of two alike was moved depended on who had come first. */
const movedInAnyOrder: Case = {
  nodes: [{ gpus: 4, gpuMemory: 40_000 }],
  tops: [bound(2), bound(0)],
  leaves: [bound(0), bound(0)],
  jobs: [
    { ...train, queue: 0, pods: 2, min: 2, ask: "third" },
    { ...train, queue: 0, pods: 3, ask: "pair" },
    { ...train, queue: 1, pods: 2, min: 2, ask: "whole" },
  ],
};

const cases: fc.Arbitrary<Case> = fc.record({
  nodes: fc.array(nodeCase, { minLength: 1, maxLength: 4 }),
  tops: fc.array(queueCase, { minLength: 2, maxLength: 2 }),
  leaves: fc.array(queueCase, { minLength: 1, maxLength: 3 }),
  jobs: fc.array(
    fc.record({
      queue: fc.nat(2),
      pods: fc.integer({ min: 1, max: 4 }),
      min: fc.integer({ min: 0, max: 4 }),
      ask: fc.constantFrom<keyof typeof asks>("whole", "whole", "two", "half", "third", "pair", "memory", "cpu"),
      priority: fc.constantFrom("train", "train", "build-preemptible", "inference"),
      parts: fc.constantFrom("none", "none", "both", "either"),
    }),
    { minLength: 1, maxLength: 8 },
  ),
});

function jobOf(each: JobCase, at: number, leafCount: number): { groups: PodGroup[]; pods: Pod[] } {
  const { queue: q, pods: count, min, ask, priority, parts } = each;
  const name = `j${at}`;
  const spec = { queue: `q${q % leafCount}`, priorityClassName: priority, createdMs: startMs + at };
  if (parts === "none") return gang(name, count, asks[ask], { ...spec, minMember: Math.min(min, count) });
  const sizes = { a: Math.ceil(count / 2), b: Math.floor(count / 2) };
  const mins = { a: min, b: (min + at) % 4 };
  const subGroups = (["a", "b"] as const).map((sub) => ({ name: sub, minMember: Math.min(mins[sub], sizes[sub]) }));
  const pods = (["a", "b"] as const).flatMap((sub) =>
    Array.from({ length: sizes[sub] }, (_, index) =>
      pod(`${name}-${sub}${index}`, { ...asks[ask], group: name, subGroup: sub }),
    ),
  );
  return { groups: [group(name, { ...spec, subGroups, minSubGroup: parts === "both" ? 2 : 1 })], pods };
}

function objectsOf({ jobs, leaves }: Case): { groups: PodGroup[]; pods: Pod[] } {
  return together(...jobs.map((each, at) => jobOf(each, at, leaves.length)));
}

/** Whether as many of its pods have a place as it needs; told from the objects, not from what the scheduler counts. */
function hasEnough({ spec }: Job, placed: readonly Pod[]): boolean {
  const subGroups = spec.subGroups ?? [];
  if (subGroups.length === 0) return placed.length >= (spec.minMember ?? 1);
  const of = (name: string) =>
    placed.filter(({ metadata }) => metadata.labels?.["kai.scheduler/subgroup-name"] === name);
  const enough = subGroups.filter(({ name, minMember }) => of(name).length >= (minMember ?? 1));
  return enough.length >= (spec.minSubGroup ?? subGroups.length);
}

const placedOf = (job: Job): Pod[] =>
  [...job.tasks].filter(({ status }) => isAllocatedStatus[status]).map((task) => task.pod);

/** The objects in the order of their turns, the lowest first. */
function clusterOfCase(each: Case, turns: readonly number[] = [], settings: Partial<Settings> = {}): Cluster {
  const { groups, pods } = objectsOf(each);
  const nodes = each.nodes.map((words, at) => node(`n${at}`, { ...words, cpu: "8" }));
  const bounds = ({ quota, limit }: QueueCase) => ({ resources: { gpu: { quota, limit, overQuotaWeight: 1 } } });
  const queues = [
    ...each.tops.map((words, at) => queue(`top${at}`, bounds(words))),
    ...each.leaves.map((words, at) => queue(`q${at}`, { ...bounds(words), parentQueue: `top${at % 2}` })),
  ];
  let next = 0;
  const turn = <T>(list: T[]): T[] =>
    list
      .map((item) => ({ item, at: turns.length === 0 ? 0 : (turns[next++ % turns.length] as number) }))
      .sort((a, b) => a.at - b.at)
      .map(({ item }) => item);
  return clusterWith({ settings, nodes: turn(nodes), queues: turn(queues), groups: turn(groups), pods: turn(pods) });
}

/** Lets plans be carried out until nothing happens any more; every plan on the way is looked at. */
function play(cluster: Cluster, look: (plan: Plan) => void = () => {}, rounds = 12): boolean {
  for (let round = 0; round < rounds; round++) {
    const plan = cycle(cluster, nowMs);
    look(plan);
    carryOut(cluster, plan);
    if (plan.jobs.every(({ binds }) => binds.length === 0) && plan.evictions.length === 0) return true;
  }
  return false;
}

/** The cluster with the promises of a plan written down and its victims gone. */
function worldAfter(cluster: Cluster, plan: Plan): Cluster {
  const promised = new Map(plan.jobs.flatMap(({ pipelined }) => pipelined.map(({ task, node: on }) => [task.uid, on])));
  const gone = new Set(plan.evictions.map(({ task }) => task.uid));
  const bound = new Map(
    plan.jobs.flatMap(({ binds }) => binds.map(({ task, node: on, groups }) => [task.uid, { on, groups }] as const)),
  );
  const next = new Cluster(cluster.settings);
  for (const { name, value } of shippedPriorityClasses) {
    next.putPriorityClass({ metadata: { name }, value } as PriorityClass);
  }
  for (const { node: object } of cluster.table.nodes) if (object !== undefined) next.putNode(object);
  for (const { queue: object } of cluster.queues.byName.values()) next.putQueue(object);
  for (const { owner } of cluster.jobs.values()) next.putPodGroup(owner as PodGroup);
  for (const task of cluster.tasks.values()) {
    if (gone.has(task.uid)) continue;
    const nominatedNodeName = promised.get(task.uid);
    const now = bound.get(task.uid);
    next.putPod({
      ...task.pod,
      ...(now !== undefined && { spec: { ...task.pod.spec, nodeName: now.on } }),
      status: { ...task.pod.status, ...(nominatedNodeName !== undefined && { nominatedNodeName }) },
    } as Pod);
    const places = now === undefined ? task.places : [{ node: now.on, groups: now.groups }];
    next.setPlaces(task.uid, places);
  }
  return next;
}

function assertWithinCapacity(cluster: Cluster): void {
  cluster.refresh(nowMs);
  for (const state of cluster.table.nodes) {
    for (const amounts of cluster.table.idle) expect(amounts[state.index]).toBeGreaterThanOrEqual(0);
    for (const { usedMiB } of state.groups.values()) expect(usedMiB).toBeLessThanOrEqual(state.gpuMemoryMiB);
  }
}

describe("whatever the cluster", () => {
  test("no node, GPU or limit is ever exceeded, and quotas bound what cannot be evicted", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const cluster = clusterOfCase(each);
        play(cluster, () => assertWithinCapacity(cluster));
        assertWithinCapacity(cluster);
        cluster.assertCounts();
        for (const { limit, allocated, allocatedNonPreemptible, deserved } of cluster.queues.byName.values()) {
          if (limit[0] >= 0) expect(allocated[0]).toBeLessThanOrEqual(limit[0]);
          if (deserved[0] >= 0) expect(allocatedNonPreemptible[0]).toBeLessThanOrEqual(deserved[0]);
        }
      }),
      { numRuns: runs },
    );
  });

  test("no part of a gang or of its subgroups is ever bound", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const cluster = clusterOfCase(each);
        play(cluster, (plan) => {
          for (const { job, binds } of plan.jobs) {
            if (binds.length === 0) continue;
            const placed = [...placedOf(job), ...binds.map(({ task }) => task.pod)];
            expect([job.name, hasEnough(job, placed)]).toEqual([job.name, true]);
          }
        });
        for (const job of cluster.jobs.values()) {
          const placed = placedOf(job);
          expect(placed.length === 0 || hasEnough(job, placed)).toBe(true);
        }
      }),
      { numRuns: runs },
    );
  });

  test("every victim is evicted for a preemptor whose gang gets its places by it", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const cluster = clusterOfCase(each);
        play(cluster, (plan) => {
          for (const { reason } of plan.evictions) {
            const served = plan.jobs.find(({ job }) => job === reason.evictor);
            expect(served?.pipelined.length).toBeGreaterThan(0);
            if (served === undefined) continue;
            const planned = [...served.pipelined, ...served.binds].map(({ task }) => task.pod);
            expect(hasEnough(served.job, [...placedOf(served.job), ...planned])).toBe(true);
          }
        });
      }),
      { numRuns: runs },
    );
  });

  test("a preemptor is bound when its victims are gone", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const cluster = clusterOfCase(each);
        play(cluster, (plan) => {
          const promised = plan.jobs.flatMap(({ job, pipelined }) =>
            plan.evictions.some(({ reason }) => reason.evictor === job) ? pipelined.map(({ task }) => task.name) : [],
          );
          if (promised.length === 0) return;
          // The victims are gone at once, and nobody has made others in their place.
          const next = worldAfter(cluster, plan);
          const bound = Object.entries(outcome(cycle(next, nowMs))).filter(([, on]) => !on.startsWith("~"));
          expect(bound.map(([name]) => name)).toEqual(expect.arrayContaining(promised));
        });
      }),
      { numRuns: 10 * runs, examples: onceBroken.map((each): [Case] => [each]) },
    );
  });

  test("a plan leaves the cluster as it was", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const cluster = clusterOfCase(each);
        const first = outcome(cycle(cluster, nowMs));
        cluster.assertCounts();
        expect(outcome(cycle(cluster, nowMs))).toEqual(first);
      }),
      { numRuns: runs },
    );
  });

  test("the order in which objects came changes nothing", () => {
    const turns = fc.array(fc.nat(1000), { minLength: 8, maxLength: 40 });
    fc.assert(
      fc.property(cases, turns, (each, order) => {
        const [one, other] = [clusterOfCase(each), clusterOfCase(each, order)];
        for (let round = 0; round < 4; round++) {
          const [plan, same] = [cycle(one, nowMs), cycle(other, nowMs)];
          expect([outcome(same), evicted(same)]).toEqual([outcome(plan), evicted(plan)]);
          carryOut(one, plan);
          carryOut(other, same);
        }
      }),
      { numRuns: runs, examples: [[movedInAnyOrder, [669, 0, 0, 0, 0, 0, 0, 0]]] },
    );
  });

  test("it comes to rest", () => {
    fc.assert(
      fc.property(cases, (each) => {
        expect(play(clusterOfCase(each), undefined, 40)).toBe(true);
      }),
      { numRuns: runs },
    );
  });

  test("a job that fits beside what runs still fits when there is one node more", () => {
    fc.assert(
      fc.property(cases, nodeCase, (each, more) => {
        const settings: Partial<Settings> = { actions: ["allocate"] };
        const [last, ...others] = each.jobs as [JobCase, ...JobCase[]];
        const before = clusterOfCase({ ...each, jobs: others }, [], settings);
        play(before);
        const after = clusterOfCase({ ...each, jobs: others }, [], settings);
        play(after);
        after.putNode(node("n9", { ...more, cpu: "8" }));
        const { groups, pods } = jobOf(last, 99, each.leaves.length);
        const placed = [before, after].map((cluster) => {
          // Whoever waits too may take what was meant for it.
          for (const { uid, status } of [...cluster.tasks.values()]) if (status === "pending") cluster.removePod(uid);
          for (const one of groups) cluster.putPodGroup(one);
          for (const one of pods) cluster.putPod(one);
          return Object.keys(outcome(cycle(cluster, nowMs))).filter((name) => name.startsWith("j99"));
        });
        expect(placed[1]?.length).toBeGreaterThanOrEqual(placed[0]?.length ?? 0);
      }),
      { numRuns: runs },
    );
  });

  test("events one by one and all at once give the same cluster", () => {
    fc.assert(
      fc.property(cases, fc.array(fc.nat(40), { maxLength: 12 }), (each, churn) => {
        const cluster = clusterOfCase(each);
        const { pods } = objectsOf(each);
        cluster.refresh(nowMs);
        for (const at of churn) {
          const some = pods[at % pods.length] as Pod;
          cluster.removePod(some.metadata.uid);
          if (at % 3 === 0) cluster.removeNode("n0");
          cluster.putPod(some);
          if (at % 3 === 0) cluster.putNode(node("n0", { ...each.nodes[0], cpu: "8" }));
          if (at % 5 === 0) cluster.putPod(pod(`extra${at}`, { gpus: 1, scheduler: "default-scheduler" }));
          if (at % 5 === 0) cluster.removePod(`pod-default-extra${at}`);
        }
        expect(outcome(cycle(cluster, nowMs))).toEqual(outcome(cycle(clusterOfCase(each), nowMs)));
        cluster.assertCounts();
      }),
      { numRuns: runs },
    );
  });
});

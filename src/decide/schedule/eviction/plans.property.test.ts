import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ClusterFields,
  clusterWith,
  gang,
  gpuBounds,
  group,
  node,
  pod,
  queue,
  startMs,
  together,
  topology,
} from "../../../../testing/decide/scheduleCluster.ts";
import type { Task } from "../cluster/task.ts";
import { cycle } from "../cycle.ts";
import type { Settings } from "../settings.ts";

/** Plans of eviction on small random clusters, against a reference that tries every set of victims. */

interface RunningJob {
  readonly on: readonly number[];
  readonly min: number;
  readonly gpus: number;
  readonly priority: "train" | "build-preemptible";
  readonly isFixed: boolean;
}

interface Case {
  /** GPUs of each node. */
  readonly nodes: readonly number[];
  readonly jobs: readonly RunningJob[];
  /** Of one pod, or of a gang. */
  readonly wants: { readonly pods: number; readonly gpus: number };
  readonly limit: number;
}

const nodeName = (at: number): string => `n${at}`;
const runningJob: fc.Arbitrary<RunningJob> = fc.record({
  on: fc.array(fc.nat({ max: 2 }), { minLength: 1, maxLength: 3 }),
  min: fc.integer({ min: 1, max: 3 }),
  gpus: fc.integer({ min: 1, max: 2 }),
  priority: fc.constantFrom("train", "build-preemptible"),
  isFixed: fc.nat({ max: 5 }).map((each) => each === 0),
});
const cases: fc.Arbitrary<Case> = fc
  .record({
    nodes: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 }),
    jobs: fc.array(runningJob, { minLength: 1, maxLength: 5 }),
    wants: fc.record({ pods: fc.integer({ min: 1, max: 3 }), gpus: fc.integer({ min: 1, max: 3 }) }),
    limit: fc.constantFrom(-1, -1, 3, 5),
  })
  .map(seated);

/** Without the pods for which their nodes have no room; a job has at least its minimum. */
function seated({ nodes, jobs, wants, limit }: Case): Case {
  const left = [...nodes];
  const kept: RunningJob[] = [];
  for (const job of jobs) {
    const on = job.on
      .map((at) => at % nodes.length)
      .filter((at) => {
        if ((left[at] as number) < job.gpus) return false;
        left[at] = (left[at] as number) - job.gpus;
        return true;
      });
    if (on.length > 0) kept.push({ ...job, on, min: Math.min(job.min, on.length) });
  }
  return { nodes, jobs: kept, wants, limit };
}

interface Pod {
  readonly name: string;
  readonly job: number;
  readonly node: number;
  readonly gpus: number;
}

function podsOf({ jobs }: Case): Pod[] {
  return jobs.flatMap(({ on, gpus }, job) => on.map((at, k) => ({ name: `j${job}-${k}`, job, node: at, gpus })));
}

function wordsOf(given: Case, theirs: string): ClusterFields {
  const running = given.jobs.map(({ on, min, gpus, priority, isFixed }, job) => ({
    groups: [
      group(`j${job}`, {
        queue: theirs,
        minMember: min,
        priorityClassName: priority,
        preemptibility: isFixed ? "non-preemptible" : "preemptible",
        createdMs: startMs + job * 1_000,
      }),
    ],
    pods: on.map((at, k) => pod(`j${job}-${k}`, { gpus, on: nodeName(at), group: `j${job}` })),
  }));
  const { pods, gpus } = given.wants;
  return {
    nodes: given.nodes.map((count, at) => node(nodeName(at), { gpus: count })),
    ...together(
      ...running,
      gang(
        "w",
        pods,
        { gpus },
        { queue: "mine", priorityClassName: "inference", preemptibility: "preemptible", createdMs: startMs + 99_000 },
      ),
    ),
  };
}

interface Outcome {
  readonly isPlaced: boolean;
  readonly victims: ReadonlySet<string>;
}

function decided(words: ClusterFields): Outcome {
  const cluster = clusterWith(words);
  const plan = cycle(cluster, startMs + 120_000);
  cluster.assertCounts();
  return {
    isPlaced: plan.jobs.some(({ job }) => job.name === "w"),
    victims: new Set(plan.evictions.map(({ task }) => task.name)),
  };
}

/** Whether a job may be left with so many pods: none, or its minimum. */
function isWhole({ jobs }: Case, pods: readonly Pod[], gone: ReadonlySet<string>): boolean {
  return jobs.every(({ min, on }, job) => {
    const left = pods.filter((each) => each.job === job && !gone.has(each.name)).length;
    return left === on.length || left === 0 || left >= min;
  });
}

/** Whether the waiting pods fit without these, on some nodes. */
function fits({ nodes, wants, limit }: Case, pods: readonly Pod[], gone: ReadonlySet<string>): boolean {
  const left = [...nodes];
  let used = 0;
  for (const each of pods) {
    if (gone.has(each.name)) continue;
    left[each.node] = (left[each.node] as number) - each.gpus;
    used += each.gpus;
  }
  if (limit >= 0 && used + wants.pods * wants.gpus > limit) return false;
  return left.reduce((sum, free) => sum + Math.floor(free / wants.gpus), 0) >= wants.pods;
}

/** Every set of pods that may go: all that leave each job whole. */
function* victimSets(given: Case, pods: readonly Pod[], mayGo: (each: Pod) => boolean): Iterable<ReadonlySet<string>> {
  const movable = pods.filter(mayGo);
  for (let bits = 0; bits < 2 ** movable.length; bits++) {
    const gone = new Set(movable.filter((_, at) => (bits >> at) & 1).map(({ name }) => name));
    if (isWhole(given, pods, gone)) yield gone;
  }
}

function endsJob({ jobs }: Case, gone: ReadonlySet<string>): boolean {
  return jobs.some(({ on }, job) => on.every((_, k) => gone.has(`j${job}-${k}`)));
}

function isSubset(small: ReadonlySet<string>, large: ReadonlySet<string>): boolean {
  return [...small].every((each) => large.has(each));
}

/** What holds for preemption and reclaim. */
function check(given: Case, { isPlaced, victims }: Outcome, mayGo: (each: Pod) => boolean): void {
  const pods = podsOf(given);
  const enough = [...victimSets(given, pods, mayGo)].filter((gone) => fits(given, pods, gone));
  const [first] = enough;
  // What fits as it is costs nothing.
  if (first === undefined || first.size === 0) {
    expect([...victims]).toEqual([]);
    return;
  }
  expect(isPlaced).toBe(true);
  for (const each of pods) if (victims.has(each.name)) expect(mayGo(each)).toBe(true);
  expect(enough.some((gone) => gone.size === victims.size && isSubset(gone, victims))).toBe(true);
  const smaller = enough.filter((gone) => gone.size < victims.size && isSubset(gone, victims));
  expect(smaller.map((gone) => [...gone])).toEqual([]);
  if (enough.some((gone) => !endsJob(given, gone))) expect(endsJob(given, victims)).toBe(false);
}

const only = (...actions: Settings["actions"]): Partial<Settings> => ({
  actions: ["allocate", ...actions],
  reclaimMovesVictims: false,
});

describe("no more pods are evicted than have to, and jobs shrink before one ends", () => {
  test("in preemption, also under a limit", () => {
    fc.assert(
      fc.property(cases, (given) => {
        const words = wordsOf(given, "mine");
        const outcome = decided({
          ...words,
          queues: [queue("mine", gpuBounds(-1, given.limit))],
          settings: only("preempt"),
        });
        check(given, outcome, ({ job }) => given.jobs[job]?.isFixed === false);
      }),
      { numRuns: 1_000 },
    );
  });

  test("in reclaim", () => {
    fc.assert(
      fc.property(cases, (any) => {
        const given = { ...any, limit: -1 };
        const words = wordsOf(given, "theirs");
        const outcome = decided({
          ...words,
          queues: [queue("mine", gpuBounds(100)), queue("theirs", gpuBounds(0))],
          settings: only("reclaim"),
        });
        check(given, outcome, ({ job }) => given.jobs[job]?.isFixed === false);
      }),
      { numRuns: 1_000 },
    );
  });
});

test("no job is evicted by one of equal or lower priority", () => {
  fc.assert(
    fc.property(cases, fc.constantFrom("train", "build-preemptible"), (given, priorityClassName) => {
      const words = wordsOf(given, "mine");
      const groups = (words.groups ?? []).map((each) =>
        each.metadata.name === "w" ? { ...each, spec: { ...each.spec, priorityClassName } } : each,
      );
      const { victims } = decided({
        ...words,
        groups,
        queues: [queue("mine", gpuBounds(-1, given.limit))],
        settings: only("preempt"),
      });
      for (const { name, job } of podsOf(given)) {
        if (!victims.has(name)) continue;
        expect(given.jobs[job]?.priority).toBe("train");
        expect(priorityClassName).toBe("build-preemptible");
      }
    }),
    { numRuns: 200 },
  );
});

test("a consolidation leaves no moved pod without its place", () => {
  const moves = { close: 0, free: 0 };
  fc.assert(
    fc.property(cases, fc.boolean(), (given, isClose) => {
      const words = wordsOf(given, "mine");
      const inRack = { topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } };
      const cluster = clusterWith({
        ...words,
        nodes: given.nodes.map((gpus, at) => node(nodeName(at), { gpus, labels: { rack: at < 2 ? "a" : "b" } })),
        groups: (words.groups ?? []).map((each) =>
          isClose && each.metadata.name === "w" ? { ...each, spec: { ...each.spec, ...inRack } } : each,
        ),
        topologies: [topology("t", "rack")],
        queues: [queue("mine")],
        settings: only("consolidation"),
      });
      const places = new Map<string, number>();
      const plan = cycle(cluster, startMs + 120_000, ({ statement }) => {
        for (const task of cluster.tasks.values()) {
          const last = (task as Task).holdings.at(-1);
          if (last === undefined) continue;
          places.set(task.name, last.node.index);
          if (statement.evictionOf(task) !== undefined) expect(task.status).toBe("pipelined");
        }
      });
      moves[isClose ? "close" : "free"] += plan.evictions.length;
      const left = [...given.nodes];
      const take = (at: number | undefined, gpus: number): void => {
        if (at !== undefined) left[at] = (left[at] as number) - gpus;
      };
      for (const { name, gpus } of podsOf(given)) {
        expect(places.has(name)).toBe(true);
        take(places.get(name), gpus);
      }
      for (let at = 0; at < given.wants.pods; at++) take(places.get(`w-00${at}`), given.wants.gpus);
      expect(left.filter((free) => free < 0)).toEqual([]);
    }),
    { numRuns: 1_000 },
  );
  expect(Math.min(moves.close, moves.free)).toBeGreaterThan(0);
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { PodGroup } from "../../model/scheduling/podGroup.ts";
import type { Cluster } from "./cluster.ts";
import { cycle, type Plan } from "./cycle.ts";
import { carryOut, gang, node, outcome, pod, queue, startMs, together, world } from "./testCluster.ts";

const runs = 100;
const nowMs = startMs + 60_000;

interface Case {
  readonly nodes: readonly number[];
  readonly quotas: readonly { quota: number; limit: number }[];
  readonly jobs: readonly JobCase[];
}

interface JobCase {
  readonly queue: number;
  readonly pods: number;
  readonly min: number;
  readonly ask: "whole" | "two" | "half" | "third" | "cpu";
  readonly priority: "train" | "build-preemptible" | "inference";
}

const cases: fc.Arbitrary<Case> = fc.record({
  nodes: fc.array(fc.constantFrom(0, 1, 2, 4), { minLength: 1, maxLength: 4 }),
  quotas: fc.array(fc.record({ quota: fc.integer({ min: 0, max: 4 }), limit: fc.constantFrom(-1, -1, 2, 5) }), {
    minLength: 1,
    maxLength: 3,
  }),
  jobs: fc.array(
    fc.record({
      queue: fc.nat(2),
      pods: fc.integer({ min: 1, max: 4 }),
      min: fc.integer({ min: 0, max: 4 }),
      ask: fc.constantFrom("whole", "whole", "two", "half", "third", "cpu"),
      priority: fc.constantFrom("train", "train", "build-preemptible", "inference"),
    }),
    { minLength: 1, maxLength: 8 },
  ),
});

const asks = {
  whole: { gpus: 1 },
  two: { gpus: 2 },
  half: { fraction: "0.5" },
  third: { fraction: "0.3" },
  cpu: {},
} as const;

function objectsOf({ jobs, quotas }: Case): { groups: PodGroup[]; pods: Pod[] } {
  return together(
    ...jobs.map(({ queue: q, pods, min, ask, priority }, at) =>
      gang(`j${at}`, pods, asks[ask], {
        queue: `q${q % quotas.length}`,
        minMember: Math.min(min, pods),
        priorityClassName: priority,
        createdMs: startMs + at,
      }),
    ),
  );
}

function worldOf(each: Case, reverse = false): Cluster {
  const { groups, pods } = objectsOf(each);
  const nodes = each.nodes.map((gpus, at) => node(`n${at}`, { gpus, cpu: "8" }));
  const queues = each.quotas.map((gpu, at) => queue(`q${at}`, { resources: { gpu: { ...gpu, overQuotaWeight: 1 } } }));
  const turn = <T>(list: T[]): T[] => (reverse ? list.reverse() : list);
  return world({ nodes: turn(nodes), queues: turn(queues), groups: turn(groups), pods: turn(pods) });
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
        const cluster = worldOf(each);
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

  test("no part of a gang is ever bound", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const cluster = worldOf(each);
        play(cluster, (plan) => {
          for (const { job, binds } of plan.jobs) {
            if (binds.length > 0)
              expect(job.allocatedCount + binds.length).toBeGreaterThanOrEqual(job.spec.minMember ?? 1);
          }
        });
        for (const job of cluster.jobs.values()) {
          const min = job.spec.minMember ?? 1;
          expect(job.allocatedCount === 0 || job.allocatedCount >= min).toBe(true);
        }
      }),
      { numRuns: runs },
    );
  });

  test("whoever is evicted is evicted for somebody whose every pod has a place by it", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const cluster = worldOf(each);
        play(cluster, (plan) => {
          for (const { reason } of plan.evictions) {
            const evictor = plan.jobs.find(({ job }) => job === reason.evictor);
            expect(evictor?.pipelined.length).toBeGreaterThan(0);
            const placed = (evictor?.pipelined.length ?? 0) + (evictor?.binds.length ?? 0);
            expect((reason.evictor?.allocatedCount ?? 0) + placed).toBeGreaterThanOrEqual(
              reason.evictor?.spec.minMember ?? 1,
            );
          }
        });
      }),
      { numRuns: runs },
    );
  });

  test("a plan leaves the cluster as it was", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const cluster = worldOf(each);
        const first = outcome(cycle(cluster, nowMs));
        cluster.assertCounts();
        expect(outcome(cycle(cluster, nowMs))).toEqual(first);
      }),
      { numRuns: runs },
    );
  });

  test("the order in which objects came changes nothing", () => {
    fc.assert(
      fc.property(cases, (each) => {
        expect(outcome(cycle(worldOf(each, true), nowMs))).toEqual(outcome(cycle(worldOf(each), nowMs)));
      }),
      { numRuns: runs },
    );
  });

  test("it comes to rest", () => {
    fc.assert(
      fc.property(cases, (each) => {
        expect(play(worldOf(each), undefined, 40)).toBe(true);
      }),
      { numRuns: runs },
    );
  });

  test("a job that fits alone still fits when there are more nodes", () => {
    fc.assert(
      fc.property(cases, fc.constantFrom(1, 2, 4), (each, more) => {
        const alone = { ...each, jobs: each.jobs.slice(0, 1) };
        const before = Object.keys(outcome(cycle(worldOf(alone), nowMs)));
        const after = Object.keys(outcome(cycle(worldOf({ ...alone, nodes: [...each.nodes, more] }), nowMs)));
        expect(after.length).toBeGreaterThanOrEqual(before.length);
      }),
      { numRuns: runs },
    );
  });

  test("events one by one and all at once give the same cluster", () => {
    fc.assert(
      fc.property(cases, fc.array(fc.nat(40), { maxLength: 12 }), (each, churn) => {
        const cluster = worldOf(each);
        const { pods } = objectsOf(each);
        cluster.refresh(nowMs);
        for (const at of churn) {
          const some = pods[at % pods.length] as Pod;
          cluster.removePod(some.metadata.uid);
          if (at % 3 === 0) cluster.removeNode("n0");
          cluster.putPod(some);
          if (at % 3 === 0) cluster.putNode(node("n0", { gpus: each.nodes[0] ?? 0, cpu: "8" }));
          if (at % 5 === 0) cluster.putPod(pod(`extra${at}`, { gpus: 1, scheduler: "default-scheduler" }));
          if (at % 5 === 0) cluster.removePod(`pod-default-extra${at}`);
        }
        expect(outcome(cycle(cluster, nowMs))).toEqual(outcome(cycle(worldOf(each), nowMs)));
        cluster.assertCounts();
      }),
      { numRuns: runs },
    );
  });
});

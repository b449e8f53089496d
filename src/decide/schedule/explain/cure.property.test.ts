/** What is told to help helps: the cure is carried out on the objects, and the job runs. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  clusterWith,
  gang,
  group,
  node,
  outcome,
  pod,
  queue,
  startMs,
  topology,
} from "../../../../testing/decide/scheduleCluster.ts";
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { cpuAt, gpuAt, memoryAt, podsAt } from "../cluster/resources.ts";
import { cycle } from "../cycle.ts";
import { type CureVerdict, cureOf } from "./cure.ts";
import { explain } from "./explain.ts";
import { sentenceOf } from "./verdict.ts";

const nowMs = startMs + 60_000;
const taint = { key: "k", value: "v", effect: "NoSchedule" as const };
const apart = (app: string) => ({
  affinity: {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app } } },
      ],
    },
  },
});

interface NodeCase {
  gpus: number;
  isCordoned: boolean;
  isTainted: boolean;
  isReady: boolean;
  rack: string;
  /** GPUs of pods that run there; a share where it is less than one. */
  running: readonly number[];
  isShy: boolean;
}

interface Case {
  nodes: readonly NodeCase[];
  count: number;
  gpus: number;
  fraction: string | undefined;
  devices: number;
  isShy: boolean;
  isTogether: boolean;
}

const nodeCase: fc.Arbitrary<NodeCase> = fc.record({
  gpus: fc.constantFrom(2, 4),
  isCordoned: fc.boolean(),
  isTainted: fc.boolean(),
  isReady: fc.constantFrom(true, true, true, false),
  rack: fc.constantFrom("r1", "r2"),
  running: fc.array(fc.constantFrom(1, 2, 0.3, 0.7), { maxLength: 3 }),
  isShy: fc.boolean(),
});
const cases: fc.Arbitrary<Case> = fc.record({
  nodes: fc.array(nodeCase, { minLength: 1, maxLength: 4 }),
  count: fc.integer({ min: 1, max: 4 }),
  gpus: fc.integer({ min: 1, max: 4 }),
  fraction: fc.constantFrom(undefined, undefined, "0.4", "0.8"),
  devices: fc.constantFrom(1, 1, 2),
  isShy: fc.constantFrom(false, false, true),
  isTogether: fc.constantFrom(false, false, true),
});

function objectsOf(each: Case) {
  const nodes: Node[] = [];
  const pods: Pod[] = [];
  for (const [at, { gpus, isCordoned, isTainted, isReady, rack, running, isShy }] of each.nodes.entries()) {
    const on = `n${at}`;
    const spec = { unschedulable: isCordoned, taints: isTainted ? [taint] : [] };
    nodes.push(node(on, { gpus, isReady, labels: { rack }, spec }));
    let left = gpus;
    for (const [k, asked] of running.entries()) {
      if (left < Math.ceil(asked)) continue;
      left -= Math.ceil(asked);
      const words = asked < 1 ? { fraction: String(asked), groups: [`g-${on}-${k}`] } : { gpus: asked };
      const company = isShy ? { labels: { app: "x" } } : {};
      pods.push(pod(`x-${on}-${k}`, { ...words, ...company, on, group: "r" }));
    }
  }
  const { count, fraction, gpus, devices, isShy, isTogether } = each;
  const words = fraction === undefined ? { gpus } : { fraction, devices };
  const shy = isShy ? { labels: { app: "x" }, spec: apart("x") as never } : {};
  const bound = isTogether ? { topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } } : {};
  return { nodes, pods, job: gang("a", count, { ...words, ...shy }, bound) };
}

type Objects = ReturnType<typeof objectsOf>;

function clusterOf({ nodes, pods, job }: Objects) {
  return clusterWith({
    nodes,
    topologies: [topology("t", "rack")],
    queues: [queue("q", { resources: { gpu: { quota: -1, limit: -1, overQuotaWeight: 1 } } })],
    groups: [group("r", { preemptibility: "non-preemptible" }), ...job.groups],
    pods: [...pods, ...job.pods],
  });
}

function cureFor(objects: Objects): CureVerdict | undefined {
  let found: CureVerdict | undefined;
  cycle(clusterOf(objects), nowMs, (session) => {
    for (const [job, obstacle] of session.obstacles) {
      if (obstacle.type === "placement") found = cureOf(session, job, obstacle.step);
    }
  });
  return found;
}

const runs = (objects: Objects): boolean =>
  Object.keys(outcome(cycle(clusterOf(objects), nowMs))).length === objects.job.pods.length;

const names = { [cpuAt]: "cpu", [memoryAt]: "memory", [gpuAt]: "nvidia.com/gpu", [podsAt]: "pods" };

/** What is free is more where the node has more. */
function withMore(of: Node, name: string, amount: number): Node {
  const more = { ...of.status?.allocatable };
  const had = Number.parseInt(more[name] ?? "0", 10);
  more[name] = name === "cpu" ? String(had + Math.ceil(amount / 1000)) : String(had + amount);
  if (name === "memory") more[name] = `${had + Math.ceil(amount / 2 ** 30)}Gi`;
  return { ...of, status: { ...of.status, allocatable: more, capacity: more } } as Node;
}

function cured({ nodes, pods, job }: Objects, cure: Extract<CureVerdict, { type: "cure" }>): Objects {
  const gone = new Set(cure.deleted.map(({ name }) => name));
  const well = new Set(cure.repaired.map(({ name }) => name));
  return {
    job,
    pods: pods.filter(({ metadata }) => !gone.has(metadata.name)),
    nodes: nodes.map((each) => {
      let now = each;
      if (well.has(each.metadata.name)) {
        const conditions = [{ type: "Ready", status: "True" }];
        now = { ...now, spec: { ...now.spec, unschedulable: false }, status: { ...now.status, conditions } } as Node;
      }
      if (cure.taints.length > 0) now = { ...now, spec: { ...now.spec, taints: [] } } as Node;
      for (const { node: of, place, amount } of cure.grants) {
        if (of.name === each.metadata.name) now = withMore(now, names[place as keyof typeof names], amount);
      }
      return now;
    }),
  };
}

describe("what would make a job run", () => {
  test("lets it run when it is carried out, and no job that could run is reported as hopeless", () => {
    let found = 0;
    let untried = 0;
    fc.assert(
      fc.property(cases, (each) => {
        const objects = objectsOf(each);
        const cure = cureFor(objects);
        if (cure === undefined) return;
        found++;
        if (cure.type === "cure") {
          expect(runs(objects)).toBe(false);
          expect(runs(cured(objects, cure))).toBe(true);
          return;
        }
        if (cure.type === "untried") {
          untried++;
          return;
        }
        const empty = objects.nodes.map((of) => node(of.metadata.name, emptied(of)));
        expect(runs({ ...objects, nodes: empty, pods: [] })).toBe(false);
      }),
      { numRuns: 400 },
    );
    expect(found).toBeGreaterThan(50);
    expect(untried * 20).toBeLessThan(found);
  });

  test("is found by trying that leaves nothing behind", () => {
    fc.assert(
      fc.property(cases, (each) => {
        const objects = objectsOf(each);
        const cluster = clusterOf(objects);
        const said = (): string[] => {
          const sentences: string[] = [];
          cycle(cluster, nowMs, (session) => {
            for (const [job, obstacle] of session.obstacles)
              sentences.push(sentenceOf(explain(session, job, obstacle)));
          });
          return sentences;
        };
        const before = outcome(cycle(cluster, nowMs));
        const first = said();
        cluster.assertCounts();
        expect(said()).toEqual(first);
        expect(outcome(cycle(cluster, nowMs))).toEqual(before);
      }),
      { numRuns: 200 },
    );
  });
});

function emptied({ metadata, status }: Node): Parameters<typeof node>[1] {
  return {
    gpus: Number(status?.allocatable?.["nvidia.com/gpu"] ?? 0),
    labels: { rack: metadata.labels?.["rack"] ?? "" },
  };
}

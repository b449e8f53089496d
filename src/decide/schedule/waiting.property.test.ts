import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addPod, clusterWith, group, node, pod, queue, startMs } from "../../../testing/decide/scheduleCluster.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import type { PodGroup } from "../../model/scheduling/podGroup.ts";
import { type Queue, unlimited } from "../../model/scheduling/queue.ts";
import type { Cluster } from "./cluster/cluster.ts";
import type { Job } from "./cluster/job.ts";
import { actions, cycle } from "./cycle.ts";
import { explain } from "./explain/explain.ts";
import { sentenceOf } from "./explain/verdict.ts";
import { Session } from "./session.ts";

/** More wait than fit, and many of those are alike. */
const nowMs = startMs + 60_000;
const host = "kubernetes.io/hostname";

interface JobCase {
  readonly ask: keyof typeof asks;
  readonly queue: "plain" | "a" | "b";
  readonly priority: "train" | "build" | "inference";
  readonly pods: number;
  readonly createdS: number;
  readonly more: "nothing" | "promise" | "apart" | "zone" | "missing ConfigMap" | "colour";
}

const asks = {
  small: { cpu: "1" },
  large: { cpu: "3" },
  huge: { cpu: "100" },
  gpu: { gpus: 1 },
  gpus: { gpus: 2 },
  half: { fraction: "0.5" },
  memory: { gpuMemory: "50000" },
} as const;

const jobCase: fc.Arbitrary<JobCase> = fc.record({
  ask: fc.constantFrom(...(Object.keys(asks) as (keyof typeof asks)[])),
  queue: fc.constantFrom("plain", "plain", "a", "b"),
  priority: fc.constantFrom("train", "train", "build", "inference"),
  pods: fc.constantFrom(1, 1, 1, 2),
  createdS: fc.nat(2),
  more: fc.constantFrom("nothing", "nothing", "nothing", "promise", "apart", "zone", "missing ConfigMap", "colour"),
});
const nodeCase = fc.record({ gpus: fc.nat(2), cpu: fc.integer({ min: 1, max: 6 }), zone: fc.constantFrom("x", "y") });
const queueCase = fc.record({ limit: fc.constantFrom(-1, -1, 1, 3), typeLimit: fc.constantFrom(-1, -1, -1, 1) });

interface Objects {
  readonly nodes: Node[];
  readonly queues: Queue[];
  readonly groups: PodGroup[];
  readonly pods: Pod[];
}

function nodeOf({ gpus, cpu, zone }: { gpus: number; cpu: number; zone: string }, at: number): Node {
  const labels = { zone, ...(gpus > 0 && { "nvidia.com/gpu.product": zone === "x" ? "H100" : "A100" }) };
  return node(`n${at}`, { gpus, cpu: String(cpu), labels });
}

function queueOf(name: string, { limit, typeLimit }: { limit: number; typeLimit: number }): Queue {
  const gpuTypes = typeLimit === unlimited ? {} : { gpuTypes: { H100: { limit: typeLimit } } };
  return queue(name, { resources: { gpu: { quota: 1, limit, overQuotaWeight: 1 }, ...gpuTypes } });
}

const priorities = { train: 0, build: 100, inference: 125 };

function jobOf(
  { ask, queue: of, priority, pods, createdS, more }: JobCase,
  at: number,
): Pick<Objects, "groups" | "pods"> {
  const isPlain = of === "plain";
  const name = `j${String(at).padStart(2, "0")}`;
  const createdMs = startMs + createdS * 1000;
  const labelSelector = { matchLabels: { colour: "red" } };
  const spec: Partial<Pod["spec"]> = {
    ...(more === "zone" && { nodeSelector: { zone: "x" } }),
    ...(more === "apart" && {
      affinity: {
        podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ labelSelector, topologyKey: host }] },
      },
    }),
    ...(more === "missing ConfigMap" && { volumes: [{ name: "v", configMap: { name: "none" } }] }),
  };
  const words = {
    ...asks[ask],
    createdMs,
    spec,
    priority: priorities[priority],
    ...(more === "colour" && { labels: { colour: "red" } }),
    ...(more === "promise" && { status: { nominatedNodeName: "n0" } }),
  };
  if (isPlain) return { groups: [], pods: [pod(name, { ...words, scheduler: "default-scheduler" })] };
  return {
    groups: [group(name, { queue: of, createdMs, minMember: pods, priorityClassName: priority })],
    pods: Array.from({ length: pods }, (_, one) => pod(`${name}-${one}`, { ...words, group: name })),
  };
}

const clusterCase = fc.record({
  nodes: fc.array(nodeCase, { minLength: 1, maxLength: 4 }),
  queues: fc.tuple(queueCase, queueCase),
  jobs: fc.array(jobCase, { maxLength: 16, size: "+1" }),
});

function objectsOf({ nodes, queues, jobs }: typeof clusterCase extends fc.Arbitrary<infer T> ? T : never): Objects {
  const all = jobs.map(jobOf);
  return {
    nodes: nodes.map(nodeOf),
    queues: [queueOf("a", queues[0]), queueOf("b", queues[1])],
    groups: all.flatMap(({ groups }) => groups),
    pods: all.flatMap(({ pods }) => pods),
  };
}

function clusterOf(objects: Objects): Cluster {
  const cluster = clusterWith(objects);
  cluster.configMaps = new Set();
  return cluster;
}

/** Everything that a cycle leaves: who is where, and what keeps the others. */
function cycled(objects: Objects, change: (session: Session) => void): Session {
  const session = new Session(clusterOf(objects), nowMs);
  change(session);
  for (const name of session.cluster.settings.actions) actions[name](session);
  return session;
}

function placesIn({ cluster }: Session): string[] {
  return [...cluster.tasks.values()].map(
    ({ key, status, holdings }) => `${key} ${status} ${holdings.map((each) => `${each.node.name} ${each.groups}`)}`,
  );
}

function sentences(session: Session, isTold: (job: Job) => boolean = () => true): [string, string][] {
  return [...session.obstacles]
    .filter(([job]) => isTold(job))
    .map(([job, obstacle]) => [job.id, sentenceOf(explain(session, job, obstacle))]);
}

const job = (queue: JobCase["queue"], ask: JobCase["ask"]): JobCase => ({
  ask,
  queue,
  priority: "train",
  pods: 1,
  createdS: 0,
  more: "nothing",
});
const unbounded = { limit: -1, typeLimit: -1 } as const;
/** Memory of a GPU was asked for while there was none: how much of one that is was known only when they came. */
const askedBeforeGpus = {
  nodes: [{ gpus: 0, cpu: 1, zone: "x" as const }],
  queues: [unbounded, unbounded] as [typeof unbounded, typeof unbounded],
  jobs: [job("b", "memory")],
};
const gpusCome = [
  { type: "job" as const, job: job("a", "gpu") },
  { type: "job" as const, job: job("plain", "half") },
  { type: "node" as const, at: 0, node: { gpus: 2, cpu: 2, zone: "x" as const } },
];

describe("a job that waits among many that are alike", () => {
  test("is decided on as if every one of them had been tried", () => {
    let shared = 0;
    fc.assert(
      fc.property(clusterCase, (words) => {
        const objects = objectsOf(words);
        const together = cycled(objects, ({ unplaceable }) => {
          const has = unplaceable.has.bind(unplaceable);
          unplaceable.has = (shape) => has(shape) && ++shared > 0;
        });
        const apart = cycled(objects, ({ unplaceable }) => {
          unplaceable.has = () => false;
        });
        expect(placesIn(together)).toEqual(placesIn(apart));
        expect(sentences(together)).toEqual(sentences(apart));
      }),
      { numRuns: 300 },
    );
    expect(shared).toBeGreaterThan(30);
  });

  test("has the reason that it would have alone", () => {
    fc.assert(
      fc.property(clusterCase, (words) => {
        const objects = objectsOf(words);
        const session = cycled(objects, () => {});
        for (const [id, sentence] of sentences(session)) {
          const other = cycled(objects, () => {});
          expect(sentences(other, (job) => job.id === id)).toEqual([[id, sentence]]);
        }
      }),
      { numRuns: 40 },
    );
  });

  test("is decided on and explained the same by a cluster that has seen it come and by one that was just read", () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ type: fc.constant("job" as const), job: jobCase }) },
      { weight: 2, arbitrary: fc.record({ type: fc.constant("ended" as const), at: fc.nat(15) }) },
      { weight: 1, arbitrary: fc.record({ type: fc.constant("node" as const), at: fc.nat(3), node: nodeCase }) },
      { weight: 1, arbitrary: fc.record({ type: fc.constant("queue" as const), queue: queueCase }) },
    );
    fc.assert(
      fc.property(clusterCase, fc.array(step, { maxLength: 12, size: "+1" }), (words, steps) => {
        const first = objectsOf(words);
        const lasting = clusterOf(first);
        const nodes = new Map(first.nodes.map((each) => [each.metadata.name, each]));
        const pods = new Map(first.pods.map((each) => [each.metadata.uid, each]));
        const groups = [...first.groups];
        let queues = first.queues;
        for (const [at, each] of [{ type: "nothing" as const }, ...steps].entries()) {
          switch (each.type) {
            case "job": {
              const more = jobOf(each.job, 50 + at);
              for (const one of more.groups) lasting.putPodGroup(one);
              groups.push(...more.groups);
              for (const one of more.pods) {
                pods.set(one.metadata.uid, one);
                addPod(lasting, one);
              }
              break;
            }
            case "ended": {
              const uid = [...pods.keys()][each.at];
              if (uid === undefined) break;
              pods.delete(uid);
              lasting.removePod(uid);
              break;
            }
            case "node":
              nodes.set(`n${each.at}`, nodeOf(each.node, each.at));
              lasting.putNode(nodeOf(each.node, each.at));
              break;
            case "queue":
              queues = [queueOf("a", each.queue), queues[1] as Queue];
              lasting.putQueue(queues[0] as Queue);
              break;
            case "nothing":
          }
          const fresh = clusterOf({ nodes: [...nodes.values()], queues, groups, pods: [...pods.values()] });
          const [plan, told] = planOf(lasting);
          expect([plan, told]).toEqual(planOf(fresh));
          for (const [uid, nodeName] of plan) {
            const { spec, ...rest } = pods.get(uid) as Pod;
            // What is shared is not bound here: its groups would have to be written down too.
            if (rest.metadata.annotations?.["gpu-fraction"] ?? rest.metadata.annotations?.["gpu-memory"]) continue;
            const bound = { ...rest, spec: { ...spec, nodeName }, status: { phase: "Running" } } as Pod;
            pods.set(uid, bound);
            addPod(lasting, bound);
          }
        }
      }),
      { numRuns: 60, examples: [[askedBeforeGpus, gpusCome]] },
    );
  });
});

function planOf(cluster: Cluster): [[string, string][], [string, string][]] {
  let told: [string, string][] = [];
  const plan = cycle(cluster, nowMs, (session) => {
    told = sentences(session);
  });
  const binds = plan.jobs.flatMap((job) => job.binds);
  return [binds.map(({ task, node: on }): [string, string] => [task.uid, on]).sort(), told.sort()];
}

/** How much the unschedulable pods of one tenant delay the pods of another. */
import { binderComponent } from "../src/control/bind/binderComponent.ts";
import { schedulerComponent } from "../src/control/schedule/schedulerComponent.ts";
import { fastDelays } from "../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../src/kubelet/run/nodesComponent.ts";
import type { Pod } from "../src/model/kubernetes.generated.ts";
import { parsePool, profilesWith } from "../src/model/profiles/profiles.ts";
import { kaiSchedulerName, labelKeys } from "../src/model/scheduling/keys.ts";
import { queueApiVersion, queueRef } from "../src/model/scheduling/queue.ts";
import { type BenchCluster, podsRef, secondsOf, startBenchCluster } from "./benchCluster.ts";
import { BoundPods } from "./boundPods.ts";
import { type Figure, percentile } from "./figure.ts";

const namespacesRef = { group: "", version: "v1", plural: "namespaces" };
const nodes = 8;
const samples = 20;
const warmUpRounds = 6;
const factorMax = 2;

/** What the pods of the other tenant request that keeps them waiting; each of them requests something else. */
const shapes: Readonly<Record<string, (at: number) => Noise>> = {
  "node selectors": (at) => ({ gpus: 8, spec: { nodeSelector: { [`example.com/shape-${at}`]: "none" } } }),
  // Each node has a pod, so that no GPU too many is free.
  amounts: (at) => ({ gpus: 8, requests: { cpu: `${100 + at}m`, memory: `${6_000 - at}Mi` } }),
  "pod affinities": (at) => ({ gpus: 1, spec: near("podAffinity", { [`example.com/shape-${at}`]: "none" }) }),
  "pod anti-affinities": (at) => ({
    gpus: 1,
    labels: { [`example.com/shape-${at}`]: "own" },
    spec: near("podAntiAffinity", { "example.com/base": "base" }, `example.com/shape-${at}`),
  }),
};

interface Noise {
  readonly gpus: number;
  readonly requests?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spec?: object;
}

const cases: readonly (readonly [waiting: number, kind: string])[] = [
  [800, "node selectors"],
  [5_000, "node selectors"],
  [5_000, "amounts"],
  [5_000, "pod affinities"],
  [5_000, "pod anti-affinities"],
];

/** Time to bind of one tenant's pods, beside what it is before another tenant's pods wait. */
export async function* benchFairness(say: (text: string) => void, which = cases): AsyncGenerator<Figure> {
  for (const [waiting, kind] of which) {
    say(`${waiting} unschedulable pods of different ${kind}`);
    yield* await delayBy(waiting, kind);
  }
}

async function delayBy(waiting: number, kind: string): Promise<Figure[]> {
  const pools = [parsePool(`h100=${nodes}`, profilesWith())];
  const { component } = nodesComponent({ pools, delays: fastDelays, events: "none", leases: false, dra: undefined });
  const cluster = await startBenchCluster({
    parts: [schedulerComponent(), binderComponent(), component],
    initialObjects: async ({ createAll }) => {
      await createAll(namespacesRef, ["quiet", "noisy"].map(namespace));
      await createAll(queueRef, [queue("quiet", 64), queue("noisy", 0)]);
    },
  });
  try {
    const bound = new BoundPods(cluster.store);
    const reported = new BoundPods(cluster.store, isReported);
    await cluster.until(() => cluster.store.collection("/nodes").size === nodes);
    const base = { gpus: 1, labels: { "example.com/base": "base" } };
    const apart = near("podAntiAffinity", base.labels);
    const isBase = (_: unknown, at: number): object => pod(`base-${at}`, "quiet", { ...base, spec: apart });
    await cluster.createAll(podsRef, Array.from({ length: nodes }, isBase));
    await cluster.until(() => bound.of("base") === nodes);
    for (let round = 0; round < warmUpRounds; round++) await timesToBind(cluster, bound, "warm");
    const before = await timesToBind(cluster, bound, "before");
    const noise = shapes[kind] as (at: number) => Noise;
    const unschedulable = Array.from({ length: waiting }, (_, at) => pod(`noise-${at}`, "noisy", noise(at)));
    await cluster.createAll(podsRef, unschedulable);
    const during = await timesToBind(cluster, bound, "during");
    await cluster.until(() => reported.of("noise") === waiting);
    const after = await timesToBind(cluster, bound, "after");
    const figures = (what: string, times: readonly number[]): Figure[] =>
      [0.5, 0.95].map((share) => ({
        name: `time to bind ${what} ${waiting} unschedulable pods of different ${kind}, p${share * 100}`,
        value: percentile(times, share) * 1000,
        unit: "ms",
        target: { at: "most" as const, value: factorMax * percentile(before, share) * 1000 },
        beside: { name: `without them, p${share * 100}`, value: percentile(before, share) * 1000 },
      }));
    return [...figures("while the scheduler reports", during), ...figures("beside", after)];
  } finally {
    await cluster.stop();
  }
}

function isReported(object: object): boolean {
  const { status } = object as Pod;
  return status?.conditions?.some(({ type, reason }) => type === "PodScheduled" && reason === "Unschedulable") === true;
}

/** One pod after the other, deleted when it is bound. */
async function timesToBind(cluster: BenchCluster, bound: BoundPods, word: string): Promise<number[]> {
  const times: number[] = [];
  for (let at = 0; at < samples; at++) {
    const name = `${word}-${at}`;
    times.push(
      await secondsOf(async () => {
        await cluster.createAll(podsRef, [pod(name, "quiet", { gpus: 1 })]);
        await cluster.until(() => bound.of(word) === 1);
      }),
    );
    await cluster.kube.delete({ ...podsRef, namespace: "quiet", name }, { gracePeriodSeconds: 0 });
    await cluster.until(() => bound.of(word) === 0);
  }
  return times;
}

function namespace(name: string): object {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name } };
}

/** The quota keeps the pods of one tenant from being reclaimed for those of the other. */
function queue(name: string, quota: number): object {
  const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
  const resources = { gpu: { quota, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free };
  return { apiVersion: queueApiVersion, kind: "Queue", metadata: { name }, spec: { resources } };
}

/** A tenant has a namespace and a queue of the same name. */
function pod(name: string, tenant: string, { gpus, requests, labels, spec }: Noise): object {
  const resources = { requests: { ...requests }, limits: { "nvidia.com/gpu": String(gpus) } };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: tenant, labels: { [labelKeys.queue]: tenant, ...labels } },
    spec: { schedulerName: kaiSchedulerName, containers: [{ name: "c", image: "i", resources }], ...spec },
  };
}

/** Required affinity or anti-affinity to pods with these labels in any namespace, or with one more label. */
function near(kind: "podAffinity" | "podAntiAffinity", matchLabels: object, orLabel?: string): object {
  const term = { topologyKey: "kubernetes.io/hostname", namespaceSelector: {} };
  const terms = [
    { ...term, labelSelector: { matchLabels } },
    ...(orLabel === undefined
      ? []
      : [{ ...term, labelSelector: { matchExpressions: [{ key: orLabel, operator: "Exists" }] } }]),
  ];
  return { affinity: { [kind]: { requiredDuringSchedulingIgnoredDuringExecution: terms } } };
}

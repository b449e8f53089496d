import { binderComponent } from "../src/control/bind/binderComponent.ts";
import { schedulerComponent } from "../src/control/schedule/schedulerComponent.ts";
import { workloads } from "../src/control/workloads/workloads.ts";
import { fastDelays } from "../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../src/kubelet/run/nodesComponent.ts";
import { parsePool, profilesWith } from "../src/model/profiles/profiles.ts";
import { annotationKeys, kaiSchedulerName, labelKeys } from "../src/model/scheduling/keys.ts";
import { type PodGroup, podGroupApiVersion, podGroupRef } from "../src/model/scheduling/podGroup.ts";
import { queueApiVersion, queueRef } from "../src/model/scheduling/queue.ts";
import { type BenchCluster, podsRef, secondsOf, startBenchCluster } from "./benchCluster.ts";
import { BoundPods } from "./boundPods.ts";
import type { Figure } from "./figure.ts";

const gpusPerNode = 8;
const jobsRef = { group: "batch", version: "v1", plural: "jobs" };
const topologyRef = { group: "kai.scheduler", version: "v1alpha1", plural: "topologies" };
const hostLabel = "kubernetes.io/hostname";
const leafLabel = "network.topology.nvidia.com/leaf";

interface Story {
  readonly name: string;
  readonly nodes: number;
  readonly targetSeconds?: number;
  /** What KAI's own scale run published (scheduler 3 to 5 CPUs, 500 KWOK nodes), in seconds. */
  readonly kaiSeconds: number;
  /** Not measured. */
  readonly before?: (cluster: BenchCluster, bound: BoundPods) => Promise<void>;
  readonly play: (cluster: BenchCluster, bound: BoundPods) => Promise<void>;
}

const stories: readonly Story[] = [
  {
    name: "4,000 one-GPU jobs fill 500 nodes",
    nodes: 500,
    targetSeconds: 5,
    kaiSeconds: 397.8,
    play: (cluster, bound) => fill(cluster, bound, "job", "mine", 4_000),
  },
  {
    name: "the same with 400 jobs that wait for ever",
    nodes: 500,
    kaiSeconds: 398.1,
    before: (cluster) => cluster.createAll(jobsRef, jobs("never", "mine", 400, { gpus: gpusPerNode + 1 })),
    play: (cluster, bound) => fill(cluster, bound, "job", "mine", 4_000),
  },
  {
    name: "one gang of 512 pods of 8 GPUs on 512 nodes",
    nodes: 512,
    targetSeconds: 0.5,
    kaiSeconds: 49.4,
    play: (cluster, bound) => gangs(cluster, bound, "gang", "mine", { gangs: 1, pods: 512 }),
  },
  {
    name: "the same, under one switch if it can be",
    nodes: 512,
    targetSeconds: 0.5,
    kaiSeconds: 48.7,
    play: (cluster, bound) => gangs(cluster, bound, "gang", "mine", { gangs: 1, pods: 512, isUnderOneLeaf: true }),
  },
  {
    name: "a gang of 10 pods of 8 GPUs is told that it cannot fit, 500 nodes in use",
    nodes: 500,
    kaiSeconds: 249.5,
    before: (cluster, bound) => fill(cluster, bound, "job", "mine", 4_000),
    play: async (cluster) => {
      await submit(cluster, "gang", "mine", { gangs: 1, pods: 10 });
      await cluster.until(() => hasReason(cluster, "gang-0"));
    },
  },
  {
    name: "one GPU reclaimed among 4,000 in use, the victim's end included",
    nodes: 500,
    kaiSeconds: 13.9,
    before: (cluster, bound) => fill(cluster, bound, "job", "theirs", 4_000),
    play: (cluster, bound) => fill(cluster, bound, "late", "mine", 1),
  },
  {
    name: "a gang of 250 pods of 8 GPUs reclaims half of 500 nodes",
    nodes: 500,
    kaiSeconds: 102,
    before: (cluster, bound) => fill(cluster, bound, "job", "theirs", 4_000),
    play: (cluster, bound) => gangs(cluster, bound, "late", "mine", { gangs: 1, pods: 250 }),
  },
  {
    name: "a gang of 500 pods of 8 GPUs reclaims all of 500 nodes",
    nodes: 500,
    kaiSeconds: 85,
    before: (cluster, bound) => fill(cluster, bound, "job", "theirs", 4_000),
    play: (cluster, bound) => gangs(cluster, bound, "late", "mine", { gangs: 1, pods: 500 }),
  },
  {
    name: "50 gangs of 10 pods of 8 GPUs reclaim all of 500 nodes",
    nodes: 500,
    kaiSeconds: 717,
    before: (cluster, bound) => fill(cluster, bound, "job", "theirs", 4_000),
    play: (cluster, bound) => gangs(cluster, bound, "late", "mine", { gangs: 50, pods: 10 }),
  },
  {
    name: "4,000 one-GPU jobs reclaim all of 500 nodes",
    nodes: 500,
    kaiSeconds: 694,
    before: (cluster, bound) => fill(cluster, bound, "job", "theirs", 4_000),
    play: (cluster, bound) => fill(cluster, bound, "late", "mine", 4_000),
  },
  {
    name: "41 gangs of 10 pods of 8 GPUs, 500 nodes with one GPU in use each: the others are moved together",
    nodes: 500,
    kaiSeconds: 456,
    before: async (cluster, bound) => {
      await fill(cluster, bound, "job", "mine", 4_000);
      await leaveOneOnEachNode(cluster, bound);
    },
    play: (cluster, bound) => gangs(cluster, bound, "gang", "mine", { gangs: 41, pods: 10 }),
  },
];

/** What KAI runs to show how it scales, from the first object created to the last pod bound, on the embedded server. */
export async function* scaleRun(say: (text: string) => void): AsyncGenerator<Figure> {
  for (const { name, nodes, targetSeconds, kaiSeconds, before, play } of stories) {
    say(`scale run: ${name}`);
    const cluster = await gpuCluster(nodes);
    try {
      const bound = new BoundPods(cluster.store);
      await before?.(cluster, bound);
      yield {
        name: `scale run: ${name}`,
        value: await secondsOf(() => play(cluster, bound)),
        unit: "s",
        ...(targetSeconds !== undefined && { target: { at: "most" as const, value: targetSeconds } }),
        beside: { name: "KAI, published", value: kaiSeconds },
      };
    } finally {
      await cluster.stop();
    }
  }
}

async function gpuCluster(nodes: number): Promise<BenchCluster> {
  const pool = parsePool(`h100=${nodes}`, profilesWith());
  const pools = [{ ...pool, profile: { ...pool.profile, topology: { scheme: "topograph" as const } } }];
  // A Job runs longer than any of the workloads.
  const delays = { ...fastDelays, jobRun: { minMs: 3_600_000, maxMs: 3_600_000 } };
  const { component } = nodesComponent({ pools, delays, events: "none", leases: false, dra: undefined });
  const cluster = await startBenchCluster({
    parts: [workloads, schedulerComponent(), binderComponent(), component],
    initialObjects: async ({ createAll }) => {
      const queues = [queue("mine", nodes * gpusPerNode), queue("theirs", 0)];
      await createAll(queueRef, queues);
      const levels = [{ nodeLabel: leafLabel }, { nodeLabel: hostLabel }];
      const topology = { apiVersion: "kai.scheduler/v1alpha1", kind: "Topology", metadata: { name: "network" } };
      await createAll(topologyRef, [{ ...topology, spec: { levels } }]);
    },
  });
  await cluster.until(() => cluster.store.collection("/nodes").size === nodes);
  return cluster;
}

function queue(name: string, gpus: number): object {
  const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
  const resources = { gpu: { quota: gpus, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free };
  return { apiVersion: queueApiVersion, kind: "Queue", metadata: { name }, spec: { resources } };
}

async function fill(cluster: BenchCluster, bound: BoundPods, word: string, queueName: string, count: number) {
  const creating = cluster.createAll(jobsRef, jobs(word, queueName, count, { gpus: 1 }));
  await Promise.all([creating, cluster.until(() => bound.of(word) === count)]);
}

interface Gangs {
  readonly gangs: number;
  readonly pods: number;
  readonly isUnderOneLeaf?: boolean;
}

async function gangs(cluster: BenchCluster, bound: BoundPods, word: string, queueName: string, size: Gangs) {
  const submitting = submit(cluster, word, queueName, size);
  await Promise.all([submitting, cluster.until(() => bound.of(word) === size.gangs * size.pods)]);
}

async function submit(cluster: BenchCluster, word: string, queueName: string, size: Gangs): Promise<void> {
  const names = Array.from({ length: size.gangs }, (_, at) => `${word}-${at}`);
  const topologyConstraint = { topology: "network", preferredTopologyLevel: leafLabel };
  const groups = names.map((name) => ({
    apiVersion: podGroupApiVersion,
    kind: "PodGroup",
    metadata: { name, namespace: "default" },
    spec: { minMember: size.pods, queue: queueName, ...(size.isUnderOneLeaf === true && { topologyConstraint }) },
  }));
  await cluster.createAll(podGroupRef, groups);
  const pods = names.flatMap((name) =>
    Array.from({ length: size.pods }, (_, at) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: `${name}-${at}`,
        namespace: "default",
        labels: { [labelKeys.queue]: queueName },
        annotations: { [annotationKeys.podGroup]: name },
      },
      spec: podSpec(gpusPerNode),
    })),
  );
  await cluster.createAll(podsRef, pods);
}

function jobs(word: string, queueName: string, count: number, { gpus }: { gpus: number }): object[] {
  const labels = { [labelKeys.queue]: queueName };
  const template = { metadata: { labels }, spec: { ...podSpec(gpus), restartPolicy: "Never" } };
  return Array.from({ length: count }, (_, at) => ({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: `${word}-${at}`, namespace: "default", labels },
    spec: { backoffLimit: 1_000, template },
  }));
}

function podSpec(gpus: number): object {
  const resources = { requests: { cpu: "100m", memory: "64Mi" }, limits: { "nvidia.com/gpu": String(gpus) } };
  const containers = [{ name: "main", image: "registry.example.com/train:1", resources }];
  return { schedulerName: kaiSchedulerName, terminationGracePeriodSeconds: 1, containers };
}

function hasReason(cluster: BenchCluster, name: string): boolean {
  const found = cluster.store.get("scheduling.run.ai/podgroups", "default", name)?.object();
  const { schedulingConditions = [] } = (found as unknown as PodGroup | undefined)?.status ?? {};
  return schedulingConditions.length > 0;
}

/** Of the jobs that fill a node all but one are deleted. */
async function leaveOneOnEachNode(cluster: BenchCluster, bound: BoundPods): Promise<void> {
  const spared = new Set<string>();
  const doomed: string[] = [];
  for (const version of cluster.store.collection("/pods").all()) {
    const pod = version.object() as unknown as {
      spec: { nodeName: string };
      metadata: { labels: Record<string, string> };
    };
    const job = pod.metadata.labels["batch.kubernetes.io/job-name"] ?? "";
    if (spared.has(pod.spec.nodeName)) doomed.push(job);
    else spared.add(pod.spec.nodeName);
  }
  for (const name of doomed) {
    await cluster.kube.delete({ ...jobsRef, namespace: "default", name }, { propagationPolicy: "Background" });
  }
  await cluster.until(() => bound.of("job") === cluster.store.collection("/nodes").size);
}

import { binderComponent } from "../src/control/bind/binderComponent.ts";
import { schedulerComponent } from "../src/control/schedule/schedulerComponent.ts";
import type { PodSpec } from "../src/model/kubernetes.generated.ts";
import { type BenchCluster, nodesRef, podsRef, secondsOf, startBenchCluster } from "./benchCluster.ts";
import { BoundPods } from "./boundPods.ts";
import type { Figure } from "./figure.ts";

const zones = 10;
const zoneLabel = "topology.kubernetes.io/zone";
const hostLabel = "kubernetes.io/hostname";

interface Workload {
  readonly name: string;
  readonly nodes: number;
  /** Bound, or left waiting, before anything is measured. */
  readonly before: number;
  readonly beforeSpec?: Partial<PodSpec>;
  readonly isBeforeBound?: boolean;
  readonly measured: number;
  readonly spec?: Partial<PodSpec>;
  /** The least that Kubernetes lets its own scheduler do, on six cores, with an etcd in memory. */
  readonly threshold: number;
}

const sameColour = { labelSelector: { matchLabels: { colour: "measured" } } };
const near = { ...sameColour, topologyKey: zoneLabel };
const apart = { ...sameColour, topologyKey: hostLabel };
const spread = (whenUnsatisfiable: string) => [
  { maxSkew: 5, topologyKey: zoneLabel, whenUnsatisfiable, ...sameColour },
];
const inZone = { matchExpressions: [{ key: zoneLabel, operator: "In", values: ["zone-0", "zone-1"] }] };
const preferred = <T>(term: T) => [{ weight: 1, podAffinityTerm: term }];
const requiredInZone = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [inZone] } };

/** Kubernetes' own benchmarks of its scheduler that need neither devices nor volumes, on 5,000 nodes. */
const workloads: readonly Workload[] = [
  { name: "plain pods", nodes: 5_000, before: 1_000, measured: 10_000, threshold: 680 },
  {
    name: "beside 5,000 pods that cannot be placed",
    nodes: 5_000,
    before: 5_000,
    beforeSpec: { containers: [container({ cpu: "1000" })] },
    isBeforeBound: false,
    measured: 10_000,
    threshold: 600,
  },
  {
    name: "on nodes of two zones",
    nodes: 5_000,
    before: 5_000,
    measured: 10_000,
    spec: { affinity: { nodeAffinity: requiredInZone } },
    threshold: 540,
  },
  {
    name: "spread over zones",
    nodes: 5_000,
    before: 5_000,
    measured: 5_000,
    spec: { topologySpreadConstraints: spread("DoNotSchedule") },
    threshold: 460,
  },
  {
    name: "spread over zones if it can be",
    nodes: 5_000,
    before: 5_000,
    measured: 5_000,
    spec: { topologySpreadConstraints: spread("ScheduleAnyway") },
    threshold: 340,
  },
  {
    name: "no two on a node",
    nodes: 5_000,
    before: 1_000,
    measured: 2_000,
    spec: { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [apart] } } },
    threshold: 180,
  },
  {
    name: "all in one zone",
    nodes: 5_000,
    before: 5_000,
    measured: 5_000,
    spec: { affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [near] } } },
    threshold: 70,
  },
  {
    name: "near each other if it can be",
    nodes: 5_000,
    before: 5_000,
    measured: 5_000,
    spec: { affinity: { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferred(apart) } } },
    threshold: 160,
  },
  {
    name: "apart if it can be",
    nodes: 5_000,
    before: 5_000,
    measured: 5_000,
    spec: { affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferred(apart) } } },
    threshold: 190,
  },
];

/** Pods of default-scheduler, created and bound, on the embedded server with everything on the disk. */
export async function* kubernetesRun(say: (text: string) => void): AsyncGenerator<Figure> {
  for (const workload of workloads) {
    say(`Kubernetes' workloads: ${workload.name}`);
    const cluster = await plainCluster(workload.nodes);
    try {
      const bound = new BoundPods(cluster.store);
      const { before, beforeSpec, isBeforeBound = true, measured, spec, threshold } = workload;
      await cluster.createAll(podsRef, pods("before", before, beforeSpec));
      if (isBeforeBound) await cluster.until(() => bound.of("before") === before);
      const seconds = await secondsOf(async () => {
        const creating = cluster.createAll(podsRef, pods("measured", measured, spec));
        await Promise.all([creating, cluster.until(() => bound.of("measured") === measured)]);
      });
      yield {
        name: `Kubernetes' workloads: ${measured} pods ${workload.name}, ${workload.nodes} nodes`,
        value: measured / seconds,
        unit: "pods/s",
        beside: { name: "kube-scheduler's threshold, 6 cores", value: threshold },
      };
    } finally {
      await cluster.stop();
    }
  }
}

function plainCluster(nodes: number): Promise<BenchCluster> {
  return startBenchCluster({
    parts: [schedulerComponent(), binderComponent()],
    initialObjects: ({ createAll }) =>
      createAll(
        nodesRef,
        Array.from({ length: nodes }, (_, at) => plainNode(at)),
      ),
  });
}

/** As large as the nodes of Kubernetes' own benchmarks. */
function plainNode(at: number): object {
  const amounts = { cpu: "4", memory: "32Gi", pods: "110" };
  const name = `node-${at}`;
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { [hostLabel]: name, [zoneLabel]: `zone-${at % zones}` } },
    status: { capacity: amounts, allocatable: amounts, conditions: [{ type: "Ready", status: "True" }] },
  };
}

function pods(word: string, count: number, spec: Partial<PodSpec> = {}): object[] {
  return Array.from({ length: count }, (_, at) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `${word}-${at}`, namespace: "default", labels: { colour: word } },
    spec: { containers: [container({ cpu: "100m", memory: "500Mi" })], ...spec },
  }));
}

function container(requests: Record<string, string>): PodSpec["containers"][number] {
  return { name: "main", image: "registry.example.com/app:1", resources: { requests } };
}

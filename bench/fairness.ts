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

const nodes = 8;
const samples = 20;
const factorMax = 2;

/** Time to bind of one tenant's pods, beside what it is before another tenant's pods wait. */
export async function* benchFairness(say: (text: string) => void): AsyncGenerator<Figure> {
  for (const waiting of [800, 5_000]) {
    say(`${waiting} unschedulable pods of different shapes`);
    yield* await delayBy(waiting);
  }
}

async function delayBy(waiting: number): Promise<Figure[]> {
  const pools = [parsePool(`h100=${nodes}`, profilesWith())];
  const { component } = nodesComponent({ pools, delays: fastDelays, events: "none", leases: false, dra: undefined });
  const cluster = await startBenchCluster({
    parts: [schedulerComponent(), binderComponent(), component],
    initialObjects: ({ createAll }) => createAll(queueRef, [queue("quiet"), queue("noisy")]),
  });
  try {
    const bound = new BoundPods(cluster.store);
    await cluster.until(() => cluster.store.collection("/nodes").size === nodes);
    await timesToBind(cluster, bound, "warm");
    const before = await timesToBind(cluster, bound, "before");
    const shapes = Array.from({ length: waiting }, (_, at) =>
      pod(`noise-${at}`, "noisy", 8, { nodeSelector: { [`example.com/shape-${at}`]: "none" } }),
    );
    await cluster.createAll(podsRef, shapes);
    const during = await timesToBind(cluster, bound, "during");
    await cluster.until(() => areAllReported(cluster, waiting));
    const after = await timesToBind(cluster, bound, "after");
    const figures = (what: string, times: readonly number[]): Figure[] =>
      [0.5, 0.95].map((share) => ({
        name: `time to bind ${what} ${waiting} unschedulable pods of another tenant, p${share * 100}`,
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

/** Whether the condition of every unschedulable pod says so. */
function areAllReported({ store }: BenchCluster, waiting: number): boolean {
  let reported = 0;
  for (const version of store.collection("/pods").all()) {
    const { status } = version.object() as Pod;
    if (status?.conditions?.some(({ type, reason }) => type === "PodScheduled" && reason === "Unschedulable"))
      reported++;
  }
  return reported === waiting;
}

/** One pod after the other, deleted when it is bound. */
async function timesToBind(cluster: BenchCluster, bound: BoundPods, word: string): Promise<number[]> {
  const times: number[] = [];
  for (let at = 0; at < samples; at++) {
    const name = `${word}-${at}`;
    times.push(
      await secondsOf(async () => {
        await cluster.createAll(podsRef, [pod(name, "quiet", 1)]);
        await cluster.until(() => bound.of(word) === 1);
      }),
    );
    await cluster.kube.delete({ ...podsRef, namespace: "default", name }, { gracePeriodSeconds: 0 });
    await cluster.until(() => bound.of(word) === 0);
  }
  return times;
}

function queue(name: string): object {
  const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
  const resources = { gpu: { quota: 8, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free };
  return { apiVersion: queueApiVersion, kind: "Queue", metadata: { name }, spec: { resources } };
}

function pod(name: string, queueName: string, gpus: number, spec: object = {}): object {
  const limits = { "nvidia.com/gpu": String(gpus) };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", labels: { [labelKeys.queue]: queueName } },
    spec: { schedulerName: kaiSchedulerName, containers: [{ name: "c", image: "i", resources: { limits } }], ...spec },
  };
}

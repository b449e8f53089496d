import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { inProcessKube } from "../../apiserver/kubeApi.ts";
import { binderPart } from "../../control/bind/binderPart.ts";
import { Controllers } from "../../control/controllers.ts";
import { ensureDefinitions } from "../../control/ensureObjects.ts";
import { MetricsBook } from "../../control/metricsBook.ts";
import { schedulerPart } from "../../control/schedule/schedulerPart.ts";
import { inParallel } from "../../control/schedule/schedulerTurns.ts";
import type { Cluster } from "../../decide/schedule/cluster.ts";
import { cycle } from "../../decide/schedule/cycle.ts";
import { explain } from "../../decide/schedule/explain.ts";
import { addPod, carryOut, gang, group, node, pod, queue, together, world } from "../../decide/schedule/testCluster.ts";
import type { KubeObject } from "../../model/object.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { startEmbeddedServer } from "../embeddedServer.ts";
import { type Figure, percentile } from "./figure.ts";

const rounds = 5;
const podCount = 10_000;
const nowMs = Date.UTC(2026, 0, 2);

/** Decisions alone, and the whole way on the embedded server with everything on the disk. */
export async function* benchScheduler(say: (text: string) => void): AsyncGenerator<Figure> {
  for (const [nodes, kinds, different] of [
    [500, 100_000, 30_000],
    [5_000, 100_000, 30_000],
    [15_000, undefined, 10_000],
  ] as const) {
    say(`decisions on ${nodes} nodes`);
    yield decisions(`plain pods of 64 kinds, ${nodes} nodes`, nodes, (at) => `${100 + (at % 64) * 10}m`, kinds);
    yield decisions(`plain pods, every one different, ${nodes} nodes`, nodes, (at) => `${100 + at}m`, different);
  }
  say("gangs, queues and verdicts on 500 nodes");
  yield* gangFigures();
  for (const nodes of [500, 5_000, 15_000]) {
    say(`end to end: ${podsOf} plain pods and ${podsOf} one-GPU jobs on ${nodes} nodes`);
    yield* await endToEnd(nodes);
  }
}

function nodesOf(count: number): ReturnType<typeof node>[] {
  return Array.from({ length: count }, (_, at) => node(`n${String(at).padStart(5, "0")}`, { cpu: "64" }));
}

/** One pod is placed after the other, all in one cycle; the first rounds warm the machine up. */
function decisions(name: string, nodes: number, cpu: (at: number) => string, target: number | undefined): Figure {
  const perSecond: number[] = [];
  const perCpuSecond: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const cluster = world({ nodes: nodesOf(nodes) });
    for (let at = 0; at < podCount; at++) {
      cluster.putPodGroup(group(`g${at}`));
      addPod(cluster, pod(`p${at}`, { cpu: cpu(at), group: `g${at}` }));
    }
    const { ms, cpuMs, binds } = timed(cluster);
    perSecond.push((binds * 1000) / ms);
    perCpuSecond.push((binds * 1000) / cpuMs);
  }
  return {
    name: `decisions: ${name}`,
    value: percentile(perSecond, 0.5),
    unit: "pods/s",
    ...(target !== undefined && { target: { at: "least" as const, value: target } }),
    // Where others use the machine too, this is what it would be alone.
    beside: { name: "in a second of CPU time", value: percentile(perCpuSecond, 0.5) },
  };
}

function timed(cluster: Cluster): { ms: number; cpuMs: number; binds: number; evictions: number } {
  const startedMs = performance.now();
  const cpu = process.cpuUsage();
  const plan = cycle(cluster, nowMs);
  const cpuMs = process.cpuUsage(cpu).user / 1000;
  const ms = performance.now() - startedMs;
  return {
    ms,
    cpuMs,
    binds: plan.jobs.reduce((sum, { binds }) => sum + binds.length, 0),
    evictions: plan.evictions.length,
  };
}

function* gangFigures(): Generator<Figure> {
  const median = (build: () => Cluster, run: (cluster: Cluster) => number): number =>
    percentile(
      Array.from({ length: rounds }, () => run(build())),
      0.5,
    );
  yield {
    name: "decision: one gang of 512 pods of 8 GPUs, 512 nodes",
    value: median(
      () => world({ nodes: nodesOf(512), ...gang("g", 512, { gpus: 8 }) }),
      (cluster) => timed(cluster).ms,
    ),
    unit: "ms",
    target: { at: "most", value: 50 },
  };
  const singles = (queueName: string, count: number) =>
    together(
      ...Array.from({ length: count }, (_, at) => gang(`${queueName}${at}`, 1, { gpus: 1 }, { queue: queueName })),
    );
  yield {
    name: "decision: 4,000 one-GPU jobs on 500 nodes",
    value: median(
      () => world({ nodes: nodesOf(500), queues: [queue("q")], ...singles("q", 4_000) }),
      (cluster) => timed(cluster).ms,
    ),
    unit: "ms",
    target: { at: "most", value: 500 },
  };
  yield {
    name: "verdict with reason: 10 pods of 8 GPUs that cannot fit, 500 nodes of 4",
    value: median(
      () => {
        const nodes = nodesOf(500).map(({ metadata }) => node(metadata.name, { gpus: 4, cpu: "64" }));
        return world({ nodes, ...gang("g", 10, { gpus: 8 }) });
      },
      (cluster) => {
        const startedMs = performance.now();
        cycle(cluster, nowMs, (session) => {
          for (const [job, obstacle] of session.obstacles) explain(session, job, obstacle);
        });
        return performance.now() - startedMs;
      },
    ),
    unit: "ms",
    target: { at: "most", value: 50 },
  };
  yield {
    name: "decision: one GPU reclaimed, 4,000 running on 500 nodes",
    value: median(
      () => {
        const gpu = (quota: number) => ({ resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 } } });
        const queues = [queue("mine", gpu(100)), queue("theirs", gpu(100))];
        const cluster = world({ nodes: nodesOf(500), queues, ...singles("theirs", 4_000) });
        carryOut(cluster, cycle(cluster, nowMs));
        cluster.putPodGroup(group("late", { queue: "mine" }));
        addPod(cluster, pod("late", { gpus: 1, group: "late" }));
        cycle(cluster, nowMs);
        cluster.touched();
        return cluster;
      },
      (cluster) => timed(cluster).ms,
    ),
    unit: "ms",
    target: { at: "most", value: 50 },
  };
}

const podsRef = { group: "", version: "v1", plural: "pods" };
/** Together as many as 500 nodes have GPUs. The first warm the machine up. */
const podsOf = 3_500;
const warmUpPods = 500;

/** Created, decided and bound, each on the disk before it is seen. */
export async function endToEnd(nodes: number, pods = podsOf): Promise<Figure[]> {
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-scheduler-"));
  const clock = systemClock();
  const random = systemRandom();
  const scheduler = schedulerPart();
  const binder = binderPart();
  const flags = { dataDir: folder, port: "0", host: "127.0.0.1" };
  const embedded = await startEmbeddedServer(flags, { clock, random }, { hooks: scheduler.hooks ?? [] });
  const { core } = embedded.server;
  const user = { username: "system:muster", groups: ["system:masters", "system:authenticated"] };
  const kube = inProcessKube(core, { user, fieldManager: "muster" });
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const controllers = new Controllers(
    { kube, clock, random, log: silent, metrics: new MetricsBook() },
    { fieldManager: "muster" },
  );
  try {
    const defined = await ensureDefinitions({ kube, clock }, [scheduler, binder]);
    if (!defined.ok) throw new Error(defined.message);
    for (const object of scheduler.startObjects ?? []) {
      const plural = object.kind === "Queue" ? "queues" : "priorityclasses";
      const [group = "", version = ""] = object.apiVersion.split("/");
      await kube.create({ group, version, plural }, object as unknown as KubeObject);
    }
    for (const each of nodesOf(nodes)) {
      const { uid: _, resourceVersion: __, ...metadata } = each.metadata;
      await kube.create({ ...podsRef, plural: "nodes" }, { ...each, metadata } as unknown as KubeObject);
    }
    scheduler.add(controllers);
    binder.add(controllers);
    await controllers.start();
    const gpu = { "nvidia.com/gpu": "1" };
    await bindAll(kube, core.store, "warm", warmUpPods, {}, "default-scheduler");
    const plain = await bindAll(kube, core.store, "plain", pods, {}, "default-scheduler");
    await bindAll(kube, core.store, "first", warmUpPods, gpu, "kai-scheduler");
    const grouped = await bindAll(kube, core.store, "job", pods, gpu, "kai-scheduler");
    const where = `created and bound, ${nodes} nodes, in process, durable`;
    const figure = (what: string, { perSecond, perCpuSecond }: Rate, target: number): Figure => ({
      name: `end to end: ${pods} ${what} ${where}`,
      value: perSecond,
      unit: "pods/s",
      target: { at: "least", value: target },
      beside: { name: "in a second of CPU time", value: perCpuSecond },
    });
    return [figure("plain pods", plain, 2_000), figure("one-GPU jobs with group and queue", grouped, 800)];
  } finally {
    await controllers.stop();
    await embedded.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Rate {
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

interface Watched {
  onEvent(told: (event: { current: { resource: string; name: string; object(): KubeObject } }) => void): unknown;
}

async function bindAll(
  kube: KubeApi,
  store: Watched,
  prefix: string,
  pods: number,
  gpus: Record<string, string>,
  schedulerName: string,
): Promise<Rate> {
  const bound = new Set<string>();
  let done = (): void => {};
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  store.onEvent(({ current }) => {
    if (current.resource !== "/pods" || !current.name.startsWith(prefix) || bound.has(current.name)) return;
    const spec = current.object()["spec"] as { nodeName?: string } | undefined;
    if (spec?.nodeName === undefined) return;
    bound.add(current.name);
    if (bound.size === pods) done();
  });
  const startedMs = performance.now();
  const cpu = process.cpuUsage();
  const numbers = Array.from({ length: pods }, (_, at) => at);
  await inParallel(numbers, 64, async (at) => {
    const resources = { requests: { cpu: "100m", memory: "64Mi", ...gpus }, limits: gpus };
    await kube.create(podsRef, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: `${prefix}-${at}`, namespace: "default" },
      spec: { schedulerName, containers: [{ name: "main", image: "i", resources }] },
    } as unknown as KubeObject);
  });
  await all;
  const { user, system } = process.cpuUsage(cpu);
  return {
    perSecond: (pods * 1000) / (performance.now() - startedMs),
    perCpuSecond: (pods * 1e6) / (user + system),
  };
}

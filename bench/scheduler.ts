import { binderComponent } from "../src/control/bind/binderComponent.ts";
import { schedulerComponent } from "../src/control/schedule/schedulerComponent.ts";
import type { Cluster } from "../src/decide/schedule/cluster/cluster.ts";
import { cycle } from "../src/decide/schedule/cycle.ts";
import { explain } from "../src/decide/schedule/explain/explain.ts";
import type { ObjectMeta } from "../src/model/objects/object.ts";
import { defaultSchedulerName, kaiSchedulerName } from "../src/model/scheduling/keys.ts";
import {
  addPod,
  carryOut,
  clusterWith,
  gang,
  group,
  node,
  pod,
  queue,
  together,
} from "../testing/decide/scheduleCluster.ts";
import { type BenchCluster, nodesRef, podsRef, startBenchCluster } from "./benchCluster.ts";
import { BoundPods } from "./boundPods.ts";
import { startControllersOverHttp } from "./controllersOverHttp.ts";
import { type Figure, percentile } from "./figure.ts";
import { kubernetesRun } from "./schedulerPerf.ts";
import { scaleRun } from "./schedulerScale.ts";

const rounds = 5;
const warmUpRounds = 3;
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
  say("end to end, with the controllers in a process of their own, on 5000 nodes");
  yield* await overHttp(5_000);
  yield* scaleRun(say);
  yield* kubernetesRun(say);
}

function nodesOf(count: number): ReturnType<typeof node>[] {
  return Array.from({ length: count }, (_, at) => node(`n${String(at).padStart(5, "0")}`, { cpu: "64" }));
}

/** One pod is placed after the other, all in one cycle; the first rounds warm the machine up and do not count. */
function decisions(name: string, nodes: number, cpu: (at: number) => string, target: number | undefined): Figure {
  const perSecond: number[] = [];
  const perCpuSecond: number[] = [];
  for (let round = -warmUpRounds; round < rounds; round++) {
    const cluster = clusterWith({ nodes: nodesOf(nodes) });
    for (let at = 0; at < podCount; at++) {
      cluster.putPodGroup(group(`g${at}`));
      addPod(cluster, pod(`p${at}`, { cpu: cpu(at), group: `g${at}` }));
    }
    const { ms, cpuMs, binds } = timed(cluster);
    if (round < 0) continue;
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

function evictingMs(cluster: Cluster, expected: number): number {
  const { ms, evictions } = timed(cluster);
  if (evictions !== expected) throw new Error(`${evictions} were evicted, not ${expected}`);
  return ms;
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
      () => clusterWith({ nodes: nodesOf(512), ...gang("g", 512, { gpus: 8 }) }),
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
      () => clusterWith({ nodes: nodesOf(500), queues: [queue("q")], ...singles("q", 4_000) }),
      (cluster) => timed(cluster).ms,
    ),
    unit: "ms",
    target: { at: "most", value: 500 },
  };
  const verdictMs = (cluster: Cluster): number => {
    const startedMs = performance.now();
    cycle(cluster, nowMs, (session) => {
      for (const [job, obstacle] of session.obstacles) explain(session, job, obstacle);
    });
    return performance.now() - startedMs;
  };
  yield {
    name: "verdict with reason: 10 pods of 8 GPUs that cannot fit, 500 nodes of 4",
    value: median(() => {
      const nodes = nodesOf(500).map(({ metadata }) => node(metadata.name, { gpus: 4, cpu: "64" }));
      return clusterWith({ nodes, ...gang("g", 10, { gpus: 8 }) });
    }, verdictMs),
    unit: "ms",
    target: { at: "most", value: 50 },
  };
  /** Nodes full of one-GPU jobs of one queue. The late gang is decided about twice, the second time after a change. */
  const inUse = (nodes: number, quotas: { mine: number; theirs: number }, late: ReturnType<typeof gang>): Cluster => {
    const gpu = (quota: number) => ({ resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 } } });
    const queues = [queue("mine", gpu(quotas.mine)), queue("theirs", gpu(quotas.theirs))];
    const cluster = clusterWith({ nodes: nodesOf(nodes), queues, ...singles("theirs", nodes * 8) });
    carryOut(cluster, cycle(cluster, nowMs));
    for (const each of late.groups) cluster.putPodGroup(each);
    for (const each of late.pods) addPod(cluster, each);
    cycle(cluster, nowMs);
    cluster.changes.note();
    return cluster;
  };
  yield {
    name: "verdict with reason: 10 pods of 8 GPUs that cannot fit, 100 nodes in use",
    value: median(
      () => inUse(100, { mine: 0, theirs: 800 }, gang("late", 10, { gpus: 8 }, { queue: "mine" })),
      verdictMs,
    ),
    unit: "ms",
    beside: { name: "KAI's own benchmark of such a job", value: 50_800 },
  };
  yield {
    name: "decision: one GPU reclaimed, 4,000 running on 500 nodes",
    value: median(
      () => inUse(500, { mine: 100, theirs: 100 }, gang("late", 1, { gpus: 1 }, { queue: "mine" })),
      (cluster) => evictingMs(cluster, 1),
    ),
    unit: "ms",
    target: { at: "most", value: 50 },
  };
  yield {
    name: "decision: a gang of 1,000 pods of 8 GPUs takes 1,000 nodes back from 8,000 jobs",
    value: median(
      () => inUse(1_000, { mine: 8_000, theirs: 0 }, gang("late", 1_000, { gpus: 8 }, { queue: "mine" })),
      (cluster) => evictingMs(cluster, 8_000),
    ),
    unit: "ms",
    beside: { name: "KAI's own benchmark of large jobs, 1,000 nodes", value: 6_092 },
  };
}

/** Together as many as 500 nodes have GPUs. The first warm the machine up. */
const podsOf = 3_500;
const warmUpPods = 500;

/** Created, decided and bound, each on the disk before it is seen. */
async function endToEnd(nodes: number): Promise<Figure[]> {
  const cluster = await startBenchCluster({
    parts: [schedulerComponent(), binderComponent()],
    initialObjects: ({ createAll }) => createAll(nodesRef, nodesOf(nodes).map(asNew)),
  });
  try {
    return await bindBothKinds(cluster, `${nodes} nodes, in process, durable`, { plain: 2_000, grouped: 800 });
  } finally {
    await cluster.stop();
  }
}

/** The same with the controllers in a process of their own, as on a remote cluster. */
async function overHttp(nodes: number): Promise<Figure[]> {
  const cluster = await startBenchCluster({
    parts: [schedulerComponent(), binderComponent()],
    isApiOnly: true,
    initialObjects: ({ createAll }) => createAll(nodesRef, nodesOf(nodes).map(asNew)),
  });
  try {
    const flags = ["--controllers", "scheduler,binder", "--default-scheduler"];
    const controllers = await startControllersOverHttp(cluster.kubeconfig, flags);
    try {
      const where = `${nodes} nodes, controllers over HTTP, durable`;
      return await Promise.race([bindBothKinds(cluster, where, { plain: 400 }), controllers.ended]);
    } finally {
      controllers.stop();
    }
  } finally {
    await cluster.stop();
  }
}

async function bindBothKinds(
  cluster: BenchCluster,
  where: string,
  targets: { readonly plain: number; readonly grouped?: number },
): Promise<Figure[]> {
  const bound = new BoundPods(cluster.store);
  const gpu = { "nvidia.com/gpu": "1" };
  await bindAll(cluster, bound, "warm", warmUpPods, {}, defaultSchedulerName);
  const plain = await bindAll(cluster, bound, "plain", podsOf, {}, defaultSchedulerName);
  await bindAll(cluster, bound, "first", warmUpPods, gpu, kaiSchedulerName);
  const grouped = await bindAll(cluster, bound, "job", podsOf, gpu, kaiSchedulerName);
  const figure = (what: string, { perSecond, perCpuSecond }: Rate, target?: number): Figure => ({
    name: `end to end: ${podsOf} ${what} created and bound, ${where}`,
    value: perSecond,
    unit: "pods/s",
    ...(target !== undefined && { target: { at: "least" as const, value: target } }),
    beside: { name: "in a second of CPU time", value: perCpuSecond },
  });
  return [
    figure("plain pods", plain, targets.plain),
    figure("one-GPU jobs with group and queue", grouped, targets.grouped),
  ];
}

interface Rate {
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

async function bindAll(
  cluster: BenchCluster,
  bound: BoundPods,
  word: string,
  pods: number,
  gpus: Record<string, string>,
  schedulerName: string,
): Promise<Rate> {
  const resources = { requests: { cpu: "100m", memory: "64Mi", ...gpus }, limits: gpus };
  const objects = Array.from({ length: pods }, (_, at) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `${word}-${at}`, namespace: "default" },
    spec: { schedulerName, containers: [{ name: "main", image: "i", resources }] },
  }));
  const startedMs = performance.now();
  const cpu = process.cpuUsage();
  await Promise.all([cluster.createAll(podsRef, objects), cluster.until(() => bound.of(word) === pods)]);
  const { user, system } = process.cpuUsage(cpu);
  return {
    perSecond: (pods * 1000) / (performance.now() - startedMs),
    perCpuSecond: (pods * 1e6) / (user + system),
  };
}

function asNew(object: { readonly metadata: ObjectMeta }): object {
  const { uid: _, resourceVersion: __, ...metadata } = object.metadata;
  return { ...object, metadata };
}

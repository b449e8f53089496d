/**
 * The process that `muster bench nodes` measures: an API server on a disk with simulated nodes in it, controlled by its
 * parent.
 */

import { FileStore } from "../src/adapters/disk/fileStore.ts";
import { yieldingKube } from "../src/adapters/kubernetes/yieldingKube.ts";
import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import { createApi } from "../src/apiserver/createApi.ts";
import { inProcessKube } from "../src/apiserver/inProcessKube.ts";
import { Controllers } from "../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../src/control/runtime/memoryMetrics.ts";
import { fastDelays } from "../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../src/kubelet/run/nodesComponent.ts";
import { admissionFailures } from "../src/kubelet/run/podReconciler.ts";
import type { Lease, Node, Pod } from "../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../src/model/objects/object.ts";
import { parsePool, profilesWith } from "../src/model/profiles/profiles.ts";
import { timeToMs } from "../src/model/values/time.ts";

export interface NodesBenchOptions {
  readonly nodes: number;
  readonly pods: number;
  /** Kept in memory when left out. */
  readonly dataDir?: string;
}

export interface NodesBenchResult {
  readonly readySeconds: number;
  /** From the first create to the last pod Running. */
  readonly runningSeconds: number;
  /** The processor's share of both: on a busy machine the time that says something. */
  readonly readyCpuSeconds: number;
  readonly runningCpuSeconds: number;
  readonly writesPerPod: number;
  readonly deletedSeconds: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
  /** Share of a core that the quiet cluster needs: leases and heartbeats. */
  readonly idleCpuShare: number;
  readonly refusedPods: number;
  /** Between two renewals of one lease, while everything else went on. */
  readonly longestRenewalSeconds: number;
}

export async function measureNodes(options: NodesBenchOptions): Promise<NodesBenchResult> {
  const clock = systemClock();
  const random = systemRandom();
  const store = options.dataDir === undefined ? undefined : new FileStore({ directory: options.dataDir, clock });
  const { core } = await createApi({ clock, random, log: store });
  const kube = yieldingKube(
    inProcessKube(core, { user: { username: "nodes", groups: ["system:masters"] }, fieldManager: "nodes" }),
  );
  const metrics = new MemoryMetrics();
  const silent = () => {};
  const log = {
    debug: silent,
    info: silent,
    warn: silent,
    error: (fields: object, text: string) => console.error(text, fields),
  };
  const controllers = new Controllers({ kube, clock, random, log, metrics }, { fieldManager: "nodes", graceMs: 1000 });
  const pools = [parsePool(`h100=${options.nodes}`, profilesWith())];
  nodesComponent({ pools, delays: fastDelays, events: "warnings", stages: false }).component.add(controllers);
  const ready = new Set<string>();
  const running = new Set<string>();
  let pods = 0;
  const nodes = controllers.cache<Node>({ group: "", version: "v1", plural: "nodes" });
  nodes.onEvent(({ type, key, object }) => {
    const isReady = object.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True");
    if (type !== "deleted" && isReady === true) ready.add(key);
    else ready.delete(key);
  });
  controllers.cache<Pod>({ group: "", version: "v1", plural: "pods" }).onEvent(({ type, key, object }) => {
    pods += type === "added" ? 1 : type === "deleted" ? -1 : 0;
    if (type !== "deleted" && object.status?.phase === "Running") running.add(key);
    else running.delete(key);
  });
  let longestRenewalMs = 0;
  core.store.onEvent(({ current, previous }) => {
    if (current.resource !== "coordination.k8s.io/leases" || current.deleted || previous === undefined) return;
    const { renewTime } = (previous.object() as unknown as Lease).spec ?? {};
    longestRenewalMs = Math.max(longestRenewalMs, clock.nowMs() - (timeToMs(renewTime) ?? clock.nowMs()));
  });
  const leases = () => core.store.collection("coordination.k8s.io/leases").size;
  const slices = () => core.store.collection("resource.k8s.io/resourceslices").size;
  let startedMs = performance.now();
  let startedCpu = process.cpuUsage();
  await controllers.start();
  await until(() => ready.size === options.nodes && leases() >= options.nodes && slices() >= options.nodes);
  const readySeconds = since(startedMs);
  const readyCpuSeconds = cpuSince(startedCpu);

  startedMs = performance.now();
  startedCpu = process.cpuUsage();
  const revision = core.store.revision;
  await inLanes(options.pods, 256, (at) => kube.create(podsKind, podAt(at, options.nodes)));
  await until(() => running.size === options.pods);
  const runningSeconds = since(startedMs);
  const runningCpuSeconds = cpuSince(startedCpu);
  const writesPerPod = (core.store.revision - revision - runningSeconds * (options.nodes / 10)) / options.pods;

  // A quiet while: only leases are renewed.
  const cpu = process.cpuUsage();
  const quietMs = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 10_000));
  const idleCpuShare = cpuSince(cpu) / since(quietMs);
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();

  startedMs = performance.now();
  await inLanes(options.pods, 256, (at) => kube.delete({ ...podsKind, namespace: "default", name: `p-${at}` }, {}));
  await until(() => pods === 0);
  const deletedSeconds = since(startedMs);
  const refusedPods = metrics
    .render()
    .split("\n")
    .filter((line) => line.startsWith(`${admissionFailures}{`))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  await controllers.stop();
  await core.store.close();
  return {
    readySeconds,
    runningSeconds,
    readyCpuSeconds,
    runningCpuSeconds,
    writesPerPod,
    deletedSeconds,
    rssBytes: rss,
    heapBytes: heapUsed,
    idleCpuShare,
    refusedPods,
    longestRenewalSeconds: longestRenewalMs / 1000,
  };
}

const podsKind = { group: "", version: "v1", plural: "pods" };

function podAt(at: number, nodes: number): KubeObject {
  const resources = { limits: at % 10 < 8 ? { "nvidia.com/gpu": "1" } : {}, requests: { cpu: "500m", memory: "1Gi" } };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `p-${at}`, namespace: "default", labels: { app: "bench" } },
    spec: {
      nodeName: `h100-${Math.floor(at / 10) % nodes}`,
      terminationGracePeriodSeconds: 1,
      containers: [{ name: "main", image: "registry/app:1", resources }],
    },
  } as unknown as KubeObject;
}

function since(startedMs: number): number {
  return (performance.now() - startedMs) / 1000;
}

function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function inLanes(count: number, lanes: number, run: (at: number) => Promise<{ ok: boolean }>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) {
      const outcome = await run(at);
      if (!outcome.ok) throw new Error(JSON.stringify(outcome));
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

if (process.send !== undefined && process.argv[2] === "measure") {
  const options = JSON.parse(process.argv[3] ?? "{}") as NodesBenchOptions;
  const result = await measureNodes(options);
  process.send(result);
  process.disconnect();
}

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FileStore } from "../src/adapters/disk/fileStore.ts";
import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import { createAdmission } from "../src/apiserver/admission/createAdmission.ts";
import { createApi } from "../src/apiserver/createApi.ts";
import { inProcessKube } from "../src/apiserver/inProcessKube.ts";
import { ensureDefinitions, ensureStartObjects } from "../src/control/assembly/ensureObjects.ts";
import { binderComponent } from "../src/control/bind/binderComponent.ts";
import { Controllers } from "../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../src/control/runtime/memoryMetrics.ts";
import { fastDelays } from "../src/kubelet/pods/podPlan.ts";
import { reservationDefaults } from "../src/kubelet/pods/reservationAgent.ts";
import { nodesComponent } from "../src/kubelet/run/nodesComponent.ts";
import type { Pod } from "../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../src/model/objects/object.ts";
import { parsePool, profilesWith } from "../src/model/profiles/profiles.ts";
import { bindRequestApiVersion, bindRequestRef } from "../src/model/scheduling/bindRequest.ts";
import { isReservationPod } from "../src/model/scheduling/keys.ts";
import type { KubeApi } from "../src/ports/kubeApi.ts";
import type { Figure } from "./figure.ts";

const size = { pods: 1_000, gpus: 125, gpusPerNode: 8 };
const podsRef = { group: "", version: "v1", plural: "pods" };

/**
 * 1,000 eighths of 125 GPUs, from BindRequest to bound, on a durable server with simulated nodes in the same process.
 */
export async function* benchBinder(say: (text: string) => void): AsyncGenerator<Figure> {
  const directory = await mkdtemp(join(tmpdir(), "muster-bench-binder-"));
  try {
    say(`${size.pods} pods that share ${size.gpus} GPUs, durable`);
    const clock = systemClock();
    const random = systemRandom();
    const binder = binderComponent();
    const { core, controllers: loops } = await createApi({
      clock,
      random,
      log: new FileStore({ directory, clock }),
      admission: createAdmission({ hooks: binder.hooks ?? [] }),
    });
    const user = { username: "bench", groups: ["system:masters"] };
    const kube = inProcessKube(core, { user, fieldManager: "bench" });
    const controllers = new Controllers(
      { kube, clock, random, log, metrics: new MemoryMetrics() },
      { fieldManager: "bench" },
    );
    const nodes = Math.ceil(size.gpus / size.gpusPerNode);
    const pools = [parsePool(`h100=${nodes}`, profilesWith())];
    // The time that a real reservation container needs to start and look is not the binder's.
    const reservation = { ...reservationDefaults, delayMs: 0 };
    nodesComponent({
      pools,
      delays: fastDelays,
      events: "none",
      dra: undefined,
      stages: false,
      reservation,
    }).component.add(controllers);
    binder.add(controllers);
    await ensureDefinitions({ kube, clock }, [binder]);
    await ensureStartObjects(kube, [binder]);
    const bound = new Map<string, number>();
    let left = 0;
    controllers.cache(podsRef).onEvent(({ type, key, object }) => {
      const pod = object as unknown as Pod;
      if (isReservationPod(pod)) {
        left += type === "added" ? 1 : type === "deleted" ? -1 : 0;
        return;
      }
      if (type !== "deleted" && pod.spec?.nodeName !== undefined && !bound.has(key)) bound.set(key, performance.now());
    });
    await controllers.start();
    await until(() => core.store.collection("/nodes").size === nodes);
    const pods = await inLanes(size.pods, async (at) => value(await kube.create(podsRef, podAt(at))));
    const asked = new Map<string, number>();
    const revision = core.store.revision;
    const startedMs = performance.now();
    await inLanes(size.pods, async (at) => {
      asked.set(`default/p${at}`, performance.now());
      return value(await kube.create(bindRequestRef, requestFor(pods[at] as unknown as Pod, at)));
    });
    await until(() => bound.size === size.pods);
    const seconds = (performance.now() - startedMs) / 1000;
    const writes = (core.store.revision - revision) / size.pods;
    const waits = [...bound].map(([key, atMs]) => atMs - (asked.get(key) ?? atMs)).sort((a, b) => a - b);
    yield {
      name: "shares bound, from the first BindRequest to the last bind",
      value: size.pods / seconds,
      unit: "binds/s",
    };
    yield { name: "from BindRequest to bound, median", value: percentile(waits, 0.5), unit: "ms" };
    yield { name: "from BindRequest to bound, p99", value: percentile(waits, 0.99), unit: "ms" };
    yield { name: "writes a share, reservations and nodes included", value: writes, unit: "writes" };
    yield { name: "reservations lost", value: size.gpus - left, unit: "pods", target: { at: "most", value: 0 } };
    const goneMs = performance.now();
    await inLanes(size.pods, async (at) => {
      value(await kube.delete({ ...podsRef, namespace: "default", name: `p${at}` }, { gracePeriodSeconds: 1 }));
    });
    await until(() => left === 0);
    yield {
      name: "all pods deleted, and every reservation gone",
      value: (performance.now() - goneMs) / 1000,
      unit: "s",
    };
    yield* floor(kube);
    await controllers.stop();
    loops.stop();
    await core.store.close();
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** What the same number of binds costs with nothing but the bind itself. */
async function* floor(kube: KubeApi): AsyncGenerator<Figure> {
  const pods = await inLanes(size.pods, async (at) => value(await kube.create(podsRef, plainPod(`q${at}`))));
  const startedMs = performance.now();
  await inLanes(size.pods, async (at) => {
    const { name, uid } = (pods[at] as KubeObject).metadata;
    value(await kube.bind({ ...podsRef, namespace: "default", name }, { node: "h100-0", uid }));
  });
  yield {
    name: "floor: plain binds on the same server",
    value: (size.pods * 1000) / (performance.now() - startedMs),
    unit: "binds/s",
  };
}

const quiet = (): void => {};
const print = (fields: object, text: string): void => console.error(text, fields);
/** The nodes refuse pods of the floor: all are bound to one node. */
const printFailedBinds = (fields: object, text: string): void => {
  if (text === "a bind failed") print(fields, text);
};
/** A bind that fails here is a mistake of the benchmark. */
const log = {
  debug: quiet,
  info: quiet,
  warn: printFailedBinds,
  error: print,
};

function podAt(at: number): KubeObject {
  const pod = plainPod(`p${at}`);
  return { ...pod, metadata: { ...pod.metadata, annotations: { "gpu-fraction": "0.125" } } };
}

function plainPod(name: string): KubeObject {
  const containers = [{ name: "main", image: "i" }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    spec: { schedulerName: "kai-scheduler", containers },
  } as unknown as KubeObject;
}

function requestFor(pod: Pod, at: number): KubeObject {
  const { name, uid } = pod.metadata;
  const group = at % size.gpus;
  return {
    apiVersion: bindRequestApiVersion,
    kind: "BindRequest",
    metadata: { name, namespace: "default", ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid }] },
    spec: {
      podName: name,
      selectedNode: `h100-${Math.floor(group / size.gpusPerNode)}`,
      receivedResourceType: "Fraction",
      receivedGPU: { count: 1, portion: "0.12" },
      selectedGPUGroups: [`g${group}`],
    },
  } as unknown as KubeObject;
}

function value<T>(outcome: { ok: true; value: T } | { ok: false; message: string }): T {
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.value;
}

function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

/** Sixty-four at a time, as many clients would. */
async function inLanes<T>(count: number, run: (at: number) => Promise<T>): Promise<T[]> {
  const results: T[] = new Array(count);
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) results[at] = await run(at);
  };
  await Promise.all(Array.from({ length: 64 }, lane));
  return results;
}

function until(holds: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (holds()) resolve();
      else setTimeout(look, 2);
    };
    look();
  });
}

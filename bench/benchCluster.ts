import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import { inProcessKube } from "../src/apiserver/inProcessKube.ts";
import type { ApiServer } from "../src/apiserver/startApiServer.ts";
import { startEmbeddedServer } from "../src/cli/cluster/embeddedServer.ts";
import { ensureDefinitions, ensureStartObjects } from "../src/control/assembly/ensureObjects.ts";
import type { Component } from "../src/control/runtime/component.ts";
import { Controllers } from "../src/control/runtime/controllers.ts";
import { inParallel } from "../src/control/runtime/inParallel.ts";
import { MemoryMetrics } from "../src/control/runtime/memoryMetrics.ts";
import type { KubeObject } from "../src/model/objects/object.ts";
import type { Resource } from "../src/model/objects/resource.ts";
import type { Outcome } from "../src/model/outcome.ts";
import type { KubeApi } from "../src/ports/kubeApi.ts";

export const podsRef = { group: "", version: "v1", plural: "pods" };
export const nodesRef = { group: "", version: "v1", plural: "nodes" };

/** A complete durable cluster in this process, for the end-to-end figures. */
export interface BenchCluster {
  readonly kube: KubeApi;
  readonly store: ApiServer["core"]["store"];
  readonly kubeconfig: string;
  readonly metrics: MemoryMetrics;
  /** Creates objects with many concurrent clients, each waiting for its response. */
  createAll(ref: Resource, objects: readonly object[]): Promise<void>;
  /** Checked after every commit. */
  until(isDone: () => boolean): Promise<void>;
  stop(): Promise<void>;
}

/** Objects that exist before the components start, and are not measured. */
export type InitialObjects = (cluster: Pick<BenchCluster, "kube" | "createAll">) => Promise<void>;

export interface BenchClusterOptions {
  readonly parts: readonly Component[];
  /** Run the components in another process. */
  readonly isApiOnly?: boolean;
  readonly initialObjects?: InitialObjects;
}

export async function startBenchCluster(options: BenchClusterOptions): Promise<BenchCluster> {
  const { parts, isApiOnly = false, initialObjects } = options;
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-"));
  const clock = systemClock();
  const random = systemRandom();
  const flags = { dataDir: folder, port: "0", host: "127.0.0.1" };
  const hooks = parts.flatMap((part) => part.hooks ?? []);
  const embedded = await startEmbeddedServer(flags, { clock, random }, { hooks });
  const { store } = embedded.server.core;
  const user = { username: "system:muster", groups: ["system:masters", "system:authenticated"] };
  const kube = inProcessKube(embedded.server.core, { user, fieldManager: "muster" });
  const metrics = new MemoryMetrics();
  const controllers = new Controllers({ kube, clock, random, log: silent, metrics }, { fieldManager: "muster" });
  const cluster: BenchCluster = {
    kube,
    store,
    kubeconfig: embedded.kubeconfig,
    metrics,
    createAll: async (ref, objects) => {
      await inParallel([...objects], 64, async (object) => {
        must(await kube.create(ref, object as KubeObject));
      });
    },
    until: (isDone) => untilCommitted(store, isDone),
    stop: async () => {
      await controllers.stop();
      await embedded.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
  try {
    must(await ensureDefinitions({ kube, clock }, parts));
    must(await ensureStartObjects(kube, parts));
    await initialObjects?.(cluster);
    if (isApiOnly) return cluster;
    for (const part of parts) part.add(controllers);
    await controllers.start();
    return cluster;
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

export function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.value;
}

export async function secondsOf(run: () => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  await run();
  return (performance.now() - startedMs) / 1000;
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Checked after every commit. */
export async function untilCommitted(store: BenchCluster["store"], isDone: () => boolean): Promise<void> {
  if (isDone()) return;
  await new Promise<void>((resolve) => {
    let isAsked = false;
    const stop = store.onEvent(() => {
      if (isAsked) return;
      isAsked = true;
      setImmediate(() => {
        isAsked = false;
        if (!isDone()) return;
        stop();
        resolve();
      });
    });
  });
}

/** A cluster in memory with simulated nodes that run by themselves, and a clock that the test moves. */
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../../src/kubelet/run/nodesComponent.ts";
import type { NodesOptions } from "../../src/kubelet/run/nodesOptions.ts";
import type { Node, Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { parsePool, profilesWith } from "../../src/model/profiles/profiles.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../testing/control/faultyKube.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";

export interface ClusterOptions {
  readonly pools?: readonly string[];
  readonly options?: Partial<NodesOptions>;
}

export interface NodesProcess {
  readonly controllers: Controllers;
  readonly kube: FaultyKube;
  readonly log: KeptLog;
  readonly metrics: MemoryMetrics;
  stop(): Promise<void>;
}

/** A node and its pods. Nothing runs before `start`. */
export class NodesCluster {
  readonly api: TestApi;
  readonly admin;

  private constructor(api: TestApi) {
    this.api = api;
    this.admin = inProcessKube(api.core, {
      user: { username: "admin", groups: ["system:masters"] },
      fieldManager: "admin",
    });
  }

  static async create(): Promise<NodesCluster> {
    const cluster = new NodesCluster(await TestApi.start());
    for (const definition of nodesComponent().component.definitions ?? []) {
      await cluster.api.create("apiextensions.k8s.io/customresourcedefinitions", definition);
    }
    await cluster.api.settle();
    return cluster;
  }

  /** One process with the nodes component. */
  async start(given: ClusterOptions = {}): Promise<NodesProcess> {
    const { api } = this;
    const holder = given.options?.holder ?? "muster";
    const user = { username: holder, groups: ["system:masters"] };
    const kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: holder }));
    const log = new KeptLog();
    const metrics = new MemoryMetrics();
    const controllers = new Controllers(
      { kube, clock: api.clock, random: seededRandom(1), log, metrics },
      { fieldManager: holder, freeze: true },
    );
    const pools = (given.pools ?? ["h100=1"]).map((text) => parsePool(text, profilesWith()));
    nodesComponent({ pools, seed: "s", delays: fastDelays, ...given.options }).component.add(controllers);
    const started = controllers.start();
    await this.run(0.1);
    await started;
    await this.run(0.1);
    return {
      controllers,
      kube,
      log,
      metrics,
      stop: async () => {
        const stopped = controllers.stop();
        await this.run(0.01);
        await stopped;
      },
    };
  }

  /** Another process, with the components that a cluster has besides its nodes. */
  async startComponents(...components: readonly Component[]): Promise<KeptLog> {
    const user = { username: "kcm", groups: ["system:masters"] };
    const kube = inProcessKube(this.api.core, { user, fieldManager: "kcm" });
    const log = new KeptLog();
    const ports = { kube, clock: this.api.clock, random: seededRandom(2), log, metrics: new MemoryMetrics() };
    const controllers = new Controllers(ports, { fieldManager: "kcm", freeze: true });
    for (const part of components) part.add(controllers);
    const started = controllers.start();
    await this.run(0.1);
    await started;
    return log;
  }

  async run(seconds: number): Promise<void> {
    // Delivers watch events now, and not at the next timer.
    await this.api.clock.advance(0);
    await this.api.clock.advance(seconds * 1000);
  }

  async pod(name: string, spec: object = {}, metadata: object = {}): Promise<Pod> {
    return (await this.api.create("/pods", podOf(name, spec, metadata))) as unknown as Pod;
  }

  look(name: string): Pod | undefined {
    return this.api.get("/pods", name.includes("/") ? name : `default/${name}`) as unknown as Pod | undefined;
  }

  node(name = "h100-0"): Node | undefined {
    return this.api.get("/nodes", name) as unknown as Node | undefined;
  }

  all<T = KubeObject>(resource: string): T[] {
    return [...this.api.core.store.collection(resource).all()].map((version) => version.object() as unknown as T);
  }

  phases(): string[] {
    return this.all<Pod>("/pods")
      .map(({ metadata, status }) => `${metadata.name} ${status?.phase}`)
      .sort();
  }
}

export function podOf(name: string, spec: object = {}, metadata: object = {}): object {
  const containers = [{ name: "c", image: "registry/app:1", resources: gpus(1) }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", ...metadata },
    spec: { nodeName: "h100-0", containers, ...spec },
  };
}

export function gpus(count: number): object {
  return { limits: { "nvidia.com/gpu": String(count) } };
}

export function withGpus(count: number): object {
  return { containers: [{ name: "c", image: "registry/app:1", resources: gpus(count) }] };
}

export function readyOf(object: Pod | Node | undefined): string | undefined {
  const conditions = (object?.status?.conditions ?? []) as { type: string; status: string }[];
  return conditions.find(({ type }) => type === "Ready")?.status;
}

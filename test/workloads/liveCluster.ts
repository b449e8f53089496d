/**
 * An API server in memory with the cluster's own controllers, the default scheduler and nodes, on a clock that the test
 * moves.
 */
import { createAdmission } from "../../src/apiserver/admission/createAdmission.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import { workloads } from "../../src/control/workloads/workloads.ts";
import type * as k from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { formatTime } from "../../src/model/values/time.ts";
import { type LifeOf, tinyKubelet } from "../../src/sim/workloads/tinyKubelet.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../testing/control/faultyKube.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";

const caller = {
  user: { username: "system:kube-controller-manager", groups: ["system:masters"] },
  fieldManager: "kcm",
};

export interface LiveClusterOptions {
  readonly nodes?: number;
  readonly components?: readonly Component[];
  readonly lifeOf?: LifeOf;
  readonly allocatable?: Record<string, string>;
}

export class LiveCluster {
  readonly test: TestApi;
  readonly controllers: Controllers;
  readonly log = new KeptLog();
  /** What the controllers call; a test may break it. */
  readonly kube: FaultyKube;
  private readonly beating = new Set<string>();

  private constructor(test: TestApi, options: LiveClusterOptions) {
    this.test = test;
    const { clock } = test;
    this.kube = new FaultyKube(inProcessKube(test.core, caller));
    const ports = { kube: this.kube, clock, random: seededRandom(7), log: this.log };
    this.controllers = new Controllers(
      { ...ports, metrics: new MemoryMetrics() },
      { fieldManager: "kcm", freeze: true },
    );
    for (const part of options.components ?? [workloads, schedulerComponent()]) part.add(this.controllers);
    tinyKubelet(this.controllers, options.lifeOf);
  }

  static async start(options: LiveClusterOptions = {}): Promise<LiveCluster> {
    const test = await TestApi.start({ admission: createAdmission() });
    for (const part of options.components ?? [schedulerComponent()]) {
      for (const definition of part.definitions ?? []) {
        await test.create("apiextensions.k8s.io/customresourcedefinitions", definition);
      }
    }
    await test.settle();
    const cluster = new LiveCluster(test, options);
    await test
      .create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "kube-node-lease" } })
      .catch(() => undefined);
    for (let i = 0; i < (options.nodes ?? 2); i++) await cluster.addNode(`n${i}`, options.allocatable);
    await cluster.controllers.start();
    await cluster.pass(0);
    return cluster;
  }

  async addNode(name: string, allocatable: Record<string, string> = {}): Promise<void> {
    await this.test.create("/nodes", { apiVersion: "v1", kind: "Node", metadata: { name } });
    await this.setNode(name, (node) => {
      node.status = { ...node.status, allocatable: { cpu: "8", memory: "32Gi", pods: "110", ...allocatable } };
    });
    this.beating.add(name);
    await this.beat(name);
  }

  /** The node falls silent. */
  silence(name: string): void {
    this.beating.delete(name);
  }

  speak(name: string): void {
    this.beating.add(name);
  }

  private async beat(name: string): Promise<void> {
    const time = formatTime(this.test.clock.nowMs());
    await this.setNode(name, (node) => {
      const ready = { type: "Ready", status: "True", reason: "KubeletReady", message: "" };
      node.status = { ...node.status, conditions: [{ ...ready, lastHeartbeatTime: time, lastTransitionTime: time }] };
    });
  }

  private async setNode(name: string, change: (node: k.Node) => void): Promise<void> {
    await this.test.edit("/nodes", name, (object) => change(object as unknown as k.Node), "status");
  }

  /** Lets time pass; healthy nodes send a heartbeat every ten seconds. */
  async pass(ms: number): Promise<void> {
    await this.test.settle();
    for (let left = ms; left > 0; left -= 10_000) {
      await this.test.clock.advance(Math.min(left, 10_000));
      for (const name of this.beating) if (this.test.get("/nodes", name) !== undefined) await this.beat(name);
    }
    await this.test.settle();
  }

  all<T>(resource: string): T[] {
    return [...this.test.core.store.collection(resource).all()].map((version) => version.object()) as T[];
  }

  get<T = KubeObject>(resource: string, path: string): T {
    const found = this.test.get(resource, path);
    if (found === undefined) throw new Error(`no ${resource} ${path}`);
    return found as T;
  }

  async edit<T>(resource: string, path: string, change: (object: T) => void): Promise<void> {
    await this.test.edit(resource, path, (object) => change(object as T));
  }

  /** The number of writes since a revision. */
  get revision(): number {
    return this.test.core.store.revision;
  }

  /** Reasons of the events about an object. */
  events(name: string): string[] {
    type Event = {
      reason: string;
      note?: string;
      message?: string;
      regarding?: { name: string };
      involvedObject?: { name: string };
    };
    return this.all<Event>("/events")
      .filter((event) => (event.regarding ?? event.involvedObject)?.name === name)
      .map(({ reason, note, message }) => `${reason}: ${note ?? message ?? ""}`);
  }

  async stop(): Promise<void> {
    const stopped = this.controllers.stop();
    await this.pass(0);
    await stopped;
  }
}

const labels = { app: "x" };

export function podSpec(more: object = {}): object {
  return { containers: [{ name: "c", image: "i" }], ...more };
}

export function template(more: object = {}): object {
  return { metadata: { labels }, spec: podSpec(more) };
}

export function named(apiVersion: string, kind: string, spec: object, name = "x"): object {
  return { apiVersion, kind, metadata: { name, namespace: "default" }, spec };
}

export const selector = { matchLabels: labels };

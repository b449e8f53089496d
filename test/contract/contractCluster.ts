import { expect } from "vitest";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import type { Outcome, RefusalReason } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi, ObjectRef, Watch, WatchEvent, WatchOptions, WatchSink } from "../../src/ports/kubeApi.ts";

/** A cluster to test an implementation of KubeApi on, and server-side actions of tests. */
export interface ContractCluster {
  /** As a user with all rights. */
  readonly api: KubeApi;
  /** As an authenticated user without rights. */
  readonly stranger: KubeApi;
  /** A server without access from the test: facts that need server-side actions are skipped. */
  readonly isForeign?: boolean;
  /** Compacts the history: revisions up to now can no longer be read or watched from. */
  compact(): void;
  /** Ends all watches as if they timed out. */
  closeWatches(): void;
  /** Sends a bookmark to all watches that allow it. */
  sendBookmarks(): void;
  /** Advances a simulated clock. */
  readonly step?: () => Promise<void>;
  close(): Promise<void>;
}

export const configMaps = builtin.ConfigMap;
export const pods = builtin.Pod;
export const deployments = builtin.Deployment;
export const namespaces = builtin.Namespace;
export const nodes = builtin.Node;
export const budgets = builtin.PodDisruptionBudget;

/** Skips a fact that needs server-side actions. */
export function needsServer({ isForeign }: ContractCluster, skip: (note: string) => void): void {
  if (isForeign === true) skip("this server has no server-side actions");
}

/** An object that is not created yet. */
export function fresh(object: object): KubeObject {
  return object as KubeObject;
}

export function configMap(namespace: string, name: string, more: object = {}, metadata: object = {}): KubeObject {
  return fresh({ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace, name, ...metadata }, ...more });
}

export function pod(namespace: string, name: string, metadata: object = {}, spec: object = {}): KubeObject {
  const containers = [{ name: "main", image: "example.com/app:1" }];
  return fresh({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, ...metadata },
    spec: { containers, ...spec },
  });
}

export function deployment(namespace: string, name: string): KubeObject {
  const labels = { app: name };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: "main", image: "example.com/app:1" }] },
  };
  return fresh({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { namespace, name },
    spec: { replicas: 2, selector: { matchLabels: labels }, template },
  });
}

export function at(kind: Resource, namespace: string, name: string, subresource?: string): ObjectRef {
  return { ...kind, namespace, name, ...(subresource === undefined ? {} : { subresource }) };
}

/** The value of a call that must have succeeded. */
export function value<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`refused: ${outcome.reason}: ${outcome.message}`);
  return outcome.value;
}

export function expectRefused(outcome: Outcome<unknown>, reason: RefusalReason): void {
  expect(outcome.ok ? "accepted" : outcome.reason).toBe(reason);
  if (!outcome.ok) expect(outcome.message).not.toBe("");
}

/** A watch, and its events so far. */
export class Watched implements WatchSink {
  readonly events: WatchEvent[] = [];
  readonly ends: (Outcome<never> | undefined)[] = [];
  readonly watch: Watch;
  private readonly cluster: ContractCluster;
  private changed: () => void = () => {};

  constructor(cluster: ContractCluster, kind: Resource, options: WatchOptions, api: KubeApi = cluster.api) {
    this.cluster = cluster;
    this.watch = api.watch(kind, options, this);
  }

  event(event: WatchEvent): void {
    this.events.push(event);
    this.changed();
  }

  ended(why: Outcome<never> | undefined): void {
    this.ends.push(why);
    this.changed();
  }

  /** Waits for an event. */
  async until(holds: (watched: this) => boolean): Promise<void> {
    while (!holds(this)) {
      if (this.cluster.step !== undefined) await this.cluster.step();
      else {
        await new Promise<void>((resolve) => {
          this.changed = resolve;
        });
      }
    }
  }

  /** Waits for an object of this name. */
  async untilNamed(name: string): Promise<void> {
    await this.until(({ events }) => events.some((event) => "object" in event && event.object.metadata.name === name));
  }

  /** Waits for the end of the initial events. */
  async untilComplete(): Promise<void> {
    await this.until(({ events }) => events.some((event) => event.type === "BOOKMARK" && event.initialEventsEnd));
  }

  /** The events in short form: `ADDED a`, `DELETED b`, `BOOKMARK`. */
  get story(): string[] {
    return this.events.map((event) => ("object" in event ? `${event.type} ${event.object.metadata.name}` : event.type));
  }
}

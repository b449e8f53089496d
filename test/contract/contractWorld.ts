import { expect } from "vitest";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import type { Outcome, RefusalReason } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi, ObjectRef, Watch, WatchEvent, WatchOptions, WatchSink } from "../../src/ports/kubeApi.ts";

/** A cluster to try an implementation on, and the few things that tests do to it from behind. */
export interface ContractWorld {
  /** May do everything. */
  readonly api: KubeApi;
  /** Is known to the cluster and may do nothing. */
  readonly stranger: KubeApi;
  /** Nothing can be done to it from behind: facts that need that are skipped. */
  readonly isForeign?: boolean;
  /** Forgets the past: revisions up to now can no longer be read or watched from. */
  compact(): void;
  /** Ends all watches as if their time were up. */
  closeWatches(): void;
  /** Tells all watchers that allow it how far they have come. */
  sendBookmarks(): void;
  /** Lets time pass, where time does not pass by itself. */
  readonly step?: () => Promise<void>;
  close(): Promise<void>;
}

export const configMaps = builtin.ConfigMap;
export const pods = builtin.Pod;
export const deployments = builtin.Deployment;
export const namespaces = builtin.Namespace;
export const nodes = builtin.Node;
export const budgets = builtin.PodDisruptionBudget;

/** Ends a fact that needs a hand at the server, where there is none. */
export function needsServer({ isForeign }: ContractWorld, skip: (note: string) => void): void {
  if (isForeign === true) skip("nothing can be done to this server from behind");
}

/** Objects before the server has seen them. */
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

/** The value of a call that must have worked. */
export function value<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`refused: ${outcome.reason}: ${outcome.message}`);
  return outcome.value;
}

export function expectRefused(outcome: Outcome<unknown>, reason: RefusalReason): void {
  expect(outcome.ok ? "accepted" : outcome.reason).toBe(reason);
  if (!outcome.ok) expect(outcome.message).not.toBe("");
}

/** A watch, and what it has told. */
export class Watched implements WatchSink {
  readonly events: WatchEvent[] = [];
  readonly ends: (Outcome<never> | undefined)[] = [];
  readonly watch: Watch;
  private readonly world: ContractWorld;
  private changed: () => void = () => {};

  constructor(world: ContractWorld, kind: Resource, options: WatchOptions, api: KubeApi = world.api) {
    this.world = world;
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

  /** Waits for what the watch must tell sooner or later. */
  async until(holds: (watched: this) => boolean): Promise<void> {
    while (!holds(this)) {
      if (this.world.step !== undefined) await this.world.step();
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

  /** Waits for the end of the initial set. */
  async untilComplete(): Promise<void> {
    await this.until(({ events }) => events.some((event) => event.type === "BOOKMARK" && event.initialEventsEnd));
  }

  /** `ADDED a`, `DELETED b`, `BOOKMARK`: what came, in few words. */
  get story(): string[] {
    return this.events.map((event) => ("object" in event ? `${event.type} ${event.object.metadata.name}` : event.type));
  }
}

import { serverObjects } from "../bootstrap/bootstrapObjects.ts";
import { bootstrapUpdate } from "../bootstrap/bootstrapUpdate.ts";
import { sentByUs } from "../resource.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { replaceObject } from "../verbs/update.ts";
import { type Controller, createHere, targetAt, unlessRefused } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "kube-apiserver";

/** Where the server is reached. */
export interface ServerAddress {
  readonly address: string;
  readonly port: number;
}

/** Keeps the Service `kubernetes` and its endpoints, by which pods reach the server: a deleted one is created again. */
export class ServerObjectsController implements Controller {
  private readonly core: Core;
  private readonly server: ServerAddress;
  private readonly queue: WorkQueue<string>;

  constructor(core: Core, turns: Turns, server: ServerAddress, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.server = server;
    this.queue = turns.queue<string>({
      work: (resource) => this.work(resource),
      failed: (resource, error) => failed(`${resource} default/kubernetes`, error),
    });
  }

  start(): void {}

  observe({ current: { resource, namespace, name } }: StoreEvent): void {
    if (name !== "kubernetes" || namespace !== "default") return;
    if (serverObjects(this.server).some((each) => each.resource === resource)) this.queue.add(resource);
  }

  stop(): void {
    this.queue.stop();
  }

  private work(resource: string): Promise<void> | undefined {
    const wanted = serverObjects(this.server).find((each) => each.resource === resource)?.object;
    const place = { resource, namespace: "default", name: "kubernetes" };
    const target = targetAt(this.core, place);
    if (wanted === undefined || target === undefined) return undefined;
    const found = this.core.store.get(resource, place.namespace, place.name)?.object();
    // With finalizers it goes later, with another event.
    if (found?.metadata.deletionTimestamp !== undefined) return undefined;
    if (found === undefined) {
      return unlessRefused(createHere(this.core, resource, wanted, manager), "AlreadyExists");
    }
    const updated = bootstrapUpdate(found, wanted);
    if (updated === undefined) return undefined;
    return unlessRefused(
      replaceObject(this.core, target, sentByUs(updated), systemCall(manager)),
      "NotFound",
      "Conflict",
    );
  }
}

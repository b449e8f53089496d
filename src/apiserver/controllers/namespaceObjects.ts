import { equalJson } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { objectsOfNamespace } from "../bootstrap/bootstrapObjects.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { updateObject } from "../verbs/update.ts";
import { type Controller, createHere, targetAt, unlessRefused, updateOptions } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "namespace-objects";
const watched: Readonly<Record<string, string>> = { "/serviceaccounts": "default", "/configmaps": "kube-root-ca.crt" };

/** Ensures that every namespace has the default service account and `kube-root-ca.crt`. */
export class NamespaceObjects implements Controller {
  private readonly core: Core;
  private readonly authority: string;
  private readonly queue: WorkQueue<string>;

  constructor(core: Core, turns: Turns, authority: string, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.authority = authority;
    this.queue = turns.queue<string>({
      work: (name) => this.work(name),
      failed: (name, error) => failed(`objects of namespace ${name}`, error),
    });
  }

  start(): void {
    for (const version of this.core.store.collection("/namespaces").all()) this.queue.add(version.name);
  }

  observe({ current, previous }: StoreEvent): void {
    if (current.resource === "/namespaces") {
      if (previous === undefined) this.queue.add(current.name);
    } else if (watched[current.resource] === current.name && previous !== undefined) {
      this.queue.add(current.namespace);
    }
  }

  private work(namespace: string): Promise<void> | undefined {
    const found = this.core.store.get("/namespaces", "", namespace);
    if (found === undefined || found.object().metadata.deletionTimestamp !== undefined) return undefined;
    const missing: Promise<void>[] = [];
    for (const { resource, object } of objectsOfNamespace(namespace, this.authority)) {
      const step = this.ensure(resource, object);
      if (step !== undefined) missing.push(unlessRefused(step, "AlreadyExists", "NotFound", "Forbidden"));
    }
    return missing.length === 0 ? undefined : Promise.all(missing).then(() => undefined);
  }

  private ensure(resource: string, object: KubeObject): Promise<unknown> | undefined {
    const { namespace = "", name } = object.metadata;
    const found = this.core.store.get(resource, namespace, name)?.object();
    if (found === undefined) return createHere(this.core, resource, object, manager);
    const target = targetAt(this.core, { resource, namespace, name });
    if (target === undefined || object["data"] === undefined || equalJson(found["data"], object["data"])) {
      return undefined;
    }
    const change = {
      options: updateOptions(manager),
      build: (current: KubeObject) => ({ ...current, metadata: { ...current.metadata }, data: object["data"] }),
    };
    return updateObject(this.core, target, change, systemCall(manager));
  }
}

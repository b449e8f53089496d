import type { Secret } from "../../model/kubernetes.generated.ts";
import { bootstrapTokenNamespace, bootstrapTokenType, expiryMs } from "../auth/bootstrapToken.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { deleteObject } from "../verbs/delete.ts";
import { type Controller, targetAt, unlessRefused } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const secretsKey = "/secrets";
/** Timers do not reach further than 24 days. */
const lookMs = 24 * 3600 * 1000;

/** Deletes bootstrap tokens that have expired, as upstream's token cleaner. */
export class BootstrapTokenCleaner implements Controller {
  private readonly core: Core;
  private readonly queue: WorkQueue<string>;

  constructor(core: Core, turns: Turns, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.queue = turns.queue<string>({
      work: (name) => this.work(name),
      failed: (name, error) => failed(`bootstrap token ${name}`, error),
    });
  }

  start(): void {
    for (const { namespace, name } of this.core.store.collection(secretsKey).all())
      if (namespace === bootstrapTokenNamespace) this.queue.add(name);
  }

  observe({ current: { resource, namespace, name, deleted } }: StoreEvent): void {
    if (resource === secretsKey && namespace === bootstrapTokenNamespace && !deleted) this.queue.add(name);
  }

  stop(): void {
    this.queue.stop();
  }

  private work(name: string): Promise<void> | undefined {
    const version = this.core.store.get(secretsKey, bootstrapTokenNamespace, name);
    const secret = version?.object() as Secret | undefined;
    if (secret?.type !== bootstrapTokenType) return undefined;
    const leftMs = expiryMs(secret) - this.core.clock.nowMs();
    if (leftMs > 0) {
      if (Number.isFinite(leftMs)) this.queue.addAfter(name, Math.min(leftMs, lookMs));
      return undefined;
    }
    const target = targetAt(this.core, { resource: secretsKey, namespace: bootstrapTokenNamespace, name });
    const { uid, resourceVersion } = secret.metadata;
    if (target === undefined) return undefined;
    // With a later expiration the Secret has another version.
    const options = { preconditions: { uid, resourceVersion } };
    return unlessRefused(deleteObject(this.core, target, options, systemCall("token-cleaner")), "NotFound", "Conflict");
  }
}

import type { ResourceQuota } from "../../model/kubernetes.generated.ts";
import { equalJson } from "../../model/objects/json.ts";
import { formatQuantity } from "../../model/values/quantity.ts";
import { type QuotaLedger, quotaLedgerOf } from "../admission/quota/quotaLedger.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Core } from "../verbs/core.ts";
import { type Controller, unlessRefused, writeStatus } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "resourcequota-controller";
const quotasKey = "/resourcequotas";

/** Writes the usage into the status of ResourceQuotas. Admission does not read it, but the ledger. */
export class QuotaController implements Controller {
  private readonly core: Core;
  private readonly ledger: QuotaLedger;
  /** Namespaces whose quotas have to be written. */
  private readonly queue: WorkQueue<string>;

  constructor(core: Core, turns: Turns, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.ledger = quotaLedgerOf(core);
    this.queue = turns.queue<string>({
      work: (namespace) => this.work(namespace),
      failed: (namespace, error) => failed(`quotas of namespace ${namespace}`, error),
    });
  }

  start(): void {
    for (const version of this.core.store.collection(quotasKey).all()) this.queue.add(version.namespace);
  }

  observe({ current }: StoreEvent): void {
    if (current.namespace === "") return;
    if (current.resource !== quotasKey && !this.ledger.hasQuota(current.namespace)) return;
    this.ledger.catchUp(current.resource);
    this.queue.add(current.namespace);
  }

  private work(namespace: string): Promise<void> | undefined {
    const { store } = this.core;
    const writes: Promise<void>[] = [];
    for (const version of store.collection(quotasKey).at(store.revision, namespace)) {
      const account = this.ledger.account(namespace, version.name);
      if (account === undefined) continue;
      const object = version.object();
      const quota = object as ResourceQuota;
      const used = Object.fromEntries([...account.used].map(([name, amount]) => [name, formatQuantity(amount)]));
      const status = { hard: quota.spec?.hard ?? {}, used };
      if (equalJson(status.hard, quota.status?.hard ?? {}) && equalJson(used, quota.status?.used ?? {})) continue;
      const place = { resource: quotasKey, namespace, name: version.name };
      writes.push(unlessRefused(writeStatus(this.core, place, manager, object, status), "NotFound"));
    }
    return writes.length === 0 ? undefined : Promise.all(writes).then(() => undefined);
  }
}

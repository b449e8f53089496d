import { copyJson } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { aggregateAll } from "../auth/aggregateRules.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { updateObject } from "../verbs/update.ts";
import { type Controller, targetAt, unlessRefused, updateOptions } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "clusterrole-aggregation-controller";
const rolesKey = "rbac.authorization.k8s.io/clusterroles";

/** Maintains the rules of aggregating ClusterRoles. There are few, so all of them are reconciled together. */
export class RoleAggregation implements Controller {
  private readonly core: Core;
  private readonly queue: WorkQueue<"all">;

  constructor(core: Core, turns: Turns, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.queue = turns.queue<"all">({
      work: () => this.work(),
      failed: (_, error) => failed("aggregation of ClusterRoles", error),
    });
  }

  start(): void {
    this.queue.add("all");
  }

  observe({ current }: StoreEvent): void {
    if (current.resource === rolesKey) this.queue.add("all");
  }

  private work(): Promise<void> | undefined {
    const roles = [...this.core.store.collection(rolesKey).all()].map((version) => version.object());
    const changed = aggregateAll(roles);
    if (changed.size === 0) return undefined;
    return Promise.all([...changed].map(([name, rules]) => this.write(name, rules))).then(() => undefined);
  }

  private write(name: string, rules: unknown[]): Promise<void> | undefined {
    const target = targetAt(this.core, { resource: rolesKey, namespace: "", name });
    if (target === undefined) return undefined;
    const change = {
      options: updateOptions(manager),
      build: (current: KubeObject) => ({
        ...current,
        metadata: { ...current.metadata },
        rules: copyJson(rules),
      }),
    };
    return unlessRefused(updateObject(this.core, target, change, systemCall(manager)), "NotFound");
  }
}

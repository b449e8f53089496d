import type { Pod, PodDisruptionBudget } from "../../model/kubernetes.generated.ts";
import {
  type LabelRequirements,
  type LabelSelector,
  matchesLabels,
  selectorRequirements,
} from "../../model/objects/labelSelector.ts";
import type { ObjectMeta } from "../../model/objects/object.ts";
import { computeBudgetStatus, type ExpectedCount } from "../kinds/policy/budgetStatus.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Version } from "../storage/version.ts";
import type { Core } from "../verbs/core.ts";
import { scaleOf } from "../verbs/scale.ts";
import { type Controller, unlessRefused, writeStatus } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "disruption-controller";
const budgetsKey = "policy/poddisruptionbudgets";
const podsKey = "/pods";

/** A budget, and the pods that it selects, reduced to the fields that the status is computed from. */
interface Budget {
  readonly namespace: string;
  readonly name: string;
  requirements: LabelRequirements;
  readonly pods: Map<string, Pod>;
}

/** Maintains the status of PodDisruptionBudgets: how many disruptions each allows. */
export class BudgetController implements Controller {
  private readonly core: Core;
  private readonly queue: WorkQueue<Budget>;
  /** By namespace, then by name: a pod event only looks at the budgets of its namespace. */
  private readonly budgets = new Map<string, Map<string, Budget>>();
  private readonly expectedCount: ExpectedCount;

  constructor(core: Core, turns: Turns, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.queue = turns.queue<Budget>({
      work: (budget) => this.work(budget),
      failed: ({ namespace, name }, error) => failed(`disruption budget ${namespace}/${name}`, error),
    });
    this.expectedCount = (owner, namespace) => replicasOfOwner(core, owner, namespace);
  }

  start(): void {
    for (const version of this.core.store.collection(budgetsKey).all()) this.putBudget(version);
  }

  observe({ current, previous }: StoreEvent): void {
    if (current.resource === budgetsKey) {
      if (current.deleted) this.budgets.get(current.namespace)?.delete(current.name);
      else this.putBudget(current);
      return;
    }
    if (this.budgets.size === 0) return;
    const here = this.budgets.get(current.namespace);
    if (here === undefined || here.size === 0) return;
    if (current.resource === podsKey) {
      for (const budget of here.values()) this.putPod(budget, current);
    } else if (previous !== undefined && hasReplicas(current)) {
      // A percentage is relative to the size of the workload, which has changed.
      for (const budget of here.values()) this.queue.add(budget);
    }
  }

  private putBudget(version: Version): void {
    const { namespace, name } = version;
    let here = this.budgets.get(namespace);
    if (here === undefined) {
      here = new Map();
      this.budgets.set(namespace, here);
    }
    const { spec } = version.object() as PodDisruptionBudget;
    const requirements = selectorRequirements(spec?.selector as LabelSelector | undefined);
    let budget = here.get(name);
    const isSame = budget !== undefined && JSON.stringify(budget.requirements) === JSON.stringify(requirements);
    if (budget === undefined) {
      budget = { namespace, name, requirements, pods: new Map() };
      here.set(name, budget);
    }
    if (!isSame) this.fill(budget, requirements);
    this.queue.add(budget);
  }

  private fill(budget: Budget, requirements: LabelRequirements): void {
    const { store } = this.core;
    budget.requirements = requirements;
    budget.pods.clear();
    for (const version of store.collection(podsKey).at(store.revision, budget.namespace)) {
      if (selects(budget, version)) budget.pods.set(version.name, slimPod(version.object()));
    }
  }

  private putPod(budget: Budget, version: Version): void {
    if (!version.deleted && selects(budget, version)) budget.pods.set(version.name, slimPod(version.object()));
    else if (!budget.pods.delete(version.name)) return;
    this.queue.add(budget);
  }

  private work(budget: Budget): Promise<void> | undefined {
    const { namespace, name } = budget;
    const version = this.core.store.get(budgetsKey, namespace, name);
    if (version === undefined || this.budgets.get(namespace)?.get(name) !== budget) return undefined;
    const object = version.object();
    const nowMs = this.core.clock.nowMs();
    const verdict = computeBudgetStatus(object, [...budget.pods.values()], nowMs, this.expectedCount);
    if (verdict.recheckAtMs !== undefined) this.queue.addAfter(budget, Math.max(0, verdict.recheckAtMs - nowMs) + 1);
    if (!verdict.isChanged) return undefined;
    const place = { resource: budgetsKey, namespace, name };
    return unlessRefused(writeStatus(this.core, place, manager, object, verdict.status), "NotFound");
  }
}

/** An empty selector selects every pod of the namespace, an absent one none. */
function selects(budget: Budget, version: Version): boolean {
  return matchesLabels(budget.requirements, version.side.labels ?? undefined);
}

function slimPod(object: Pod): Pod {
  const { name, namespace, uid, deletionTimestamp, ownerReferences } = object.metadata;
  const { status } = object;
  const metadata = {
    name,
    uid,
    ...(namespace === undefined ? {} : { namespace }),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    ...(ownerReferences === undefined ? {} : { ownerReferences }),
  };
  const conditions = status?.conditions;
  const slim = {
    ...(status?.phase === undefined ? {} : { phase: status.phase }),
    ...(conditions === undefined ? {} : { conditions }),
  };
  // No other metadata is used, and there are many pods.
  return { kind: "Pod", apiVersion: "v1", metadata: metadata as ObjectMeta, spec: { containers: [] }, status: slim };
}

function hasReplicas(version: Version): boolean {
  const { spec } = version.object() as { spec?: unknown };
  return typeof spec === "object" && spec !== null && "replicas" in spec;
}

/** The number of replicas of a pod's controller; for a ReplicaSet of a Deployment, that of the Deployment. */
function replicasOfOwner(core: Core, owner: Parameters<ExpectedCount>[0], namespace: string): number | undefined {
  const resource = core.registry.kind(owner.apiVersion, owner.kind);
  if (resource === undefined) return undefined;
  const place = resource.type.namespaced ? namespace : "";
  const version = core.store.get(resource.type.storageKey, place, owner.name);
  if (version === undefined || version.side.uid !== owner.uid) return undefined;
  const object = version.object();
  const above = object.metadata.ownerReferences?.find(({ controller }) => controller === true);
  if (resource.type.storageKey === "apps/replicasets" && above?.kind === "Deployment") {
    return replicasOfOwner(core, above, namespace);
  }
  const scales =
    resource.custom?.scale !== undefined || resource.type.subresources.some(({ name }) => name === "scale");
  if (!scales) return undefined;
  const { spec } = scaleOf(resource, resource.fromStorage(object)) as { spec?: { replicas?: number } };
  return spec?.replicas ?? 0;
}

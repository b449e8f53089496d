import { decideReplicaSet, type ReplicaSetSnapshot } from "../../decide/workloads/deployments/replicaSet.ts";
import { decideReplicationController } from "../../decide/workloads/deployments/replicationController.ts";
import { keyOf } from "../../model/intent.ts";
import type { ReplicaSet } from "../../model/kubernetes.generated.ts";
import type { Decision } from "../../model/objects/draft.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { Committed } from "../runtime/inFlightWrites.ts";
import { forObject, kindSource } from "../runtime/sources.ts";
import { podKind } from "./kinds.ts";
import { LimitEvents } from "./limitEvents.ts";
import type { OwnedObjects } from "./ownedObjects.ts";
import { addOwnerController, type Told } from "./ownerReconciler.ts";
import { dependentSource, isTelling, tellPods } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

/** Keeps as many pods as each ReplicaSet wants. */
export function addReplicaSets(controllers: Controllers, caches: WorkloadCaches): void {
  const { pods, replicaSets } = caches;
  /** Sets of the same Deployment; their pods count when a node is relieved. Only asked for when pods may go. */
  const siblings = (replicaSet: ReplicaSet): ReplicaSet[] => {
    const owner = replicaSet.metadata.ownerReferences?.find(({ controller }) => controller === true);
    if (owner === undefined || pods.ownedBy(replicaSet).length <= (replicaSet.spec?.replicas ?? 1)) return [];
    return replicaSets.ownedBy({ metadata: owner }).filter(({ metadata }) => metadata.uid !== replicaSet.metadata.uid);
  };
  addReplicated(controllers, caches, {
    name: "replicaset-controller",
    owners: replicaSets,
    group: "apps",
    kind: "ReplicaSet",
    decide: (replicaSet, snapshot, nowMs) => {
      const relatedPods = siblings(replicaSet).flatMap((sibling) => pods.ownedBy(sibling));
      return decideReplicaSet({ ...snapshot, replicaSet, relatedPods }, nowMs);
    },
  });
}

/** The same for ReplicationControllers. */
export function addReplicationControllers(controllers: Controllers, caches: WorkloadCaches): void {
  addReplicated(controllers, caches, {
    name: "replication-controller",
    owners: caches.replicationControllers,
    group: "",
    kind: "ReplicationController",
    decide: (controller, snapshot, nowMs) => decideReplicationController({ ...snapshot, controller }, nowMs),
  });
}

interface Replicated<T extends KubeObject> {
  readonly name: string;
  readonly owners: OwnedObjects<T>;
  readonly group: string;
  readonly kind: string;
  decide(owner: T, snapshot: Omit<ReplicaSetSnapshot, "replicaSet">, nowMs: number): Decision;
}

function addReplicated<T extends KubeObject>(
  controllers: Controllers,
  caches: WorkloadCaches,
  { name: controllerName, owners, group, kind, decide: decideOwner }: Replicated<T>,
): void {
  const { inFlight, pods, podNames } = caches;
  const recorder = caches.recorder(controllerName);
  const limits = new LimitEvents(recorder, owners.cache);
  /** Why the last creates or deletes of an owner were refused, until they are not. */
  const failures = new Map<string, NonNullable<ReplicaSetSnapshot["failure"]>>();

  const decide = (owner: T, nowMs: number): Told => {
    const { namespace, name, uid } = owner.metadata;
    const failure = failures.get(uid);
    const snapshot = {
      revision: caches.revisionOf([podKind]),
      pods: pods.candidatesOf(owner),
      isTaken: (podName: string) => podNames.has(owner, podName),
      ...(failure && { failure }),
    };
    const decision = decideOwner(owner, snapshot, nowMs);
    const tell = (committed: readonly Committed[]): void => {
      tellPods(recorder, owner, committed);
      limits.tell(owner, decision);
      const failed = failureIn(committed);
      if (failed !== undefined) failures.set(uid, failed);
      // The condition is removed by the next reconcile, which nothing else would start.
      else if (failures.delete(uid)) controller.queue.addAfter(keyOf(namespace, name), 5);
    };
    return { ...decision, tell };
  };

  owners.cache.onEvent((event) => {
    if (event.type === "deleted") failures.delete(event.object.metadata.uid);
  });
  const controller = addOwnerController(controllers, inFlight, {
    name: controllerName,
    kind: owners.kind,
    sources: [kindSource(owners.cache, forObject()), dependentSource(pods, owners.cache, { group, kind })],
    decide,
  });
}

/** The pods themselves: what else a set writes fails for other reasons. */
function failureIn(committed: readonly Committed[]): ReplicaSetSnapshot["failure"] {
  for (const { intent, outcome } of committed) {
    if (intent.target.plural !== podKind.plural || !isTelling(outcome)) continue;
    if (intent.type === "create") return { reason: "FailedCreate", message: outcome.message };
    if (intent.type === "delete") return { reason: "FailedDelete", message: outcome.message };
  }
  return undefined;
}

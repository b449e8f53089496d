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
import { addOwnerController, type ReportedDecision } from "./ownerReconciler.ts";
import { dependentSource, isWorthAnEvent, recordPodEvents } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

/** Keeps `spec.replicas` pods for each ReplicaSet. */
export function addReplicaSets(controllers: Controllers, caches: WorkloadCaches): void {
  const { pods, replicaSets } = caches;
  /**
   * ReplicaSets of the same Deployment; their pods count in the order of deletion. Read only when pods may be deleted.
   */
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
  /** Why the last creates or deletes of an owner were refused, until they succeed. */
  const failures = new Map<string, NonNullable<ReplicaSetSnapshot["failure"]>>();

  const decide = (owner: T, nowMs: number): ReportedDecision => {
    const { namespace, name, uid } = owner.metadata;
    const failure = failures.get(uid);
    const snapshot = {
      revision: caches.revisionOf([podKind]),
      pods: pods.candidatesOf(owner),
      isTaken: (podName: string) => podNames.has(owner, podName),
      ...(failure && { failure }),
    };
    const decision = decideOwner(owner, snapshot, nowMs);
    const onCommitted = (committed: readonly Committed[]): void => {
      recordPodEvents(recorder, owner, committed);
      limits.update(owner, decision);
      const failed = failureIn(committed);
      if (failed !== undefined) failures.set(uid, failed);
      // The next reconcile removes the condition, and no other event would enqueue it.
      else if (failures.delete(uid)) controller.queue.addAfter(keyOf(namespace, name), 5);
    };
    return { ...decision, onCommitted };
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

/** Only refusals of pods count: other writes fail for other reasons. */
function failureIn(committed: readonly Committed[]): ReplicaSetSnapshot["failure"] {
  for (const { intent, outcome } of committed) {
    if (intent.target.plural !== podKind.plural || !isWorthAnEvent(outcome)) continue;
    if (intent.type === "create") return { reason: "FailedCreate", message: outcome.message };
    if (intent.type === "delete") return { reason: "FailedDelete", message: outcome.message };
  }
  return undefined;
}

import { decideReplicaSet, type ReplicaSetSnapshot } from "../../decide/workloads/deployments/replicaSet.ts";
import { keyOf } from "../../model/intent.ts";
import type { ReplicaSet } from "../../model/kubernetes.generated.ts";
import type { Committed } from "../runtime/commit.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { forObject, kindSource } from "../runtime/sources.ts";
import { podKind, replicaSetKind } from "./kinds.ts";
import { LimitEvents } from "./limitEvents.ts";
import { addOwnerController, type Told } from "./ownerReconciler.ts";
import { dependentSource, isTelling, tellPods } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

/** Keeps as many pods as each ReplicaSet wants. */
export function addReplicaSets(controllers: Controllers, caches: WorkloadCaches): void {
  const { inFlight, pods, podNames, replicaSets } = caches;
  const recorder = caches.recorder("replicaset-controller");
  const limits = new LimitEvents(recorder, replicaSets.cache);
  /** Why the last creates or deletes of a set were refused, until they are not. */
  const failures = new Map<string, NonNullable<ReplicaSetSnapshot["failure"]>>();

  const decide = (replicaSet: ReplicaSet, nowMs: number): Told => {
    const { namespace, name, uid } = replicaSet.metadata;
    const failure = failures.get(uid);
    const decision = decideReplicaSet(
      {
        revision: inFlight.revisionOf([podKind]),
        replicaSet,
        pods: pods.candidatesOf(replicaSet),
        isTaken: (podName) => podNames.has(replicaSet, podName),
        relatedPods: siblings(replicaSet).flatMap((sibling) => pods.ownedBy(sibling)),
        ...(failure && { failure }),
      },
      nowMs,
    );
    const tell = (committed: readonly Committed[]): void => {
      tellPods(recorder, replicaSet, committed);
      limits.tell(replicaSet, decision);
      const failed = failureIn(committed);
      if (failed !== undefined) failures.set(uid, failed);
      // The condition is removed by the next reconcile, which nothing else would start.
      else if (failures.delete(uid)) controller.queue.addAfter(keyOf(namespace, name), 5);
    };
    return { ...decision, tell };
  };

  /** Sets of the same Deployment; their pods count when a node is relieved. Only asked for when pods may go. */
  const siblings = (replicaSet: ReplicaSet): ReplicaSet[] => {
    const owner = replicaSet.metadata.ownerReferences?.find(({ controller }) => controller === true);
    if (owner === undefined || pods.ownedBy(replicaSet).length <= (replicaSet.spec?.replicas ?? 1)) return [];
    return replicaSets.ownedBy({ metadata: owner }).filter(({ metadata }) => metadata.uid !== replicaSet.metadata.uid);
  };

  replicaSets.cache.onEvent((event) => {
    if (event.type === "deleted") failures.delete(event.object.metadata.uid);
  });
  const controller = addOwnerController(controllers, inFlight, {
    name: "replicaset-controller",
    kind: replicaSetKind,
    sources: [
      kindSource(replicaSets.cache, forObject()),
      dependentSource(pods, replicaSets.cache, { group: "apps", kind: "ReplicaSet" }),
    ],
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

/**
 * Before a gang is terminated, all objects of its replica are read again, by consistent reads at or beyond the revision
 * of the decision, and the cliques to delete are recorded in the status of the set or group. That write carries the
 * version that was read, so a change in between is a conflict.
 */

import { isLostWithNode, type NodeOf } from "../../decide/gang/cliques/lostPods.ts";
import { targetOf } from "../../decide/gang/gangDraft.ts";
import type { FreshReplica } from "../../decide/gang/termination.ts";
import { lookAgain, lookAgainAtAll } from "../../intents/lookAgain.ts";
import { gangResources, labels, managedByValue } from "../../model/gang/keys.ts";
import type { GangTermination, PodCliqueSet } from "../../model/gang/types.ts";
import { expectedOf, type Intent, resourceKey } from "../../model/intent.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import type { Revision } from "../../model/revision.ts";
import { laterOf } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import type { GangReconcile } from "./carryOut.ts";
import { controllerRef, type GangCaches, nodePlace } from "./gangCaches.ts";

export async function readReplica(
  caches: GangCaches,
  { set, setReplica, cancel }: { readonly set: PodCliqueSet; readonly setReplica: number; readonly cancel: Cancel },
): Promise<Outcome<FreshReplica>> {
  const { kube } = caches.controllers;
  const { name, namespace = "default", uid } = set.metadata;
  const labelSelector = `${labels.managedBy}=${managedByValue},${labels.partOf}=${name},${labels.setReplica}=${setReplica}`;
  const atLeastOf = (place: { group: string; plural: string }) =>
    caches.assumeCache.snapshot().kind(resourceKey(place)).revision;
  const freshSet = await lookAgain(kube, targetOf("PodCliqueSet", set.metadata), {
    atLeast: atLeastOf(gangResources.PodCliqueSet),
    cancel,
  });
  if (!freshSet.ok) return freshSet;
  const owner = freshSet.value.object;
  if (owner?.metadata.uid !== uid) return refused("NotFound", `PodCliqueSet ${name} does not exist`);
  // Children first: a pod that is read later than its clique was bound no earlier than the clique says.
  const read = <T extends KubeObject>(place: Resource<T>, after: Revision) =>
    lookAgainAtAll(kube, place, { namespace, labelSelector }, { atLeast: laterOf(atLeastOf(place), after), cancel });
  const groups = await read(gangResources.PodCliqueScalingGroup, freshSet.value.revision);
  if (!groups.ok) return groups;
  const cliques = await read(gangResources.PodClique, groups.value.revision);
  if (!cliques.ok) return cliques;
  const pods = await read(gangResources.Pod, cliques.value.revision);
  if (!pods.ok) return pods;
  const nodeOf = await readLostNodes(caches, pods.value.items, cancel);
  if (!nodeOf.ok) return nodeOf;
  const own = groups.value.items.filter((group) => controllerRef(group)?.uid === uid);
  const owners = new Set([uid, ...own.map(({ metadata }) => metadata.uid)]);
  return {
    ok: true,
    value: {
      set: owner,
      setReplica,
      groups: own,
      cliques: cliques.value.items.filter((clique) => owners.has(controllerRef(clique)?.uid ?? "")),
      pods: pods.value.items,
      nodeOf: nodeOf.value,
    },
  };
}

/**
 * Nodes that look lost are read again, after their pods. A node that only looks healthy makes the gang look healthier
 * than it is, so nothing is terminated by mistake.
 */
async function readLostNodes(caches: GangCaches, pods: readonly Pod[], cancel: Cancel): Promise<Outcome<NodeOf>> {
  const fresh = new Map<string, Node | "gone">();
  for (const pod of pods) {
    const name = pod.spec?.nodeName ?? "";
    if (fresh.has(name) || !isLostWithNode(pod, caches.nodeOf, caches.nowMs)) continue;
    const target = { ...nodePlace, namespace: "", name };
    const found = await lookAgain(caches.controllers.kube, target, { atLeast: caches.nodes.revision, cancel });
    if (!found.ok) return found;
    fresh.set(name, found.value.object ?? "gone");
  }
  return succeeded((pod: Pod) => fresh.get(pod.spec?.nodeName ?? "") ?? caches.nodeOf(pod));
}

/** Records a termination in the status of the set or group, on the version that was just read. */
export async function recordTermination(
  caches: GangCaches,
  object: KubeObject,
  termination: GangTermination,
  context: GangReconcile,
): Promise<ReconcileResult> {
  const status = (object["status"] ?? {}) as { gangTerminations?: GangTermination[] };
  const others = (status.gangTerminations ?? []).filter(
    ({ replicaIndex }) => replicaIndex !== termination.replicaIndex,
  );
  const intent: Intent = {
    type: "status",
    target: targetOf(object.kind, object.metadata),
    expected: expectedOf(object),
    object: { ...object, status: { ...status, gangTerminations: [...others, termination] } },
    why: termination.because,
  };
  const { author, cancel } = context;
  const [committed] = await caches.inFlight.commit([{ intent }], { author, cancel });
  if (committed === undefined || committed.outcome.ok) return undefined;
  return reconcileResultOf(committed.outcome) ?? { again: committed.outcome.message };
}

/** The decision of the ReplicaSet controller: `spec.replicas` active pods of its template that match its selector. */

import type { Pod, ReplicaSet, ReplicaSetCondition, ReplicaSetStatus } from "../../../model/kubernetes.generated.ts";
import { freeNames, type IsTaken, TakenNames } from "../../../model/objects/derivedName.ts";
import { type Decision, Draft, withoutZeros } from "../../../model/objects/draft.ts";
import { matchesLabels, selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { claim, podFromTemplate } from "../../../model/objects/ownership.ts";
import { byAge, countPods, isActive, isTerminating } from "../../../model/objects/podFacts.ts";
import type { Revision } from "../../../model/revision.ts";
import { formatTime } from "../../../model/values/time.ts";
import { pendingPodsMessage, pendingPodsReason, pendingPodsRoom } from "../pendingPods.ts";
import { rankForDeletion } from "./scaleDown.ts";

export interface ReplicaSetSnapshot {
  readonly revision: Revision;
  readonly replicaSet: ReplicaSet;
  /** All pods of the namespace, or at least those that are controlled by the set or match its selector. */
  readonly pods: readonly Pod[];
  /**
   * Whether any pod of the namespace has a name. Needed where `pods` is not the whole namespace: a pod that was
   * released by a change of its labels keeps its name.
   */
  readonly isTaken?: IsTaken;
  /** Pods of sibling ReplicaSets of the same Deployment: pods on nodes with many of them are deleted first. */
  readonly relatedPods?: readonly Pod[];
  /** Why the last write of pods was refused, if it was: shown as the condition ReplicaFailure. */
  readonly failure?: { readonly reason: "FailedCreate" | "FailedDelete"; readonly message: string };
}

/** No more creates or deletes than this in one reconcile. */
export const burstReplicas = 500;

export function decideReplicaSet(snapshot: ReplicaSetSnapshot, nowMs: number): Decision {
  const { replicaSet } = snapshot;
  const { spec, metadata } = replicaSet;
  const draft = new Draft();
  if (spec === undefined) return draft.decision();
  const all = [...snapshot.pods].sort(byAge);
  const requirements = selectorRequirements(spec.selector);
  const claimed = claim(draft, replicaSet, requirements, all, { adopts: isActive });
  const active = claimed.filter(isActive);
  let failure: Failure | undefined = snapshot.failure;
  if (metadata.deletionTimestamp === undefined && !manageReplicas(draft, snapshot, active, all, nowMs)) {
    const message = pendingPodsMessage(replicaSet.kind);
    draft.limitedBy(message);
    failure ??= { reason: pendingPodsReason, message };
  }
  const terminating = claimed.filter(isTerminating).length;
  writeStatus(draft, { replicaSet, failure }, active, terminating, nowMs);
  return draft.decision();
}

/** Shown as the condition ReplicaFailure. */
interface Failure {
  readonly reason: string;
  readonly message: string;
}

/** False when pods are missing and none may be created, because too many are pending. */
function manageReplicas(
  draft: Draft,
  snapshot: ReplicaSetSnapshot,
  active: readonly Pod[],
  all: readonly Pod[],
  nowMs: number,
): boolean {
  const { replicaSet } = snapshot;
  const { name, namespace, uid } = replicaSet.metadata;
  const wanted = replicaSet.spec?.replicas ?? 1;
  if (wanted > active.length) {
    const missing = Math.min(wanted - active.length, burstReplicas, pendingPodsRoom(active));
    const taken = new TakenNames(namespace, all, snapshot.isTaken);
    for (const podName of freeNames({ base: `${name}-`, uid }, missing, (each) => taken.has(each))) {
      const pod = podFromTemplate(replicaSet, replicaSet.spec?.template, podName);
      draft.create(snapshot.revision, pod, `${replicaSet.kind} ${name} has ${active.length} of ${wanted} pods`);
    }
    return missing > 0;
  }
  const surplus = Math.min(active.length - wanted, burstReplicas);
  if (surplus <= 0) return true;
  const related = [...active, ...(snapshot.relatedPods ?? []).filter(isActive)];
  const ranked = rankForDeletion(active, related, nowMs);
  for (const pod of ranked.slice(0, surplus)) {
    // A pod that is being adopted is counted after the adoption.
    if (draft.has(pod)) continue;
    draft.remove(pod, `${replicaSet.kind} ${name} has ${active.length} pods and spec.replicas is ${wanted}`);
  }
  return true;
}

function writeStatus(
  draft: Draft,
  { replicaSet, failure }: { readonly replicaSet: ReplicaSet; readonly failure: Failure | undefined },
  active: readonly Pod[],
  terminatingReplicas: number,
  nowMs: number,
): void {
  const { spec, status: before, metadata } = replicaSet;
  const templateLabels = selectorRequirements({ matchLabels: spec?.template?.metadata?.labels ?? {} });
  const counts = countPods(active, spec?.minReadySeconds ?? 0, nowMs);
  const conditions = failureCondition(before?.conditions ?? [], failure, nowMs);
  const status: ReplicaSetStatus = {
    ...before,
    replicas: active.length,
    fullyLabeledReplicas: active.filter((pod) => matchesLabels(templateLabels, pod.metadata.labels)).length,
    readyReplicas: counts.ready,
    availableReplicas: counts.available,
    // ReplicationControllers do not count them.
    ...(replicaSet.kind === "ReplicaSet" && { terminatingReplicas }),
    observedGeneration: metadata.generation ?? 0,
  };
  if (conditions.length > 0) status.conditions = conditions;
  else delete status.conditions;
  draft.wakeAt(counts.wakeAtMs);
  const kept = withoutZeros(status, ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
  draft.status(
    replicaSet,
    kept,
    `${replicaSet.kind} ${metadata.name} has ${active.length} pods, ${counts.available} available`,
  );
}

function failureCondition(
  before: readonly ReplicaSetCondition[],
  failure: Failure | undefined,
  nowMs: number,
): ReplicaSetCondition[] {
  const others = before.filter(({ type }) => type !== "ReplicaFailure");
  if (failure === undefined) return others;
  const old = before.find(({ type }) => type === "ReplicaFailure");
  if (old?.status === "True" && old.reason === failure.reason) return [...before];
  return [...others, { type: "ReplicaFailure", status: "True", lastTransitionTime: formatTime(nowMs), ...failure }];
}

/**
 * Batches of creates, as slow start: one, then twice as many each time, so that a quota that refuses all of them is
 * asked once and not five hundred times. A batch with a refusal is the last one.
 */
export function slowStartBatches(count: number): number[] {
  const batches: number[] = [];
  let left = count;
  for (let size = 1; left > 0; size *= 2) {
    const batch = Math.min(size, left);
    batches.push(batch);
    left -= batch;
  }
  return batches;
}

/** The status of a PodClique: counts, conditions, hashes, and whether it was ever scheduled. */

import { labels } from "../../../model/gang/keys.ts";
import { minAvailableOf } from "../../../model/gang/setFacts.ts";
import type { GangSettings } from "../../../model/gang/settings.ts";
import type { CliqueUpdateProgress, PodClique, PodCliqueSet, PodCliqueStatus } from "../../../model/gang/types.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { breachType, cliqueBreach, cliqueScheduled, scheduledType } from "../breach.ts";
import type { GangDraft } from "../gangDraft.ts";
import { defaultLabels, isLeaving, selectorText } from "../gangLabels.ts";
import { conditionOf, withCondition } from "../gangs/gangConditions.ts";
import { datedError, type ReconcileFailure } from "../reconcileEvents.ts";
import { isForeignHash, templateHash } from "../sets/hashes.ts";
import { hashOf, isRunning } from "./cliqueUpdate.ts";
import type { CliquePosition } from "./decideClique.ts";
import type { NodeOf } from "./lostPods.ts";
import { countPods } from "./podClasses.ts";
import { recordLoss } from "./scheduleLoss.ts";

export interface CliqueStatusInput {
  readonly clique: PodClique;
  readonly set: PodCliqueSet;
  readonly place: CliquePosition;
  readonly pods: readonly Pod[];
  readonly nodeOf: NodeOf;
  /** Whether its gang is going to be terminated. */
  readonly isEnding: () => boolean;
  readonly progress: CliqueUpdateProgress | undefined;
  readonly settings: GangSettings;
  readonly problem: string | undefined;
  readonly failures: readonly ReconcileFailure[];
}

export function cliqueStatus(draft: GangDraft, input: CliqueStatusInput, nowMs: number): void {
  const { clique, set, place, pods, progress, settings, problem } = input;
  const code = "ERR_SYNC_PCLQ_RESOURCE_CLAIM";
  const errors = [...(problem === undefined ? [] : [{ code, description: problem }]), ...input.failures];
  const { observedGeneration: _seen, lastErrors: _errors, ...before } = clique.status ?? {};
  const counts = countPods(pods, input.nodeOf, nowMs);
  draft.wakeAt(counts.nextLossMs);
  const minAvailable = minAvailableOf(clique.spec);
  const target = isRunning(progress) ? progress?.podTemplateHash : clique.metadata.labels?.[labels.templateHash];
  const updated = pods.filter((pod) => !isLeaving(pod) && hashOf(pod) === target).length;
  const facts = { minAvailable, isUpdating: isRunning(progress), counts };
  let conditions = withCondition(before.conditions, cliqueScheduled(counts.scheduled, minAvailable), nowMs);
  conditions = withCondition(conditions, cliqueBreach(facts, settings.fullLossPolicy), nowMs);
  const loss = recordLoss(
    draft,
    clique,
    {
      scheduled: counts.scheduled,
      policy: settings.fullLossPolicy,
      // An update replaces the pods that it deletes; a node that is lost meanwhile still counts as a loss.
      isReplaced: isRunning(progress) && counts.lostWithNode === 0,
      isEnding: input.isEnding,
    },
    nowMs,
  );
  const status: PodCliqueStatus = {
    ...before,
    ...(clique.metadata.generation !== undefined && { observedGeneration: clique.metadata.generation }),
    ...(errors.length > 0 && {
      lastErrors: errors.map((error) => datedError(error, clique.status?.lastErrors, nowMs)),
    }),
    replicas: counts.live,
    readyReplicas: counts.ready,
    scheduledReplicas: counts.scheduled,
    scheduleGatedReplicas: counts.gated,
    updatedReplicas: updated,
    ...(place.group === undefined && { hpaPodSelector: podSelector(set, clique) }),
    conditions,
    ...realised(input, { updated, live: counts.live }),
    ...(progress && { updateProgress: progress }),
    everScheduled: counts.scheduled >= minAvailable || wasEverScheduled(clique),
    ...(loss && { scheduleLoss: loss }),
  };
  draft.status(clique, status, "the status of its pods");
}

export function podSelector(set: PodCliqueSet, { metadata }: PodClique): string {
  return selectorText({ ...defaultLabels(set.metadata.name), [labels.clique]: metadata.name });
}

/** Grove treats a condition that changed within this time of the creation as its first value. */
const firstConditionMs = 5_000;

/**
 * Whether the minimum was ever scheduled. The status records it; for a clique of another operator, which has no such
 * record, it is inferred from the last transition of the condition.
 */
export function wasEverScheduled(clique: PodClique): boolean {
  if (clique.status?.everScheduled !== undefined) return clique.status.everScheduled;
  const condition = conditionOf(clique, scheduledType);
  if (condition === undefined) return false;
  if (condition.status === "True") return true;
  const [changedMs, createdMs] = [timeToMs(condition.lastTransitionTime), timeToMs(clique.metadata.creationTimestamp)];
  return changedMs !== undefined && createdMs !== undefined && changedMs > createdMs + firstConditionMs;
}

/** The hashes that all pods have: they change when no update runs and no pod of an older template is left. */
function realised(
  { clique, set, place, progress }: CliqueStatusInput,
  { updated, live }: { updated: number; live: number },
): Pick<PodCliqueStatus, "currentPodTemplateHash" | "currentPodCliqueSetGenerationHash"> {
  const { currentPodTemplateHash, currentPodCliqueSetGenerationHash } = clique.status ?? {};
  const kept = {
    ...(currentPodTemplateHash !== undefined && { currentPodTemplateHash }),
    ...(currentPodCliqueSetGenerationHash !== undefined && { currentPodCliqueSetGenerationHash }),
  };
  const template = clique.metadata.labels?.[labels.templateHash];
  const generation = set.status?.currentGenerationHash;
  if (template === undefined || generation === undefined || isRunning(progress) || updated !== live) return kept;
  if (template !== templateHash(set, place.clique)) return kept;
  // An update of this clique has not started yet, unless the clique belongs to a group, which is updated as a whole.
  const isBehind =
    place.group === undefined &&
    currentPodCliqueSetGenerationHash !== undefined &&
    !isForeignHash(currentPodCliqueSetGenerationHash) &&
    currentPodCliqueSetGenerationHash !== generation &&
    progress?.podCliqueSetGenerationHash !== generation;
  return isBehind ? kept : { currentPodTemplateHash: template, currentPodCliqueSetGenerationHash: generation };
}

/** Whether all pods of a clique are ready and of the newest template, as updates, groups and sets require it. */
export function isUpToDate(clique: PodClique, set: PodCliqueSet, hash: string): boolean {
  const { status, spec } = clique;
  const minAvailable = minAvailableOf(spec);
  return (
    clique.metadata.labels?.[labels.templateHash] === hash &&
    status?.currentPodTemplateHash === hash &&
    status.currentPodCliqueSetGenerationHash === set.status?.currentGenerationHash &&
    (status.updatedReplicas ?? 0) >= minAvailable &&
    (status.readyReplicas ?? 0) >= minAvailable
  );
}

export const isBreached = (object: Parameters<typeof conditionOf>[0]): boolean =>
  conditionOf(object, breachType)?.status === "True";

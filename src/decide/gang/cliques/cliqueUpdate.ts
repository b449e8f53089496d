/**
 * How a standalone clique is updated to a new template: pods that are not ready are replaced at once, ready ones one by
 * one, each after the replacement of the one before is ready. All state is in the status: the chosen pod is recorded
 * before it is deleted.
 */
import { labels } from "../../../model/gang/keys.ts";
import { strategyOf } from "../../../model/gang/setFacts.ts";
import type { CliqueUpdateProgress, PodClique, PodCliqueSet } from "../../../model/gang/types.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { byAge, isReady } from "../../../model/objects/podFacts.ts";
import { formatTime } from "../../../model/values/time.ts";
import { isLeaving } from "../gangLabels.ts";
import { isForeignHash } from "../sets/hashes.ts";

export interface CliqueUpdate {
  readonly progress: CliqueUpdateProgress | undefined;
  /** Pods to delete now. */
  readonly victims: readonly Pod[];
}

export function isRunning(progress: { readonly updateEndedAt?: string } | undefined): boolean {
  return progress !== undefined && progress.updateEndedAt === undefined;
}

/** The hash that a pod of the clique should have. */
export function targetHash({ status, metadata }: PodClique): string | undefined {
  const progress = status?.updateProgress;
  return isRunning(progress) ? progress?.podTemplateHash : metadata.labels?.[labels.templateHash];
}

export const hashOf = (object: { metadata: { labels?: Record<string, string> } }): string | undefined =>
  object.metadata.labels?.[labels.templateHash];

/** Whether pods of this replica may be updated: the set's update is at this replica, or is over. */
export function mayUpdateReplica(set: PodCliqueSet, setReplica: number): boolean {
  const progress = set.status?.updateProgress;
  if (progress === undefined || progress.updateEndedAt !== undefined) return true;
  return (progress.currentlyUpdating ?? []).some(
    ({ replicaIndex, updateEndedAt }) => replicaIndex === setReplica && updateEndedAt === undefined,
  );
}

export interface CliqueUpdateInput {
  readonly set: PodCliqueSet;
  readonly clique: PodClique;
  readonly setReplica: number;
  readonly pods: readonly Pod[];
  /** Whether a pod no longer counts. A pod on a silent node may still have Ready=True. */
  readonly isLost: (pod: Pod) => boolean;
  /** Whether the set has recorded its template and the clique has it. */
  readonly isObserved: boolean;
}

export function cliqueUpdate(look: CliqueUpdateInput, nowMs: number): CliqueUpdate {
  const begun = beginUpdate(look, nowMs);
  if (begun === undefined || !isRunning(begun)) return { progress: begun, victims: [] };
  return stepUpdate(begun, look, nowMs);
}

function beginUpdate(
  { set, clique: { status, metadata }, setReplica, pods, isObserved }: CliqueUpdateInput,
  nowMs: number,
): CliqueUpdateProgress | undefined {
  const isOnDelete = strategyOf(set) === "OnDelete";
  const progress = status?.updateProgress;
  const generation = set.status?.currentGenerationHash;
  const template = metadata.labels?.[labels.templateHash];
  const realised = status?.currentPodCliqueSetGenerationHash;
  if (generation === undefined || template === undefined) return progress;
  // A new clique is up to date, unless its template was changed while its first pods were in flight.
  const isOld = (pod: Pod): boolean => !isLeaving(pod) && hashOf(pod) !== template && !isForeignHash(hashOf(pod));
  const hasOld = pods.some(isOld);
  if (realised === undefined && progress === undefined && !hasOld) return progress;
  if (isForeignHash(realised) || isForeignHash(template)) return progress;
  // A create of an older leader, or of our own, may land or be observed after the update was recorded as complete. The
  // pods decide, not the record.
  const hasLate = hasOld && isObserved && !isOnDelete;
  if (progress === undefined && realised === generation && !hasLate) return progress;
  if (progress?.podCliqueSetGenerationHash === generation) {
    if (progress.podTemplateHash === template && (isRunning(progress) || !hasLate)) return progress;
    // The clique got its new template after the update of its set had begun: the label is newer than the record.
    if (isRunning(progress)) return { ...progress, podTemplateHash: template };
  }
  if (!isOnDelete && !mayUpdateReplica(set, setReplica)) return progress;
  const now = formatTime(nowMs);
  return {
    updateStartedAt: now,
    podCliqueSetGenerationHash: generation,
    podTemplateHash: template,
    ...(isOnDelete && { updateEndedAt: now }),
  };
}

function stepUpdate(
  progress: CliqueUpdateProgress,
  { clique: { spec }, pods, isLost }: CliqueUpdateInput,
  nowMs: number,
): CliqueUpdate {
  const isServing = (pod: Pod): boolean => isReady(pod) && !isLost(pod);
  const minAvailable = spec.minAvailable ?? spec.replicas;
  const staying = pods.filter((pod) => !isLeaving(pod));
  const old = staying.filter((pod) => hashOf(pod) !== progress.podTemplateHash);
  const newReady = staying.filter((pod) => hashOf(pod) === progress.podTemplateHash && isServing(pod)).length;
  const notReady = old.filter((pod) => !isServing(pod));
  if (notReady.length > 0) return { progress, victims: notReady };
  const selected = progress.readyPodsSelectedToUpdate;
  const completed = selected?.completed ?? [];
  const current = old.find(({ metadata }) => metadata.name === selected?.current);
  if (current !== undefined) return { progress, victims: [current] };
  // If the clique was scaled in meanwhile, the chosen pod gets no replacement to wait for.
  const successors = Math.min(completed.length + 1, spec.replicas - old.length);
  const isCurrentDone = selected === undefined || newReady >= successors;
  if (!isCurrentDone) return { progress, victims: [] };
  const ready = staying.filter(isServing).length;
  if (old.length > 0) {
    if (ready < minAvailable) return { progress, victims: [] };
    const [oldest] = [...old].sort(byAge);
    if (oldest === undefined) return { progress, victims: [] };
    const done = selected === undefined ? completed : [...completed, selected.current];
    const readyPodsSelectedToUpdate = { current: oldest.metadata.name, ...(done.length > 0 && { completed: done }) };
    return { progress: { ...progress, readyPodsSelectedToUpdate }, victims: [] };
  }
  // The replacements of pods that were not ready are waited for as well.
  if (newReady < Math.min(minAvailable, spec.replicas)) return { progress, victims: [] };
  return { progress: { ...progress, updateEndedAt: formatTime(nowMs) }, victims: [] };
}

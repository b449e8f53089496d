/**
 * How a scaling group is updated to a new template: replicas that are not available are replaced at once, available
 * ones one by one. Their cliques are deleted and created again from the new template. The cliques to delete are
 * recorded before the first of them is deleted.
 */
import { groupMinAvailable, strategyOf } from "../../../model/gang/setFacts.ts";
import type { GangTermination, GroupUpdateProgress, PodCliqueScalingGroup } from "../../../model/gang/types.ts";
import { formatTime } from "../../../model/values/time.ts";
import { isRunning, mayUpdateReplica } from "../cliques/cliqueUpdate.ts";
import { generationHash, isForeignHash } from "../sets/hashes.ts";
import { terminationOf } from "../termination.ts";
import type { GroupPosition, GroupReplica } from "./groupFacts.ts";

export interface GroupUpdate {
  readonly progress: GroupUpdateProgress | undefined;
  readonly realised: string | undefined;
  /** Replicas to delete, to be recorded first. */
  readonly terminations: readonly GangTermination[];
}

export function groupUpdate(
  group: PodCliqueScalingGroup,
  home: GroupPosition,
  replicas: readonly GroupReplica[],
  nowMs: number,
): GroupUpdate {
  const { status } = group;
  const generation = home.set.status?.currentGenerationHash;
  const realised = status?.currentPodCliqueSetGenerationHash;
  const progress = status?.updateProgress;
  const idle = { progress, realised, terminations: [] };
  if (generation === undefined) return idle;
  // A new group, or one of another operator, counts as up to date, unless its template was changed before its first
  // reconcile.
  const isNew = realised === undefined && progress === undefined && !replicas.some(({ isOld }) => isOld);
  if (isNew || isForeignHash(realised)) return { ...idle, realised: generation };
  // A clique may be observed, or its create may land, after the update was recorded as complete.
  const hasLate =
    generation === generationHash(home.set) &&
    strategyOf(home.set) !== "OnDelete" &&
    replicas.some(({ isOld }) => isOld);
  if (realised === generation && !isRunning(progress) && !hasLate) return idle;
  const begun = beginGroupUpdate(progress, home, { generation, hasLate }, nowMs);
  if (begun === undefined || begun.podCliqueSetGenerationHash !== generation) return { ...idle, progress: begun };
  if (!isRunning(begun)) {
    const isWhole = replicas.every(({ isUpdated }) => isUpdated);
    return { ...idle, progress: begun, realised: isWhole ? generation : realised };
  }
  return stepGroupUpdate({ group, home, replicas, generation, realised }, counted(begun, home, replicas), nowMs);
}

function beginGroupUpdate(
  progress: GroupUpdateProgress | undefined,
  { set, setReplica }: GroupPosition,
  { generation, hasLate }: { readonly generation: string; readonly hasLate: boolean },
  nowMs: number,
): GroupUpdateProgress | undefined {
  if (progress?.podCliqueSetGenerationHash === generation && (isRunning(progress) || !hasLate)) return progress;
  const isOnDelete = strategyOf(set) === "OnDelete";
  if (!isOnDelete && !mayUpdateReplica(set, setReplica)) return progress;
  const now = formatTime(nowMs);
  return {
    updateStartedAt: now,
    podCliqueSetGenerationHash: generation,
    ...(isOnDelete && { updateEndedAt: now }),
  };
}

function counted(
  progress: GroupUpdateProgress,
  { template }: GroupPosition,
  replicas: readonly GroupReplica[],
): GroupUpdateProgress {
  const each = template.cliqueNames.length;
  return {
    ...progress,
    updatedPodCliquesCount: replicas.filter(({ isUpdated }) => isUpdated).length * each,
    totalPodCliquesCount: replicas.length * each,
  };
}

interface GroupStep {
  readonly group: PodCliqueScalingGroup;
  readonly home: GroupPosition;
  readonly replicas: readonly GroupReplica[];
  readonly generation: string;
  readonly realised: string | undefined;
}

function stepGroupUpdate(
  { group, home, replicas, generation, realised }: GroupStep,
  progress: GroupUpdateProgress,
  nowMs: number,
): GroupUpdate {
  const wait = { progress, realised, terminations: [] };
  if ((group.status?.gangTerminations ?? []).length > 0) return wait;
  const old = replicas.filter(({ isOld }) => isOld);
  const because = "the template has changed";
  const broken = old.filter(({ isAvailable }) => !isAvailable);
  if (broken.length > 0) {
    return {
      ...wait,
      terminations: broken.map((replica) => terminationOf(replica.index, replica.cliques, because, nowMs)),
    };
  }
  const selected = progress.readyReplicaIndicesSelectedToUpdate;
  const current = replicas.find(({ index }) => index === selected?.current);
  // A chosen replica may have been removed by a scale-in.
  if (current !== undefined && !current.isUpdated) return wait;
  const [next] = old;
  if (next !== undefined) {
    const available = replicas.filter(({ isAvailable }) => isAvailable).length;
    if (available < groupMinAvailable(home.template)) return wait;
    const completed = selected === undefined ? [] : [...(selected.completed ?? []), selected.current];
    const chosen = { current: next.index, ...(completed.length > 0 && { completed }) };
    return {
      progress: { ...progress, readyReplicaIndicesSelectedToUpdate: chosen },
      realised,
      terminations: [terminationOf(next.index, next.cliques, because, nowMs)],
    };
  }
  if (!replicas.every(({ isComplete }) => isComplete)) return wait;
  return { progress: { ...progress, updateEndedAt: formatTime(nowMs) }, realised: generation, terminations: [] };
}

/** Which replica of a set is being updated: one after the other, those without scheduled pods first. */
import { cliqueNamed, groupsOf, replicasOf, standaloneCliques, strategyOf } from "../../../model/gang/setFacts.ts";
import type { PodClique, PodCliqueScalingGroup, PodCliqueSet, SetUpdateProgress } from "../../../model/gang/types.ts";
import { formatTime } from "../../../model/values/time.ts";
import { isBreached, isUpToDate } from "../cliques/cliqueStatus.ts";
import { isRunning } from "../cliques/cliqueUpdate.ts";
import { isLeaving } from "../gangLabels.ts";
import { cliqueName, groupName } from "../names.ts";
import { templateHash } from "./hashes.ts";

/** The children of a set replica. */
export interface SetReplicaChildren {
  readonly index: number;
  readonly cliques: readonly PodClique[];
  readonly groups: readonly PodCliqueScalingGroup[];
}

export interface UpdateCounts {
  readonly updatedCliques: number;
  readonly totalCliques: number;
  readonly updatedGroups: number;
  readonly totalGroups: number;
}

export function countUpdated(set: PodCliqueSet, replicas: readonly SetReplicaChildren[]): UpdateCounts {
  let [updatedCliques, totalCliques, updatedGroups, totalGroups] = [0, 0, 0, 0];
  for (const replica of replicas) {
    for (const { isDone } of cliqueStates(set, replica)) {
      totalCliques++;
      if (isDone) updatedCliques++;
    }
    for (const { isDone } of groupStates(set, replica)) {
      totalGroups++;
      if (isDone) updatedGroups++;
    }
  }
  return { updatedCliques, totalCliques, updatedGroups, totalGroups };
}

function cliqueStates(set: PodCliqueSet, { index, cliques }: SetReplicaChildren): { isDone: boolean }[] {
  return standaloneCliques(set).map(({ name }) => {
    const found = cliques.find(({ metadata }) => metadata.name === cliqueName(set.metadata.name, index, name));
    const template = cliqueNamed(set, name);
    const isThere = found !== undefined && template !== undefined && !isLeaving(found);
    return {
      isDone:
        isThere && isUpToDate(found, set, templateHash(set, template)) && !isRunning(found.status?.updateProgress),
    };
  });
}

function groupStates(set: PodCliqueSet, { index, groups }: SetReplicaChildren): { isDone: boolean }[] {
  return groupsOf(set).map(({ name }) => {
    const found = groups.find(({ metadata }) => metadata.name === groupName(set.metadata.name, index, name));
    const realised = found?.status?.currentPodCliqueSetGenerationHash;
    const isRealised = realised !== undefined && realised === set.status?.currentGenerationHash;
    return { isDone: isRealised && !isRunning(found?.status?.updateProgress) };
  });
}

export function isReplicaUpdated(set: PodCliqueSet, replica: SetReplicaChildren): boolean {
  return [...cliqueStates(set, replica), ...groupStates(set, replica)].every(({ isDone }) => isDone);
}

/** The progress of a running update, from the replicas. */
export function nextProgress(
  set: PodCliqueSet,
  progress: SetUpdateProgress,
  replicas: readonly SetReplicaChildren[],
  nowMs: number,
): SetUpdateProgress {
  if (!isRunning(progress) || strategyOf(set) === "OnDelete") return progress;
  const wanted = replicas.filter(({ index }) => index < replicasOf(set));
  const open = wanted.filter((replica) => !isReplicaUpdated(set, replica));
  const [current] = progress.currentlyUpdating ?? [];
  if (current !== undefined && open.some(({ index }) => index === current.replicaIndex)) return progress;
  const [next] = [...open].sort((a, b) => urgency(a) - urgency(b) || a.index - b.index);
  const now = formatTime(nowMs);
  if (next !== undefined)
    return { ...progress, currentlyUpdating: [{ replicaIndex: next.index, updateStartedAt: now }] };
  const { currentlyUpdating: _over, ...rest } = progress;
  return { ...rest, updateEndedAt: now };
}

/** Replicas without scheduled pods first, then replicas in breach. */
function urgency({ cliques, groups }: SetReplicaChildren): number {
  const scheduled = cliques.reduce((sum, { status }) => sum + (status?.scheduledReplicas ?? 0), 0);
  if (scheduled === 0) return 0;
  return cliques.some(isBreached) || groups.some(isBreached) ? 1 : 2;
}

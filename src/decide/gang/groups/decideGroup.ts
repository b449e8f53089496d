/**
 * The decision for a PodCliqueScalingGroup: its claims, the cliques of each replica, its update, and the termination of
 * replicas in breach.
 */
import { finalizers, labels } from "../../../model/gang/keys.ts";
import { groupReplicasInReach } from "../../../model/gang/reach.ts";
import {
  cliqueNamed,
  groupMinAvailable,
  groupReplicaOf,
  groupReplicas,
  strategyOf,
} from "../../../model/gang/setFacts.ts";
import type { FullLossPolicy, GangSettings } from "../../../model/gang/settings.ts";
import type {
  GangTermination,
  PodClique,
  PodCliqueScalingGroup,
  PodCliqueScalingGroupStatus,
  PodCliqueSet,
} from "../../../model/gang/types.ts";
import type { ResourceClaim } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { formatTime, timeToMs } from "../../../model/values/time.ts";
import { announceTermination } from "../announceTermination.ts";
import { breachType, groupBreach, terminationType } from "../breach.ts";
import { cliqueObject, cliquePatch } from "../cliques/cliqueObject.ts";
import { isRunning } from "../cliques/cliqueUpdate.ts";
import { recordLoss } from "../cliques/scheduleLoss.ts";
import { type AbsentAt, dropFinalizer, type GangDecision, GangDraft, keepFinalizer, targetOf } from "../gangDraft.ts";
import { defaultLabels, isLeaving, selectorText } from "../gangLabels.ts";
import { conditionOf, withCondition, withoutCondition } from "../gangs/gangConditions.ts";
import { memberName } from "../names.ts";
import { datedError, type ReconcileFailure } from "../reconcileEvents.ts";
import { groupClaims, syncClaims, type TemplateNamed } from "../sets/claims.ts";
import { isForeignHash } from "../sets/hashes.ts";
import { isReplicaEnding, isStatusCurrent, judgeGroupReplicas, type ReplicaGangs } from "../termination.ts";
import {
  type GroupPosition,
  type GroupReplica,
  groupReplicasOf,
  hasLostClique,
  positionOfGroup,
} from "./groupFacts.ts";
import { type GroupUpdate, groupUpdate } from "./groupUpdate.ts";

export interface GroupSnapshot {
  readonly absentAtRevision: AbsentAt;
  readonly settings: GangSettings;
  readonly group: PodCliqueScalingGroup;
  readonly set: PodCliqueSet | undefined;
  /** The cliques that the group controls, by UID. */
  readonly cliques: readonly PodClique[];
  /** The objects of the set replica that the group belongs to; read only when an Event is written. */
  readonly replica: () => Pick<ReplicaGangs, "groups" | "cliques">;
  /** Whether any clique has a name, whatever its owner. */
  readonly isTaken: (cliqueName: string) => boolean;
  readonly claims: readonly ResourceClaim[];
  readonly templateNamed: TemplateNamed;
  /** Failures of its reconciles. */
  readonly failures: readonly ReconcileFailure[];
}

export interface GroupDecision extends GangDecision {
  /** Replicas whose delay has passed: to be read again, then recorded. */
  readonly ends: readonly number[];
}

export function decideGroup(snapshot: GroupSnapshot, nowMs: number): GroupDecision {
  const { group, set, cliques } = snapshot;
  const draft = new GangDraft(snapshot.absentAtRevision);
  const nothing = (): GroupDecision => ({ ...draft.decision(), ends: [] });
  if (isLeaving(group)) {
    dropFinalizer(draft, group, finalizers.PodCliqueScalingGroup);
    return nothing();
  }
  const position = set === undefined ? undefined : positionOfGroup(set, group);
  if (set === undefined || position === undefined || isLeaving(set)) return nothing();
  keepFinalizer(draft, group, finalizers.PodCliqueScalingGroup);
  const problem = syncClaims(
    draft,
    groupClaims(set, group, position.template),
    snapshot.claims,
    snapshot.templateNamed,
  );
  if (problem !== undefined) draft.wait(problem);
  const replicas = groupReplicasOf(group, position, cliques);
  const open = finishTerminations(draft, group, position, cliques);
  removeExcess(draft, group, cliques);
  if (problem === undefined) syncMembers(draft, snapshot, position);
  const update = groupUpdate(group, position, replicas, nowMs);
  const ends: number[] = [];
  // A record that is over is removed by this reconcile's status write; a new one would replace it unannounced.
  const isRecorded = (group.status?.gangTerminations ?? []).length > 0;
  if (!isRecorded && !isRunning(update.progress)) {
    for (const { index, verdict } of judgeGroupReplicas(group, replicas, policyOf(snapshot, set), nowMs)) {
      // The record is part of the status, so the rest of the status must be of the same generation. This reconcile
      // writes the status, the next one terminates.
      if (verdict.verdict === "end" && isStatusCurrent(group)) ends.push(index);
      else if (verdict.verdict === "wait") {
        draft.wakeAt(verdict.untilMs);
        draft.wait(`${verdict.because}: replica ${index} of the group is terminated at ${formatTime(verdict.untilMs)}`);
      }
    }
  }
  const terminations = [...open, ...update.terminations];
  groupStatus(draft, snapshot, { position, replicas, update, terminations, problem }, nowMs);
  return { ...draft.decision(), ends };
}

function policyOf(
  { settings }: GroupSnapshot,
  set: PodCliqueSet,
): { readonly set: PodCliqueSet; readonly policy: FullLossPolicy } {
  return { set, policy: settings.fullLossPolicy };
}

/** Continues recorded terminations, and returns those that are not over. */
function finishTerminations(
  draft: GangDraft,
  group: PodCliqueScalingGroup,
  { set }: GroupPosition,
  cliques: readonly PodClique[],
): GangTermination[] {
  return removeRecorded(draft, group.status?.gangTerminations, cliques, (termination) => {
    announceTermination(draft, group, termination, {
      regarding: set,
      reason: "PodCliqueScalingGroupReplicaDeleteSuccessful",
      note: `Replica ${termination.replicaIndex} of ${group.metadata.name} is terminated: ${termination.because}`,
    });
  });
}

/** Deletes the cliques of each record by UID. A record is over when none of them is left. */
export function removeRecorded(
  draft: GangDraft,
  records: readonly GangTermination[] | undefined,
  cliques: readonly PodClique[],
  over: (record: GangTermination) => void,
): GangTermination[] {
  return (records ?? []).filter((record) => {
    const uids = new Set(record.podCliques.map(({ uid }) => uid));
    const left = cliques.filter(({ metadata }) => uids.has(metadata.uid));
    for (const clique of left) draft.remove(clique, `${record.because}: its gang is terminated`);
    if (left.length === 0) over(record);
    return left.length > 0;
  });
}

function removeExcess(draft: GangDraft, group: PodCliqueScalingGroup, cliques: readonly PodClique[]): void {
  const requested = groupReplicas(group.spec);
  const ground = {
    target: targetOf("PodCliqueScalingGroup", group.metadata),
    holds: (fresh: KubeObject | undefined): boolean =>
      fresh?.metadata.uid === group.metadata.uid && groupReplicas(fresh["spec"] as { replicas?: number }) <= requested,
  };
  // By index: a missing lower index is no reason to delete the highest one.
  for (const clique of cliques) {
    if ((groupReplicaOf(clique) ?? 0) >= requested) {
      draft.remove(clique, `${group.metadata.name} has ${requested} replicas`, { ground });
    }
  }
}

/**
 * Creates missing cliques. Existing ones are patched only where no rolling update applies; otherwise they are replaced.
 */
function syncMembers(draft: GangDraft, { group, cliques, isTaken }: GroupSnapshot, position: GroupPosition): void {
  const { set, setReplica, template } = position;
  const byName = new Map(cliques.map((clique) => [clique.metadata.name, clique]));
  for (let replica = 0; replica < groupReplicasInReach(set, template, group.spec); replica++) {
    for (const name of template.cliqueNames) {
      const clique = cliqueNamed(set, name);
      if (clique === undefined) continue;
      const fullName = memberName(group.metadata.name, replica, name);
      const stored = byName.get(fullName);
      const wanted = cliqueObject({ set, setReplica, clique, group: { template, object: group, replica } });
      if (stored === undefined) {
        draft.wait(`clique ${fullName} does not exist yet`);
        if (!isTaken(fullName))
          draft.create(wanted, `${group.metadata.name} has ${groupReplicas(group.spec)} replicas`);
        continue;
      }
      if (isLeaving(stored) || draft.has(stored)) continue;
      const hash = stored.metadata.labels?.[labels.templateHash];
      const isForeign = isForeignHash(hash);
      if (strategyOf(set) !== "OnDelete" && !isForeign) continue;
      const patch = cliquePatch(stored, wanted);
      if (patch !== undefined)
        draft.patch(
          stored,
          patch,
          isForeign ? "its template hash was written by another operator" : "its template has changed",
        );
    }
  }
}

interface StatusInput {
  readonly position: GroupPosition;
  readonly replicas: readonly GroupReplica[];
  readonly update: GroupUpdate;
  readonly terminations: readonly GangTermination[];
  readonly problem: string | undefined;
}

function groupStatus(
  draft: GangDraft,
  { group, settings, failures, replica }: GroupSnapshot,
  { position, replicas, update, terminations, problem }: StatusInput,
  nowMs: number,
): void {
  const code = "ERR_SYNC_PCSG_RESOURCE_CLAIM";
  const errors = [...(problem === undefined ? [] : [{ code, description: problem }]), ...failures];
  const policy = settings.fullLossPolicy;
  const { set, setReplica, template } = position;
  const { gangTerminations: _open, lastErrors: _errors, everHealthy: _ever, ...before } = group.status ?? {};
  const scheduled = replicas.filter(({ isScheduled }) => isScheduled).length;
  const minAvailable = groupMinAvailable(template);
  const breach = groupBreach({ minAvailable, isUpdating: isRunning(update.progress), replicas }, policy);
  let conditions = withCondition(before.conditions, breach, nowMs);
  const isEnding = (set.status?.gangTerminations ?? []).some(({ replicaIndex }) => replicaIndex === setReplica);
  if (isEnding && policy === "Terminate") {
    const message = "the replica of the set that it belongs to has been terminated and is starting again";
    const flag = { type: terminationType, status: "True", reason: "GangTerminationActive", message } as const;
    conditions = withCondition(conditions, flag, nowMs);
  } else if (breach.status === "False") conditions = withoutCondition(conditions, terminationType);
  const loss = recordLoss(
    draft,
    group,
    {
      scheduled,
      policy,
      isReplaced: !hasLostClique(replicas, [...terminations, ...(set.status?.gangTerminations ?? [])]),
      isEnding: () => isReplicaEnding({ set, setReplica, ...replica() }, policy, nowMs),
    },
    nowMs,
  );
  const status: PodCliqueScalingGroupStatus = {
    ...before,
    ...(group.metadata.generation !== undefined && { observedGeneration: group.metadata.generation }),
    ...(errors.length > 0 && { lastErrors: errors.map((error) => datedError(error, group.status?.lastErrors, nowMs)) }),
    replicas: groupReplicas(group.spec),
    scheduledReplicas: scheduled,
    availableReplicas: replicas.filter(({ isAvailable }) => isAvailable).length,
    updatedReplicas: replicas.filter(({ isAvailable, isUpdated }) => isAvailable && isUpdated).length,
    selector: selectorText({ ...defaultLabels(set.metadata.name), [labels.group]: group.metadata.name }),
    conditions,
    ...(update.realised !== undefined && { currentPodCliqueSetGenerationHash: update.realised }),
    ...(update.progress && { updateProgress: update.progress }),
    // Complete and scheduled replicas: a group without any is not healthy, whatever its condition is.
    everHealthy: wasEverHealthy(group) || (breach.status === "False" && scheduled >= minAvailable),
    ...(loss && { scheduleLoss: loss }),
    ...(terminations.length > 0 && { gangTerminations: [...terminations] }),
  };
  draft.status(group, status, "the status of its cliques");
}

const firstConditionMs = 5_000;

/** Recorded in the status; for a group of another operator inferred from the last transition of its condition. */
function wasEverHealthy(group: PodCliqueScalingGroup): boolean {
  if (group.status?.everHealthy !== undefined) return group.status.everHealthy;
  const condition = conditionOf(group, breachType);
  if (condition === undefined) return false;
  if (condition.status === "False") return (group.status?.scheduledReplicas ?? 0) > 0;
  const [changedMs, createdMs] = [timeToMs(condition.lastTransitionTime), timeToMs(group.metadata.creationTimestamp)];
  return changedMs !== undefined && createdMs !== undefined && changedMs > createdMs + firstConditionMs;
}

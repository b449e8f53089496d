/**
 * Gang termination: a gang that has been below its minimum for longer than `terminationDelay` is deleted and created
 * again. The steps survive a crash: the cliques are read again and recorded by UID, then they are deleted, and the
 * record is removed when the last of them is deleted. A clique that was created since has another UID and is kept.
 *
 * The age of a breach is the condition's lastTransitionTime, so a restart of the operator neither shortens nor extends
 * it.
 */
import { labels } from "../../model/gang/keys.ts";
import {
  groupMinAvailable,
  groupReplicaOf,
  groupReplicas,
  replicasOf,
  setReplicaOf,
  standaloneCliques,
  terminationDelayMs,
} from "../../model/gang/setFacts.ts";
import type { FullLossPolicy } from "../../model/gang/settings.ts";
import type { GangTermination, PodClique, PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import { breachType, cliqueBreach, groupBreach, terminationType } from "./breach.ts";
import { isBreached, wasEverScheduled } from "./cliques/cliqueStatus.ts";
import { isRunning } from "./cliques/cliqueUpdate.ts";
import type { NodeOf } from "./cliques/lostPods.ts";
import { countPods } from "./cliques/podClasses.ts";
import { isLeaving } from "./gangLabels.ts";
import { type ConditionContent, conditionOf, withCondition } from "./gangs/gangConditions.ts";
import { type GroupReplica, groupReplicasOf, positionOfGroup } from "./groups/groupFacts.ts";
import { cliqueName } from "./names.ts";

export function terminationOf(
  replicaIndex: number,
  cliques: readonly PodClique[],
  because: string,
  nowMs: number,
): GangTermination {
  const podCliques = cliques
    .map(({ metadata }) => ({ name: metadata.name, uid: metadata.uid }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return { replicaIndex, startedAt: formatTime(nowMs), because, podCliques };
}

/** A breach that leads to a termination, and its time. */
export interface Breach {
  readonly name: string;
  readonly sinceMs: number;
}

/**
 * Whether a clique's breach may lead to a termination. Under Terminate a clique that was never scheduled has not
 * started.
 */
export function cliqueCandidate(clique: PodClique, policy: FullLossPolicy): Breach | undefined {
  if (isLeaving(clique) || !isBreached(clique)) return undefined;
  if (policy === "Terminate" && !wasEverScheduled(clique)) return undefined;
  return breachOf(clique);
}

export function groupCandidate(group: PodCliqueScalingGroup, policy: FullLossPolicy): Breach | undefined {
  if (isLeaving(group) || !isBreached(group)) return undefined;
  if (policy === "Terminate") {
    if (group.status?.everHealthy !== true) return undefined;
    if (conditionOf(group, terminationType)?.status === "True") return undefined;
  }
  return breachOf(group);
}

/** A breach of unknown age ends nothing: the next write of the status gives it a time, and the delay begins then. */
function breachOf(object: PodClique | PodCliqueScalingGroup): Breach | undefined {
  const sinceMs = timeToMs(conditionOf(object, breachType)?.lastTransitionTime);
  return sinceMs === undefined ? undefined : { name: object.metadata.name, sinceMs };
}

export type Verdict =
  | { readonly verdict: "calm" }
  | { readonly verdict: "wait"; readonly untilMs: number; readonly because: string }
  | { readonly verdict: "end"; readonly because: string };

/** The breach that has lasted longest decides. */
export function judge(breaches: readonly Breach[], delayMs: number, nowMs: number): Verdict {
  let first: Breach | undefined;
  for (const breach of breaches) if (first === undefined || breach.sinceMs < first.sinceMs) first = breach;
  if (first === undefined) return { verdict: "calm" };
  const untilMs = first.sinceMs + delayMs;
  const because = `${first.name} has been below its minimum since ${formatTime(first.sinceMs)}`;
  return untilMs <= nowMs ? { verdict: "end", because } : { verdict: "wait", untilMs, because };
}

export interface ReplicaGangs {
  readonly set: PodCliqueSet;
  readonly setReplica: number;
  /** The cliques and groups of the replica. */
  readonly groups: readonly PodCliqueScalingGroup[];
  readonly cliques: readonly PodClique[];
}

/** Whether a whole replica of the set is terminated. */
export function judgeSetReplica(
  { set, setReplica, groups, cliques }: ReplicaGangs,
  policy: FullLossPolicy,
  nowMs: number,
): Verdict {
  const standalone: PodClique[] = [];
  for (const { name } of standaloneCliques(set)) {
    const whole = cliqueName(set.metadata.name, setReplica, name);
    const clique = cliques.find(({ metadata }) => metadata.name === whole);
    // A replica with a missing clique is not judged.
    if (clique === undefined || isLeaving(clique)) return { verdict: "calm" };
    standalone.push(clique);
  }
  const breaches = [
    ...standalone.flatMap((clique) => cliqueCandidate(clique, policy) ?? []),
    ...groups.flatMap((group) => groupCandidate(group, policy) ?? []),
  ];
  return judge(breaches, terminationDelayMs(set), nowMs);
}

/**
 * Which replicas of a group are terminated by themselves; the remaining ones must be enough for the group's minimum.
 */
export function judgeGroupReplicas(
  group: PodCliqueScalingGroup,
  replicas: readonly GroupReplica[],
  { set, policy }: { readonly set: PodCliqueSet; readonly policy: FullLossPolicy },
  nowMs: number,
): { readonly index: number; readonly verdict: Verdict }[] {
  if (isRunning(group.status?.updateProgress)) return [];
  const judged = replicas.flatMap(({ index, cliques }) => {
    const breaches = cliques.flatMap((clique) => cliqueCandidate(clique, policy) ?? []);
    return breaches.length === 0 ? [] : [{ index, verdict: judge(breaches, terminationDelayMs(set), nowMs) }];
  });
  const rest = groupReplicas(group.spec) - judged.length;
  return rest < groupMinAvailable(group.spec) ? [] : judged;
}

/** The result of a second read: everything about one replica of a set. */
export interface FreshReplica extends ReplicaGangs {
  readonly pods: readonly Pod[];
  /** By the second read of nodes that looked lost. */
  readonly nodeOf: NodeOf;
}

/**
 * The replica by the state of its pods: each clique's condition is computed again, so that a recovery counts that the
 * stored conditions do not show yet. Times are kept: a continuing breach keeps its age.
 */
export function withConditionsFromPods(fresh: FreshReplica, policy: FullLossPolicy, nowMs: number): FreshReplica {
  const cliques = fresh.cliques.map((clique): PodClique => {
    const pods = fresh.pods.filter(({ metadata }) => controllerOf(metadata)?.uid === clique.metadata.uid);
    const minAvailable = clique.spec.minAvailable ?? clique.spec.replicas;
    const isUpdating = isRunning(clique.status?.updateProgress);
    const counts = countPods(pods, fresh.nodeOf, nowMs);
    const breach = cliqueBreach({ minAvailable, isUpdating, counts }, policy);
    const scheduled = { type: "PodCliqueScheduled", status: counts.scheduled >= minAvailable ? "True" : "False" };
    return withConditionStatus(clique, [breach, scheduled as typeof breach]);
  });
  const groups = fresh.groups.map((group) => {
    const condition = groupCondition(group, fresh.set, cliques, policy);
    return condition === undefined ? group : withConditionStatus(group, [condition]);
  });
  return { ...fresh, cliques, groups };
}

/** The condition of a group, from the conditions of its cliques. */
function groupCondition(
  group: PodCliqueScalingGroup,
  set: PodCliqueSet,
  cliques: readonly PodClique[],
  policy: FullLossPolicy,
): ConditionContent | undefined {
  const home = positionOfGroup(set, group);
  if (home === undefined) return undefined;
  const own = cliques.filter(({ metadata }) => metadata.labels?.[labels.group] === group.metadata.name);
  const replicas = groupReplicasOf(group, home, own);
  const isUpdating = isRunning(group.status?.updateProgress);
  return groupBreach({ minAvailable: groupMinAvailable(home.template), isUpdating, replicas }, policy);
}

/**
 * Whether a replica of the set is going to be, or is being, terminated. Groups are judged by their cliques: a loss in a
 * clique may not be in the condition of its group yet.
 */
export function isReplicaEnding(replica: ReplicaGangs, policy: FullLossPolicy, nowMs: number): boolean {
  const { set, setReplica, cliques } = replica;
  if (isRecorded(set, setReplica)) return true;
  const groups = replica.groups.map((group): PodCliqueScalingGroup => {
    const condition = groupCondition(group, set, cliques, policy);
    if (condition === undefined) return group;
    return {
      ...group,
      status: { ...group.status, conditions: withCondition(group.status?.conditions, condition, nowMs) },
    };
  });
  return judgeSetReplica({ ...replica, groups }, policy, nowMs).verdict !== "calm";
}

/** The same for a clique: with its replica of the set, or with the replica of its group. */
export function isCliqueEnding(
  clique: PodClique,
  replica: ReplicaGangs,
  policy: FullLossPolicy,
  nowMs: number,
): boolean {
  if (isReplicaEnding(replica, policy, nowMs)) return true;
  const group = replica.groups.find(({ metadata }) => metadata.name === clique.metadata.labels?.[labels.group]);
  const home = group === undefined ? undefined : positionOfGroup(replica.set, group);
  if (group === undefined || home === undefined) return false;
  const index = groupReplicaOf(clique);
  if (index !== undefined && isRecorded(group, index)) return true;
  const own = replica.cliques.filter(({ metadata }) => metadata.labels?.[labels.group] === group.metadata.name);
  const judged = judgeGroupReplicas(group, groupReplicasOf(group, home, own), { set: replica.set, policy }, nowMs);
  return judged.some((each) => each.index === index);
}

/**
 * Takes over only the status of a condition and keeps its time. A breach that is not recorded yet does not count: its
 * condition's time is that of the last recovery, and the gang would be terminated at once for a breach that has just
 * begun.
 */
function withConditionStatus<T extends PodClique | PodCliqueScalingGroup>(
  object: T,
  current: readonly { readonly type: string; readonly status: string }[],
): T {
  const conditions = (object.status?.conditions ?? []).map((condition) => {
    const now = current.find(({ type }) => type === condition.type);
    const isNewBreach = condition.type === breachType && now?.status === "True" && condition.status !== "True";
    return now === undefined || isNewBreach ? condition : { ...condition, status: now.status };
  });
  return { ...object, status: { ...object.status, conditions } } as T;
}

/** Whether a group's status is of its current generation. */
export function isStatusCurrent({ metadata, status }: PodCliqueScalingGroup): boolean {
  return status?.observedGeneration === metadata.generation;
}

/** Whether a termination of the replica has begun and is not over. */
function isRecorded({ status }: PodCliqueSet | PodCliqueScalingGroup, replica: number): boolean {
  return (status?.gangTerminations ?? []).some(({ replicaIndex }) => replicaIndex === replica);
}

/** The decision after the second read of a set replica: the cliques to terminate, or why not. */
export function recheckSetReplica(
  fresh: FreshReplica,
  policy: FullLossPolicy,
  nowMs: number,
): GangTermination | { readonly noLongerDue: string } {
  if (!isWanted(fresh)) return { noLongerDue: "the set has fewer replicas" };
  if (isRecorded(fresh.set, fresh.setReplica)) return { noLongerDue: "its termination is recorded already" };
  const now = withConditionsFromPods(fresh, policy, nowMs);
  const verdict = judgeSetReplica(now, policy, nowMs);
  if (verdict.verdict !== "end") return { noLongerDue: "the replica has recovered" };
  const victims = fresh.cliques.filter((clique) => !isLeaving(clique) && setReplicaOf(clique) === fresh.setReplica);
  return terminationOf(fresh.setReplica, victims, verdict.because, nowMs);
}

/** A replica of a set that is deleted or scaled down is removed by the set's own reconcile. */
const isWanted = ({ set, setReplica }: FreshReplica): boolean => !isLeaving(set) && setReplica < replicasOf(set);

/** The same for one replica of a group. */
export function recheckGroupReplica(
  fresh: FreshReplica,
  { groupName, index, policy }: { readonly groupName: string; readonly index: number; readonly policy: FullLossPolicy },
  nowMs: number,
): GangTermination | { readonly noLongerDue: string } {
  if (!isWanted(fresh)) return { noLongerDue: "the set has fewer replicas" };
  const now = withConditionsFromPods(fresh, policy, nowMs);
  const group = now.groups.find(({ metadata }) => metadata.name === groupName);
  const home = group === undefined ? undefined : positionOfGroup(now.set, group);
  if (group === undefined || home === undefined || isLeaving(group)) return { noLongerDue: "the group does not exist" };
  if (isRecorded(group, index)) return { noLongerDue: "its termination is recorded already" };
  if (!isStatusCurrent(group)) return { noLongerDue: "the group has changed and is reconciled first" };
  const own = now.cliques.filter(({ metadata }) => metadata.labels?.[labels.group] === groupName);
  const judged = judgeGroupReplicas(group, groupReplicasOf(group, home, own), { set: now.set, policy }, nowMs);
  const mine = judged.find((each) => each.index === index)?.verdict;
  if (mine?.verdict !== "end") return { noLongerDue: "the replica has recovered, or too few others are left" };
  const victims = own.filter((clique) => !isLeaving(clique) && groupReplicaOf(clique) === index);
  return terminationOf(index, victims, mine.because, nowMs);
}

/**
 * The tree that `muster gangs` prints: each set, its replicas, groups and cliques, with the minimum, the scheduled and
 * ready pods, and the time until termination.
 */
import { gangCliquesMax, groupReplicasInReach, replicasInReach } from "../../model/gang/reach.ts";
import {
  groupMinAvailable,
  groupReplicaOf,
  groupReplicas,
  minAvailableOf,
  replicasOf,
  setReplicaOf,
} from "../../model/gang/setFacts.ts";
import type { FullLossPolicy } from "../../model/gang/settings.ts";
import type { GangCondition, PodClique, PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import { breachType, suppressedReasons, terminationType } from "./breach.ts";
import { conditionOf } from "./gangs/gangConditions.ts";
import { groupReplicasOf, positionOfGroup } from "./groups/groupFacts.ts";
import { judgeGroupReplicas, judgeSetReplica, type Verdict } from "./termination.ts";

export interface GangRow {
  readonly depth: number;
  readonly kind: "PodCliqueSet" | "Replica" | "PodCliqueScalingGroup" | "GroupReplica" | "PodClique";
  readonly namespace: string;
  readonly name: string;
  readonly replicas: number;
  readonly minimum: number;
  readonly scheduled: number;
  readonly ready: number;
  /** The reason of the breach; empty without one. */
  readonly breach: string;
  readonly message: string;
  /** Time until the gang is terminated, if the breach lasts. Undefined: it is not going to be terminated. */
  readonly leftMs: number | undefined;
  /** Why it is being terminated. */
  readonly ending: string;
}

export interface GangObjects {
  readonly sets: readonly PodCliqueSet[];
  readonly groups: readonly PodCliqueScalingGroup[];
  readonly cliques: readonly PodClique[];
}

const byName = (a: { metadata: { name: string } }, b: { metadata: { name: string } }): number =>
  a.metadata.name < b.metadata.name ? -1 : 1;

export function gangTree({ sets, groups, cliques }: GangObjects, nowMs: number): GangRow[] {
  const rows: GangRow[] = [];
  const placeOf = ({ metadata }: PodCliqueSet): string => `${metadata.namespace}/${metadata.name}`;
  for (const set of [...sets].sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))) {
    const { namespace = "", name, uid } = set.metadata;
    const ownGroups = groups.filter(({ metadata }) => controllerOf(metadata)?.uid === uid);
    const owners = new Set([uid, ...ownGroups.map(({ metadata }) => metadata.uid)]);
    const ownCliques = cliques.filter(({ metadata }) => owners.has(controllerOf(metadata)?.uid ?? ""));
    const baseCliques = ownCliques.filter((clique) => isInBase(clique, ownGroups));
    const policy = policyOf(set, ownCliques);
    rows.push({
      ...empty(0, "PodCliqueSet", namespace, name),
      replicas: replicasOf(set),
      minimum: replicasOf(set),
      ready: set.status?.availableReplicas ?? 0,
      scheduled: countScheduledReplicas(set, baseCliques),
    });
    for (let index = 0; index < replicasInReach(set); index++) {
      const record = set.status?.gangTerminations?.find(({ replicaIndex }) => replicaIndex === index);
      const gangs = {
        set,
        setReplica: index,
        groups: inReplica(ownGroups, index),
        cliques: inReplica(ownCliques, index),
      };
      const leftMs = leftOf(judgeSetReplica(gangs, policy, nowMs), nowMs);
      rows.push({
        ...empty(1, "Replica", namespace, `${name}-${index}`),
        ...sum(inReplica(ownCliques, index)),
        minimum: sum(inReplica(baseCliques, index)).minimum,
        ending: record?.because ?? "",
      });
      for (const clique of inReplica(ownCliques, index).sort(byName)) {
        if (groupReplicaOf(clique) === undefined) rows.push(cliqueRow(2, clique, leftMs));
      }
      for (const group of inReplica(ownGroups, index).sort(byName)) {
        rows.push(groupRow(2, group, leftMs));
        const members = ownCliques.filter(({ metadata }) => controllerOf(metadata)?.uid === group.metadata.uid);
        const home = positionOfGroup(set, group);
        const replicas = home === undefined ? [] : groupReplicasOf(group, home, members);
        const judged = judgeGroupReplicas(group, replicas, { set, policy }, nowMs);
        for (let replica = 0; replica < replicasOfGroup(set, group); replica++) {
          const own = members.filter((clique) => groupReplicaOf(clique) === replica).sort(byName);
          const ends = group.status?.gangTerminations?.find(({ replicaIndex }) => replicaIndex === replica);
          const where = empty(3, "GroupReplica", namespace, `${group.metadata.name}-${replica}`);
          rows.push({ ...where, ...sum(own), ending: ends?.because ?? "" });
          const verdict = judged.find((each) => each.index === replica)?.verdict;
          // It is terminated by itself, or with the whole replica of the set.
          const ownLeftMs = verdict === undefined ? leftMs : leftOf(verdict, nowMs);
          for (const clique of own) rows.push(cliqueRow(4, clique, ownLeftMs));
        }
      }
    }
  }
  return rows;
}

/** The pods of the base gang of a set replica. A group replica beyond the group's minimum is a scaled gang. */
function isInBase(clique: PodClique, groups: readonly PodCliqueScalingGroup[]): boolean {
  const group = groups.find(({ metadata }) => metadata.uid === controllerOf(clique.metadata)?.uid);
  return group === undefined || (groupReplicaOf(clique) ?? 0) < groupMinAvailable(group.spec);
}

function inReplica<T extends PodClique | PodCliqueScalingGroup>(objects: readonly T[], index: number): T[] {
  return objects.filter((object) => setReplicaOf(object) === index);
}

/**
 * The policy from the status; where the API keeps no such field, a breach of a clique without scheduled replicas shows
 * that it is `Terminate`.
 */
function policyOf({ status }: PodCliqueSet, cliques: readonly PodClique[]): FullLossPolicy {
  if (status?.fullLossPolicy !== undefined) return status.fullLossPolicy;
  const isLossBreached = (clique: PodClique): boolean =>
    (clique.status?.scheduledReplicas ?? 0) === 0 && conditionOf(clique, breachType)?.status === "True";
  return cliques.some(isLossBreached) ? "Terminate" : "Suppress";
}

function leftOf(verdict: Verdict, nowMs: number): number | undefined {
  if (verdict.verdict === "calm") return undefined;
  return verdict.verdict === "end" ? 0 : Math.max(0, verdict.untilMs - nowMs);
}

function empty(depth: number, kind: GangRow["kind"], namespace: string, name: string): GangRow {
  const nothing = {
    replicas: 0,
    minimum: 0,
    scheduled: 0,
    ready: 0,
    breach: "",
    message: "",
    leftMs: undefined,
    ending: "",
  };
  return { depth, kind, namespace, name, ...nothing };
}

/** Pods of all cliques together. */
function sum(cliques: readonly PodClique[]): Pick<GangRow, "replicas" | "minimum" | "scheduled" | "ready"> {
  let [replicas, minimum, scheduled, ready] = [0, 0, 0, 0];
  for (const { spec, status } of cliques) {
    replicas += spec.replicas;
    minimum += minAvailableOf(spec);
    scheduled += status?.scheduledReplicas ?? 0;
    ready += status?.readyReplicas ?? 0;
  }
  return { replicas, minimum, scheduled, ready };
}

function countScheduledReplicas(set: PodCliqueSet, cliques: readonly PodClique[]): number {
  let count = 0;
  for (let index = 0; index < replicasInReach(set); index++) {
    const own = inReplica(cliques, index);
    if (own.length > 0 && own.every(({ spec, status }) => (status?.scheduledReplicas ?? 0) >= minAvailableOf(spec)))
      count++;
  }
  return count;
}

function breachOf(condition: GangCondition | undefined, leftMs: number | undefined) {
  if (condition === undefined || condition.status === "False") {
    const isSuppressed = condition !== undefined && suppressedReasons.has(condition.reason);
    return {
      breach: isSuppressed ? "suppressed" : "",
      message: isSuppressed ? condition.message : "",
      leftMs: undefined,
    };
  }
  if (condition.status === "Unknown") return { breach: "updating", message: condition.message, leftMs: undefined };
  return { breach: condition.reason, message: condition.message, leftMs };
}

function cliqueRow(depth: number, clique: PodClique, leftMs: number | undefined): GangRow {
  const { namespace = "", name } = clique.metadata;
  return {
    ...empty(depth, "PodClique", namespace, name),
    ...sum([clique]),
    ...breachOf(conditionOf(clique, breachType), leftMs),
  };
}

function groupRow(depth: number, group: PodCliqueScalingGroup, leftMs: number | undefined): GangRow {
  const { namespace = "", name } = group.metadata;
  const isRestarting = conditionOf(group, terminationType)?.status === "True";
  return {
    ...empty(depth, "PodCliqueScalingGroup", namespace, name),
    replicas: groupReplicas(group.spec),
    minimum: groupMinAvailable(group.spec),
    scheduled: group.status?.scheduledReplicas ?? 0,
    ready: group.status?.availableReplicas ?? 0,
    ...breachOf(conditionOf(group, breachType), leftMs),
    ...(isRestarting && { leftMs: undefined, ending: "it was terminated and is starting again" }),
  };
}

function replicasOfGroup(set: PodCliqueSet, group: PodCliqueScalingGroup): number {
  const home = positionOfGroup(set, group);
  const kept = home === undefined ? gangCliquesMax : groupReplicasInReach(set, home.template, group.spec);
  return Math.min(groupReplicas(group.spec), kept);
}

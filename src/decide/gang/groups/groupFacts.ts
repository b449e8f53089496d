/** The state of a scaling group's replicas, from the conditions of their cliques. */
import { labels } from "../../../model/gang/keys.ts";
import { groupReplicasInReach } from "../../../model/gang/reach.ts";
import { cliqueNamed, groupNamed, groupReplicaOf, minAvailableOf, setReplicaOf } from "../../../model/gang/setFacts.ts";
import type {
  GangTermination,
  GroupTemplate,
  PodClique,
  PodCliqueScalingGroup,
  PodCliqueSet,
} from "../../../model/gang/types.ts";
import { type GroupReplicaFacts, scheduledType } from "../breach.ts";
import { isBreached, isUpToDate, wasEverScheduled } from "../cliques/cliqueStatus.ts";
import { isLeaving } from "../gangLabels.ts";
import { conditionOf } from "../gangs/gangConditions.ts";
import { groupName, memberName } from "../names.ts";
import { templateHash } from "../sets/hashes.ts";

export interface GroupReplica extends GroupReplicaFacts {
  readonly index: number;
  /** Its cliques that exist and are not terminating, in the order of the group. */
  readonly cliques: readonly PodClique[];
  /** Scheduled, and every clique has its minimum ready. */
  readonly isAvailable: boolean;
  /** Complete, and every clique is up to date. */
  readonly isUpdated: boolean;
  /** Some clique of it is of an older template. */
  readonly isOld: boolean;
}

export interface GroupPosition {
  readonly set: PodCliqueSet;
  readonly setReplica: number;
  readonly template: GroupTemplate;
}

export function positionOfGroup(set: PodCliqueSet, group: PodCliqueScalingGroup): GroupPosition | undefined {
  const setReplica = setReplicaOf(group);
  if (setReplica === undefined) return undefined;
  const found = (set.spec.template.podCliqueScalingGroups ?? []).find(
    ({ name }) => groupName(set.metadata.name, setReplica, name) === group.metadata.name,
  );
  return found === undefined ? undefined : { set, setReplica, template: groupNamed(set, found.name) ?? found };
}

/** The replicas of the spec, by index. Cliques with other indexes or names do not count. */
export function groupReplicasOf(
  group: PodCliqueScalingGroup,
  { set, template }: GroupPosition,
  cliques: readonly PodClique[],
): GroupReplica[] {
  const byName = new Map(cliques.filter((each) => !isLeaving(each)).map((each) => [each.metadata.name, each]));
  return Array.from({ length: groupReplicasInReach(set, template, group.spec) }, (_, index) => {
    const found = template.cliqueNames.flatMap((name) => {
      const clique = byName.get(memberName(group.metadata.name, index, name));
      return clique !== undefined && groupReplicaOf(clique) === index ? [{ name, clique }] : [];
    });
    const ofReplica = found.map(({ clique }) => clique);
    const isComplete = ofReplica.length === template.cliqueNames.length;
    const isScheduled =
      isComplete && ofReplica.every((clique) => conditionOf(clique, scheduledType)?.status === "True");
    const isReadyEnough = (clique: PodClique): boolean =>
      (clique.status?.readyReplicas ?? 0) >= minAvailableOf(clique.spec);
    const hashOf = (name: string): string => {
      const named = cliqueNamed(set, name);
      return named === undefined ? "" : templateHash(set, named);
    };
    return {
      index,
      cliques: ofReplica,
      isComplete,
      isScheduled,
      isBreached: ofReplica.some(isBreached),
      isAvailable: isScheduled && ofReplica.every(isReadyEnough),
      isUpdated: isComplete && found.every(({ name, clique }) => isUpToDate(clique, set, hashOf(name))),
      isOld: found.some(({ name, clique }) => clique.metadata.labels?.[labels.templateHash] !== hashOf(name)),
    };
  });
}

/**
 * Whether a clique that stays has lost its minimum. Cliques that a termination or an update deletes are replaced by
 * cliques that were never scheduled: neither is a loss.
 */
export function hasLostClique(replicas: readonly GroupReplica[], terminations: readonly GangTermination[]): boolean {
  const ending = new Set(terminations.flatMap(({ podCliques }) => podCliques.map(({ uid }) => uid)));
  return replicas.some(({ cliques }) =>
    cliques.some(
      (clique) =>
        !ending.has(clique.metadata.uid) &&
        wasEverScheduled(clique) &&
        conditionOf(clique, scheduledType)?.status !== "True",
    ),
  );
}

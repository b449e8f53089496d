/**
 * Limits how many objects are created for a PodCliqueSet. Replica counts are 32-bit numbers that any user may write,
 * and one set must not fill the cluster's memory: at most `gangPodsMax` pods of a set are created, and only the
 * replicas and scaling group replicas that fit. A gang that is larger can never be complete, so none of its pods is
 * created.
 */
import {
  cliquesOf,
  groupMinAvailable,
  groupReplicas,
  groupsOf,
  membersOf,
  minAvailableOf,
  replicasOf,
  standaloneCliques,
} from "./setFacts.ts";
import type { CliqueTemplate, GroupTemplate, PodCliqueSet } from "./types.ts";

/** A PodGang lists each of its pods; with more pods it would exceed the maximum object size. */
export const gangPodsMax = 10_000;
/** Each clique of a gang may list all the others as start-up dependencies. */
export const gangCliquesMax = 1_000;
/** The minimum weight of a replica: its Service, its PodGang and its cliques. */
const replicaWeightMin = 6;

type Counts = { readonly replicas?: number; readonly minAvailable?: number };

/** How many pods of a clique are created: its minimum in any case, beyond that up to its share of the set's limit. */
export function podsInReach(set: PodCliqueSet, spec: Counts): number {
  const share = Math.floor(gangPodsMax / Math.max(1, cliquesOf(set).length));
  return Math.max(0, Math.min(spec.replicas ?? 1, Math.max(share, Math.min(minAvailableOf(spec), gangPodsMax))));
}

/** How many replicas of a scaling group are created. `live` is the current spec of the group. */
export function groupReplicasInReach(set: PodCliqueSet, template: GroupTemplate, live: Counts = template): number {
  const members = membersOf(set, template);
  const pods = podsOf(set, members);
  const share = Math.floor(gangPodsMax / Math.max(1, groupsOf(set).length) / Math.max(1, pods));
  const cliques = Math.floor(gangCliquesMax / Math.max(1, members.length));
  const room = Math.max(1, Math.min(share, cliques), Math.min(groupMinAvailable(template), cliques));
  return Math.max(0, Math.min(groupReplicas(live), room));
}

/** How many replicas of a set are created. */
export function replicasInReach(set: PodCliqueSet): number {
  if (gangProblem(set) !== undefined) return 0;
  const ofGroups = groupsOf(set).reduce(
    (sum, group) => sum + groupReplicasInReach(set, group) * podsOf(set, membersOf(set, group)),
    0,
  );
  const weight = Math.max(replicaWeightMin, podsOf(set, standaloneCliques(set)) + ofGroups);
  return Math.max(0, Math.min(replicasOf(set), Math.max(1, Math.floor(gangPodsMax / weight))));
}

function podsOf(set: PodCliqueSet, cliques: readonly CliqueTemplate[]): number {
  return cliques.reduce((sum, { spec }) => sum + podsInReach(set, spec), 0);
}

/** Why no replica of the set can ever be complete. */
export function gangProblem(set: PodCliqueSet): string | undefined {
  let [pods, cliques] = [0, 0];
  for (const { spec } of standaloneCliques(set)) {
    pods += minAvailableOf(spec);
    cliques++;
  }
  for (const group of groupsOf(set)) {
    for (const { spec } of membersOf(set, group)) {
      pods += groupMinAvailable(group) * minAvailableOf(spec);
      cliques += groupMinAvailable(group);
    }
  }
  if (pods > gangPodsMax) {
    return `a replica needs ${pods} pods at once, and a gang has ${gangPodsMax} at most: lower minAvailable`;
  }
  if (cliques > gangCliquesMax) {
    return `a replica needs ${cliques} PodCliques at once, and a gang has ${gangCliquesMax} at most: lower minAvailable of its scaling groups`;
  }
  return undefined;
}

/** Which part of the set exceeds the limit, as a sentence; undefined when none does. */
export function limitOf(set: PodCliqueSet): string | undefined {
  const problem = gangProblem(set);
  if (problem !== undefined) return problem;
  const most = `a PodCliqueSet has at most ${gangPodsMax} pods, use further sets for the others`;
  const kept = replicasInReach(set);
  if (kept < replicasOf(set)) return `only ${kept} of ${replicasOf(set)} replicas are created: ${most}`;
  for (const { name, spec } of cliquesOf(set)) {
    const pods = podsInReach(set, spec);
    if (pods < (spec.replicas ?? 1))
      return `only ${pods} of ${spec.replicas} pods of clique ${name} are created: ${most}`;
  }
  for (const group of groupsOf(set)) {
    const replicas = groupReplicasInReach(set, group);
    if (replicas < groupReplicas(group))
      return `only ${replicas} of ${groupReplicas(group)} replicas of scaling group ${group.name} are created: ${most}`;
  }
  return undefined;
}

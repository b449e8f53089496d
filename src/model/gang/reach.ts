/**
 * How much of a PodCliqueSet is kept. Counts are 32-bit numbers that any user may write, and one object must not fill
 * the cluster's memory: of a set so many pods are kept, and as many replicas of it and of its scaling groups as fit in
 * that. A gang that is larger than that can never be complete, so none of it is started.
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

/** A PodGang names each of its pods: with more of them it would outgrow what an API server stores. */
export const gangPodsMax = 10_000;
/** Each clique of a gang may have to wait for all the others by name. */
export const gangCliquesMax = 1_000;
/** A replica without many pods still has a Service, a PodGang and its cliques. */
const replicaWeightMin = 6;

type Counts = { readonly replicas?: number; readonly minAvailable?: number };

/** How many pods of a clique are kept: its minimum in any case, beyond that its share of what the set may have. */
export function podsInReach(set: PodCliqueSet, spec: Counts): number {
  const share = Math.floor(gangPodsMax / Math.max(1, cliquesOf(set).length));
  return Math.max(0, Math.min(spec.replicas ?? 1, Math.max(share, Math.min(minAvailableOf(spec), gangPodsMax))));
}

/** How many replicas of a scaling group are kept. `live` is what the group itself says now. */
export function groupReplicasInReach(set: PodCliqueSet, template: GroupTemplate, live: Counts = template): number {
  const members = membersOf(set, template);
  const pods = podsOf(set, members);
  const share = Math.floor(gangPodsMax / Math.max(1, groupsOf(set).length) / Math.max(1, pods));
  const cliques = Math.floor(gangCliquesMax / Math.max(1, members.length));
  const room = Math.max(1, Math.min(share, cliques), Math.min(groupMinAvailable(template), cliques));
  return Math.max(0, Math.min(groupReplicas(live), room));
}

/** How many replicas of a set are kept. */
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

/** Why no replica of the set can ever be whole. */
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

/** What of the set is not kept, in a sentence; undefined when all of it is. */
export function limitOf(set: PodCliqueSet): string | undefined {
  const problem = gangProblem(set);
  if (problem !== undefined) return problem;
  const most = `of one PodCliqueSet at most ${gangPodsMax} pods are kept, use more sets for the others`;
  const kept = replicasInReach(set);
  if (kept < replicasOf(set)) return `${kept} of ${replicasOf(set)} replicas are kept: ${most}`;
  for (const { name, spec } of cliquesOf(set)) {
    const pods = podsInReach(set, spec);
    if (pods < (spec.replicas ?? 1)) return `${pods} of ${spec.replicas} pods of clique ${name} are kept: ${most}`;
  }
  for (const group of groupsOf(set)) {
    const replicas = groupReplicasInReach(set, group);
    if (replicas < groupReplicas(group))
      return `${replicas} of ${groupReplicas(group)} replicas of scaling group ${group.name} are kept: ${most}`;
  }
  return undefined;
}

/** The next size of each ReplicaSet of a Deployment. */
import type { Deployment, ReplicaSet } from "../../../model/kubernetes.generated.ts";
import { byAge } from "../../../model/objects/podFacts.ts";
import { desiredOf, maxReplicasOf, sizeLimits } from "./deploymentRevision.ts";

/** New sizes by the set's UID; other sets keep their size. */
export type Sizes = Map<string, number>;

export function sizeOf({ spec }: ReplicaSet): number {
  return spec?.replicas ?? 1;
}

export function totalSize(sets: readonly ReplicaSet[]): number {
  return sets.reduce((sum, set) => sum + sizeOf(set), 0);
}

function availableOf({ status }: ReplicaSet): number {
  return status?.availableReplicas ?? 0;
}

/** The next size of the current set when it grows: limited by the surge over all sets. */
export function grownSize(deployment: Deployment, sets: readonly ReplicaSet[], present: number): number {
  const replicas = deployment.spec?.replicas ?? 1;
  if (deployment.spec?.strategy?.type === "Recreate") return replicas;
  const room = replicas + sizeLimits(deployment).maxSurge - totalSize(sets);
  return room <= 0 ? present : present + Math.min(room, replicas - present);
}

/** One step of a rolling update: the current set first; only when it cannot grow are the old ones scaled down. */
export function rollingSizes(deployment: Deployment, present: ReplicaSet, old: readonly ReplicaSet[]): Sizes {
  const sizes: Sizes = new Map();
  const replicas = deployment.spec?.replicas ?? 1;
  const all = [...old, present];
  const size = sizeOf(present);
  const next = size > replicas ? replicas : grownSize(deployment, all, size);
  if (next !== size) return sizes.set(present.metadata.uid, next);
  shrinkOld(sizes, deployment, present, old);
  return sizes;
}

function shrinkOld(sizes: Sizes, deployment: Deployment, present: ReplicaSet, old: readonly ReplicaSet[]): void {
  if (totalSize(old) === 0) return;
  const replicas = deployment.spec?.replicas ?? 1;
  const availableMin = replicas - sizeLimits(deployment).maxUnavailable;
  const presentUnavailable = sizeOf(present) - availableOf(present);
  const room = totalSize(old) + sizeOf(present) - availableMin - presentUnavailable;
  if (room <= 0) return;
  const oldest = [...old].sort(byAge);
  // Pods that are not ready are removed first: they cost no availability.
  let left = room;
  for (const set of oldest) {
    const unhealthy = sizeOf(set) - availableOf(set);
    if (left <= 0 || sizeOf(set) === 0 || unhealthy <= 0) continue;
    const cut = Math.min(left, unhealthy);
    sizes.set(set.metadata.uid, sizeOf(set) - cut);
    left -= cut;
  }
  const available = [...old, present].reduce((sum, set) => sum + availableOf(set), 0);
  let spare = Math.min(available - availableMin, left);
  for (const set of oldest) {
    const size = sizes.get(set.metadata.uid) ?? sizeOf(set);
    if (spare <= 0 || size === 0) continue;
    const cut = Math.min(spare, size);
    sizes.set(set.metadata.uid, size - cut);
    spare -= cut;
  }
}

/** Whether the Deployment's size has changed since it was recorded on its sets. */
export function isResized(deployment: Deployment, sets: readonly ReplicaSet[]): boolean {
  const replicas = deployment.spec?.replicas ?? 1;
  return sets.some((set) => {
    const desired = desiredOf(set);
    return sizeOf(set) > 0 && desired !== undefined && desired !== replicas;
  });
}

/**
 * A change of the Deployment's replicas. A single active set gets all of it; during a rolling update it is distributed
 * among the sets by their size, so that a failing rollout does not get all the new pods.
 */
export function resizedSizes(
  deployment: Deployment,
  present: ReplicaSet | undefined,
  old: readonly ReplicaSet[],
): { sizes: Sizes; tells: readonly ReplicaSet[] } {
  const sizes: Sizes = new Map();
  const replicas = deployment.spec?.replicas ?? 1;
  const all = present === undefined ? [...old] : [...old, present];
  const active = all.filter((set) => sizeOf(set) > 0);
  if (active.length <= 1) {
    const only = active[0] ?? present ?? [...old].sort(byAge).at(-1);
    if (only === undefined) return { sizes, tells: [] };
    if (sizeOf(only) !== replicas) sizes.set(only.metadata.uid, replicas);
    return { sizes, tells: [only] };
  }
  if (present !== undefined && isSaturated(deployment, present)) {
    for (const set of active) if (set !== present) sizes.set(set.metadata.uid, 0);
    return { sizes, tells: active };
  }
  if (deployment.spec?.strategy?.type === "Recreate") return { sizes, tells: active };
  return { sizes: sharedSizes(deployment, active), tells: active };
}

function isSaturated(deployment: Deployment, set: ReplicaSet): boolean {
  const replicas = deployment.spec?.replicas ?? 1;
  return sizeOf(set) === replicas && desiredOf(set) === replicas && availableOf(set) === replicas;
}

function sharedSizes(deployment: Deployment, active: readonly ReplicaSet[]): Sizes {
  const sizes: Sizes = new Map();
  const replicas = deployment.spec?.replicas ?? 1;
  const allowed = replicas > 0 ? replicas + sizeLimits(deployment).maxSurge : 0;
  const toAdd = allowed - totalSize(active);
  if (toAdd === 0) return sizes;
  // The largest comes first; of two equals the newer grows first and the older shrinks first.
  const ordered = [...active].sort((a, b) => sizeOf(b) - sizeOf(a) || (toAdd > 0 ? byAge(b, a) : byAge(a, b)));
  let added = 0;
  for (const set of ordered) {
    const share = shareFor(deployment, set, allowed);
    const left = toAdd - added;
    const change = toAdd > 0 ? Math.min(share, left) : Math.max(share, left);
    sizes.set(set.metadata.uid, sizeOf(set) + change);
    added += change;
  }
  const first = ordered[0];
  if (first !== undefined) {
    const size = (sizes.get(first.metadata.uid) ?? 0) + toAdd - added;
    sizes.set(first.metadata.uid, Math.max(0, size));
  }
  return sizes;
}

/** The change of the set's size that keeps its proportion. */
function shareFor(deployment: Deployment, set: ReplicaSet, allowed: number): number {
  if (allowed === 0) return -sizeOf(set);
  const before = maxReplicasOf(set) ?? deployment.status?.replicas ?? 0;
  return before === 0 ? 0 : Math.round((sizeOf(set) * allowed) / before) - sizeOf(set);
}

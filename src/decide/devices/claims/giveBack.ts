/**
 * What is deallocated when pods fit nowhere: claims whose allocation keeps their only consumer from every node. A claim
 * of a group is deallocated when no pod of the group has a node; where no claim blocks the pods, the group's
 * reservations are removed, so that other pods may use the devices.
 */
import type { Pod, PodGroup, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { mayDeallocate } from "./bindClaim.ts";
import { isReservedFor, type PodClaim } from "./podClaims.ts";

export interface StuckPod {
  readonly pod: Pod;
  readonly claims: readonly PodClaim[];
  /** UIDs of claims whose allocation keeps the pod away from some node. */
  readonly unavailable: ReadonlySet<string>;
  /** A claim for extended resources that an earlier attempt left behind. */
  readonly leftover?: ResourceClaim;
}

export type GiveBack =
  | { readonly kind: "deallocate"; readonly claim: ResourceClaim; readonly user: Pod | PodGroup }
  | { readonly kind: "delete"; readonly claim: ResourceClaim }
  | { readonly kind: "unreserve"; readonly claim: ResourceClaim; readonly user: Pod | PodGroup };

export interface GiveBackInput {
  /** A pod alone, or those of its group that have no node. */
  readonly pods: readonly StuckPod[];
  /** Undefined: no group, or groups have no claims. */
  readonly group?: PodGroup;
  /** Whether a pod of the group has a node, or is about to get one. */
  readonly isGroupActive?: boolean;
}

/** One claim for each pod, then what the group holds. Empty: the pods stay pending. */
export function whatToGiveBack({ pods, group, isGroupActive = false }: GiveBackInput): GiveBack[] {
  const steps: GiveBack[] = [];
  for (const { pod, claims, unavailable, leftover } of pods) {
    const blocking = claims
      .filter(({ claim, group: of }) => of === undefined && unavailable.has(claim.metadata.uid))
      .map(({ claim }) => claim);
    const alone = blocking.find((claim) => mayDeallocate(claim, pod));
    // Other pods use it too. A pod that cannot use it removes its reservation, and the last of them deallocates it.
    const shared = blocking.find((claim) => isReservedFor(claim, pod.metadata.uid));
    if (alone !== undefined) steps.push({ kind: "deallocate", claim: alone, user: pod });
    else if (shared !== undefined) steps.push({ kind: "unreserve", claim: shared, user: pod });
    else if (leftover !== undefined) steps.push({ kind: "delete", claim: leftover });
  }
  // A group with a topology constraint keeps its claims: it is tried again as a whole.
  const isSpread = (group?.spec.schedulingConstraints?.topology?.length ?? 0) > 0;
  if (group === undefined || isGroupActive || isSpread) return steps;
  const held = new Map<string, ResourceClaim>();
  const inTheWay = new Set<string>();
  for (const { claims, unavailable } of pods) {
    for (const each of claims) {
      if (each.group === undefined || each.claim.status?.allocation === undefined) continue;
      held.set(each.claim.metadata.uid, each.claim);
      if (unavailable.has(each.claim.metadata.uid)) inTheWay.add(each.claim.metadata.uid);
    }
  }
  const blocking = [...held.values()].find(({ metadata: { uid } }) => inTheWay.has(uid));
  if (blocking !== undefined && mayDeallocate(blocking, group)) {
    steps.push({ kind: "deallocate", claim: blocking, user: group });
    return steps;
  }
  for (const claim of held.values()) {
    if (isReservedFor(claim, group.metadata.uid)) steps.push({ kind: "unreserve", claim, user: group });
  }
  return steps;
}

/** Whether an event may let a waiting pod be placed. A wrong yes costs a look; a wrong no leaves the pod asleep. */

import { equalJson } from "../../model/json.ts";
import type { Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { claimsOfPod, type GetClaim } from "./podClaims.ts";

export type Hint = "queue" | "skip";

export interface ClaimEvent {
  /** Undefined: it was added. */
  readonly before: ResourceClaim | undefined;
  /** Undefined: it was deleted. */
  readonly after: ResourceClaim | undefined;
  /** The deletion was found out late, so what it last was is not known. */
  readonly isFinalStateUnknown?: boolean;
}

export function hintOfClaim(pod: Pod, event: ClaimEvent, get: GetClaim): Hint {
  const { before, after } = event;
  if (after === undefined) {
    if (event.isFinalStateUnknown === true || before === undefined) return "queue";
    return before.status?.allocation === undefined ? "skip" : "queue";
  }
  const own = claimsOfPod(pod, get);
  if (!own.ok) return "skip";
  if (before?.status?.allocation !== undefined && after.status?.allocation === undefined) return "queue";
  if (!own.claims.some(({ claim }) => claim.metadata.uid === after.metadata.uid)) return "skip";
  if (before === undefined) return "queue";
  return equalJson(before.status ?? {}, after.status ?? {}) ? "skip" : "queue";
}

/** The names of generated claims were written into the pod. */
export function hintOfPod(before: Pod, after: Pod, get: GetClaim): Hint {
  if (before.metadata.uid !== after.metadata.uid) return "skip";
  return claimsOfPod(after, get).ok ? "queue" : "skip";
}

/**
 * The pods that a claim's event may concern: "all" when a device became free, otherwise those that name the claim.
 * A pod whose generated claims are not written down yet is in no index; the event of its own status wakes it.
 */
export function concernedBy(
  event: ClaimEvent,
  usersOf: (claimKey: string) => readonly string[],
): readonly string[] | "all" {
  const { before, after } = event;
  const wasAllocated = before?.status?.allocation !== undefined;
  if (event.isFinalStateUnknown === true) return "all";
  if (wasAllocated && after?.status?.allocation === undefined) return "all";
  const claim = after ?? before;
  if (claim === undefined) return "all";
  return usersOf(`${claim.metadata.namespace ?? ""}/${claim.metadata.name}`);
}

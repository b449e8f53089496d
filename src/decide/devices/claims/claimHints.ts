/** Whether an event may let a waiting pod be placed. A wrong yes costs a look; a wrong no leaves the pod asleep. */

import type { ResourceClaim } from "../../../model/kubernetes.generated.ts";

export interface ClaimEvent {
  /** Undefined: it was added. */
  readonly before: ResourceClaim | undefined;
  /** Undefined: it was deleted. */
  readonly after: ResourceClaim | undefined;
  /** The deletion was found out late, so what it last was is not known. */
  readonly isFinalStateUnknown?: boolean;
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

import { keyOfObject } from "../../model/intent.ts";
import type { ClaimTracker } from "./claimTracker.ts";
import { nodeOfAllocation, usesOf } from "./search/deviceUse.ts";

/** What a process counts as given away, as one JSON object: for comparing it with the claims of the API. */
export interface DevicesDescription {
  /** Of the tracker: the same number that the log lines have. */
  readonly revision: number;
  readonly claims: readonly ClaimDescription[];
  /** Whole devices that nothing else may use. */
  readonly devices: readonly string[];
  readonly shares: readonly { readonly device: string; readonly shareId: string }[];
  /** Device to capacity name to amount, in billionths. */
  readonly capacity: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export interface ClaimDescription {
  readonly claim: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly node: string | null;
  readonly devices: readonly string[];
  readonly isInFlight: boolean;
}

export function describeDevices(tracker: ClaimTracker, consumableCapacity: boolean): DevicesDescription {
  const claims: ClaimDescription[] = [];
  for (const claim of tracker.list()) {
    const { uid, resourceVersion } = claim.metadata;
    claims.push({
      claim: keyOfObject(claim),
      uid,
      resourceVersion,
      node: nodeOfAllocation(claim) ?? null,
      devices: usesOf(claim).map(({ device }) => device),
      isInFlight: tracker.claimHasPendingAllocation(uid),
    });
  }
  const { devices, sharedIds, capacity } = tracker.gatherAllocatedState(consumableCapacity);
  const amounts = (sums: ReadonlyMap<string, bigint>) =>
    Object.fromEntries([...sums].map(([name, nano]) => [name, String(nano)]));
  return {
    revision: tracker.revision,
    claims,
    devices,
    shares: sharedIds,
    capacity: Object.fromEntries([...capacity].map(([device, sums]) => [device, amounts(sums)])),
  };
}

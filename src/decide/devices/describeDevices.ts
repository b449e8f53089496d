import { keyOfObject } from "../../model/intent.ts";
import type { ClaimTracker } from "./claimTracker.ts";
import { nodeOfAllocation, usesOf } from "./search/deviceUse.ts";

/** The devices that a process counts as allocated, as one JSON object: to compare them with the claims of the API. */
export interface DevicesDescription {
  /** The tracker's revision, as in the log lines. */
  readonly revision: number;
  readonly claims: readonly ClaimDescription[];
  /** Devices that are allocated exclusively. */
  readonly devices: readonly string[];
  readonly shares: readonly { readonly device: string; readonly shareId: string }[];
  /** Consumed capacity in billionths, by device and capacity name. */
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

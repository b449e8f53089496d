/**
 * Changes of allocations, one for each device or share and claim. The tracker reports them; control code turns them
 * into log lines and metrics. A device that two claims hold appears as two `allocated` without a `released` between
 * them, and as a `doubled`.
 */
import type { ResourceClaim } from "../../model/kubernetes.generated.ts";
import { type DeviceUse, nodeOfAllocation, useKey, usesOf } from "./search/deviceUse.ts";

/** The component that decided. `watch`: another process, whose write was observed. */
export type DecisionSource = "scheduler" | "claim-controller" | "take-over" | "watch";

export type DeviceChangeType =
  /** Decided, and no write has been confirmed. */
  | "in-flight"
  /** No longer counted as a decision: its write is confirmed, or it was dropped. */
  | "not-in-flight"
  /** The claim in the API has the device. */
  | "allocated"
  /** The claim in the API no longer has the device, or is deleted. */
  | "released"
  /** Allocated, though the API has the device in another claim as well. */
  | "doubled";

export interface DeviceChange {
  readonly type: DeviceChangeType;
  /** `namespace/name`. */
  readonly claim: string;
  readonly uid: string;
  /** `driver/pool/device`. */
  readonly device: string;
  readonly shareId: string | undefined;
  /** Undefined where several nodes can reach the devices. */
  readonly node: string | undefined;
  /** The version of the claim in the API. Empty for a claim that has not been created. */
  readonly resourceVersion: string;
  readonly source: DecisionSource;
  /** The other claim, of `doubled`. */
  readonly other?: string;
}

type Found = Omit<DeviceChange, "source">;

/** The known claims with an allocation in the API. */
export class ConfirmedClaims {
  private readonly byKey = new Map<string, ResourceClaim>();
  /** Key of a use to the keys of the claims that have it. */
  private readonly holders = new Map<string, Set<string>>();

  get size(): number {
    return this.byKey.size;
  }

  /** Sets the newest version of a claim and returns the changes. Releases come first. */
  set(key: string, claim: ResourceClaim | undefined): Found[] {
    const before = this.byKey.get(key);
    const after = claim?.status?.allocation === undefined ? undefined : claim;
    if (before === undefined && after === undefined) return [];
    if (after === undefined) this.byKey.delete(key);
    else this.byKey.set(key, after);
    const isSame = before?.metadata.uid === after?.metadata.uid;
    if (isSame && before?.status?.allocation === after?.status?.allocation) return [];
    const [old, now] = [usesByKey(before), usesByKey(after)];
    const found: Found[] = [];
    for (const [at, use] of old) {
      if (isSame && now.has(at)) continue;
      this.leave(at, key);
      // The release carries the version that shows it, where there is one.
      const version = claim?.metadata.uid === before?.metadata.uid ? claim?.metadata.resourceVersion : undefined;
      found.push(changeOf("released", key, before as ResourceClaim, use, version));
    }
    for (const [at, use] of now) {
      if (isSame && old.has(at)) continue;
      found.push(changeOf("allocated", key, after as ResourceClaim, use));
      const others = this.join(at, key);
      // A share has a key of its own, so two holders of one key are a mistake in either case.
      for (const other of others) found.push({ ...changeOf("doubled", key, after as ResourceClaim, use), other });
    }
    return found;
  }

  /** The claims that had it before. */
  private join(at: string, key: string): readonly string[] {
    const known = this.holders.get(at);
    if (known === undefined) {
      this.holders.set(at, new Set([key]));
      return [];
    }
    const others = [...known].filter((each) => each !== key).sort();
    known.add(key);
    return others;
  }

  private leave(at: string, key: string): void {
    const known = this.holders.get(at);
    known?.delete(key);
    if (known?.size === 0) this.holders.delete(at);
  }
}

export function changeOf(
  type: DeviceChangeType,
  key: string,
  claim: ResourceClaim,
  { device, shareId }: DeviceUse,
  resourceVersion = claim.metadata.resourceVersion,
): Found {
  const node = nodeOfAllocation(claim);
  return { type, claim: key, uid: claim.metadata.uid, device, shareId, node, resourceVersion };
}

function usesByKey(claim: ResourceClaim | undefined): Map<string, DeviceUse> {
  return new Map(claim === undefined ? [] : usesOf(claim).map((use) => [useKey(use), use]));
}

/** What is given away: whole devices, shares of devices, and how much of their capacity the shares take. */
import type { DeviceRequestAllocationResult, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { parseQuantity } from "../../../model/values/quantity.ts";
import { deviceKey } from "./poolDevice.ts";

export interface AllocatedState {
  /** Held by one claim alone. */
  isTaken(device: string): boolean;
  /** Held by at least one share. */
  isShared(device: string): boolean;
  /** Capacity name to billionths; undefined where no share took any. */
  consumed(device: string): ReadonlyMap<string, bigint> | undefined;
}

/** A state on top of which changes can be tried. */
export interface CountedState extends AllocatedState {
  /** How many shares of the device are given away. */
  shareCount(device: string): number;
}

export interface SharedDeviceId {
  readonly device: string;
  readonly shareId: string;
}

/** The state as plain sets, for tests, for oracles and for callers without a tracker. */
export class AllocatedSets implements CountedState {
  readonly devices = new Set<string>();
  readonly shares = new Map<string, Set<string>>();
  readonly capacity = new Map<string, Map<string, bigint>>();

  isTaken(device: string): boolean {
    return this.devices.has(device);
  }

  isShared(device: string): boolean {
    return this.shareCount(device) > 0;
  }

  shareCount(device: string): number {
    return this.shares.get(device)?.size ?? 0;
  }

  consumed(device: string): ReadonlyMap<string, bigint> | undefined {
    return this.capacity.get(device);
  }

  add(result: DeviceRequestAllocationResult, consumableCapacity = true): void {
    // Admin access holds no device.
    if (result.adminAccess === true) return;
    const key = deviceKey(result);
    if (result.shareID === undefined || !consumableCapacity) {
      this.devices.add(key);
      return;
    }
    const known = this.shares.get(key);
    if (known === undefined) this.shares.set(key, new Set([result.shareID]));
    else known.add(result.shareID);
    for (const [name, amount] of Object.entries(result.consumedCapacity ?? {})) {
      const sums = this.capacity.get(key) ?? new Map<string, bigint>();
      sums.set(name, (sums.get(name) ?? 0n) + parseQuantity(amount).nano);
      this.capacity.set(key, sums);
    }
  }
}

export function allocatedStateOf(claims: Iterable<ResourceClaim>, consumableCapacity = true): AllocatedSets {
  const state = new AllocatedSets();
  for (const claim of claims) {
    for (const result of claim.status?.allocation?.devices?.results ?? []) state.add(result, consumableCapacity);
  }
  return state;
}

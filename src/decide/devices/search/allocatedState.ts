/** Allocated devices, shares of devices, and the consumed capacity of the shares. */
import type { DeviceRequestAllocationResult, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { parseQuantity } from "../../../model/values/quantity.ts";
import { deviceKey } from "./poolDevice.ts";

export interface AllocatedState {
  /** Allocated exclusively to one claim. */
  isTaken(device: string): boolean;
  /** Has at least one share. */
  isShared(device: string): boolean;
  /** Consumed capacity in billionths by name; undefined without shares. */
  consumed(device: string): ReadonlyMap<string, bigint> | undefined;
}

/** A state to which trial changes can be applied. */
export interface CountedState extends AllocatedState {
  /** The number of allocated shares of the device. */
  shareCount(device: string): number;
}

export interface SharedDeviceId {
  readonly device: string;
  readonly shareId: string;
}

/** The state as plain sets, for tests and for callers without a tracker. */
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

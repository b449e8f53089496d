/**
 * One attempt to allocate devices to claims: the devices so far, whether a further device can be allocated, and how to
 * undo it. Every refusal and every undo restores the exact state.
 */
import { toleratesAll } from "../../../model/deviceTaints.ts";
import type { Quantity } from "../../../model/values/quantity.ts";
import type { AllocatedState } from "./allocatedState.ts";
import { type Consumption, consumptionOf, fitsBeside } from "./capacity.ts";
import type { ClaimPlan, PlannedClaim, PlannedOption } from "./claimPlan.ts";
import type { Constraint } from "./constraints.ts";
import type { DeviceFeatures } from "./features.ts";
import type { PoolDevice } from "./poolDevice.ts";
import { type NodePools, type PlacedDevice, type Pool, placeMatches } from "./pools.ts";

/** Devices in one claim. */
export const resultsMax = 32;

/** A device that is allocated to a request. */
export interface Taken {
  readonly option: PlannedOption;
  readonly device: PlacedDevice;
  readonly consumed: ReadonlyMap<string, Quantity> | undefined;
}

export interface AttemptInput {
  readonly plan: ClaimPlan;
  readonly pools: NodePools;
  readonly state: AllocatedState;
  readonly features: DeviceFeatures;
}

/** Ends a search at once; not an Error, because its stack is never read. */
export class Failure {
  readonly message: string;
  readonly isNodeLocal: boolean;
  constructor(message: string, isNodeLocal = false) {
    this.message = message;
    this.isNodeLocal = isNodeLocal;
  }
}

export class Attempt {
  readonly input: AttemptInput;
  readonly claims: readonly PlannedClaim[];
  readonly devices: readonly PlacedDevice[];
  readonly constraints: Constraint[][];
  readonly results: Taken[][];
  /** Claims that hold the device in this attempt. */
  readonly holders: (number[] | undefined)[] = [];
  /** Shares of the device that this attempt has made, even those that take nothing. */
  readonly shareCounts: (number | undefined)[] = [];
  readonly shareSums: (Map<string, bigint> | undefined)[] = [];
  /** By option: the devices of mode All. */
  readonly allLists: (number[] | undefined)[] = [];
  private readonly counters = new Map<Pool, { free: readonly bigint[]; used: bigint[] }>();
  private readonly verdicts: ((1 | 2 | undefined)[] | undefined)[] = [];
  private readonly tolerated: ((1 | 2 | undefined)[] | undefined)[] = [];
  private readonly consumptions: ((Consumption | undefined)[] | undefined)[] = [];

  constructor(input: AttemptInput) {
    this.input = input;
    this.claims = input.plan.claims;
    this.devices = input.pools.devices;
    this.constraints = this.claims.map(({ makeConstraints }) => makeConstraints());
    this.results = this.claims.map(() => []);
  }

  /** Computed before the search: the devices of mode All, and that the claim does not exceed its limit. */
  prepare(): void {
    for (const { claim, requests } of this.claims) {
      let needed = 0;
      for (const request of requests) {
        let least = Number.POSITIVE_INFINITY;
        for (const option of request.options) least = Math.min(least, this.needed(option, claim.metadata.name));
        needed += least;
      }
      if (needed > resultsMax) {
        const message = `claim ${claim.metadata.name}: ${needed} devices are needed, which exceeds the claim limit of ${resultsMax}`;
        throw new Failure(message, true);
      }
    }
  }

  private needed(option: PlannedOption, claim: string): number {
    if (!option.isAll) return option.count;
    for (const pool of this.input.pools.pools) {
      if (pool.state === "complete") continue;
      const state = pool.state === "incomplete" ? "is currently being updated" : "is currently invalid";
      const message = `claim ${claim}, request ${option.label}: asks for all devices, but resource pool ${pool.id} ${state}`;
      // Upstream fails the pod here. Muster fails only this node, because the pool is that of this node.
      throw new Failure(message, true);
    }
    const list: number[] = [];
    for (let at = 0; at < this.devices.length; at++) {
      if (!this.isSelected(option, at)) continue;
      if (this.input.features.consumableCapacity && this.consumption(option, at) === undefined) continue;
      list.push(at);
    }
    this.allLists[option.index] = list;
    return list.length;
  }

  isInUse(c: number, option: PlannedOption, at: number): boolean {
    const holders = this.holders[at];
    if (option.isAdmin) return holders?.includes(c) === true;
    if (holders !== undefined && holders.length > 0) return true;
    const { it } = this.devices[at] as PlacedDevice;
    const { state } = this.input;
    // Shares stay allocated when a device no longer allows sharing: it is not free while a claim has a share of it.
    return state.isTaken(it.key) || (!this.isShareable(it) && state.isShared(it.key));
  }

  isShareable(it: PoolDevice): boolean {
    return it.isShareable && this.input.features.consumableCapacity;
  }

  isSelected(option: PlannedOption, at: number): boolean {
    let verdicts = this.verdicts[option.index];
    if (verdicts === undefined) {
      verdicts = [];
      this.verdicts[option.index] = verdicts;
    }
    if (verdicts[at] === undefined) {
      const verdict = this.judge(option, at);
      if (typeof verdict === "string") throw new Failure(verdict);
      verdicts[at] = verdict ? 1 : 2;
    }
    return verdicts[at] === 1;
  }

  /** True, false, or throws the error of a selector: the author of the claim has to see it. */
  judge(option: PlannedOption, at: number): boolean | string {
    const { it } = this.devices[at] as PlacedDevice;
    if (!this.input.features.bindingConditions && it.device.bindingConditions !== undefined) return false;
    for (const selector of option.selectors) {
      const verdict = selector.matches(it);
      if (typeof verdict === "string") {
        return `request ${option.label}: device ${it.key}: ${selector.expression}: ${verdict}`;
      }
      if (!verdict) return false;
    }
    if (it.slice.spec.perDeviceNodeSelection !== true) return true;
    return placeMatches(it.device, this.input.pools.node);
  }

  /** The capacity that the option consumes of the device; undefined where the device cannot serve it. */
  consumption(option: PlannedOption, at: number): ReadonlyMap<string, Quantity> | undefined {
    let known = this.consumptions[option.index];
    if (known === undefined) {
      known = [];
      this.consumptions[option.index] = known;
    }
    let result = known[at];
    if (result === undefined) {
      const { it } = this.devices[at] as PlacedDevice;
      result = consumptionOf(it, option.capacity, this.input.features.fractionalCapacityRange);
      known[at] = result;
    }
    if (result.ok) return result.amounts;
    if (result.isFatal) {
      throw new Failure(
        `request ${option.label}: device ${(this.devices[at] as PlacedDevice).it.key}: ${result.message}`,
      );
    }
    return undefined;
  }

  hasRoom(option: PlannedOption, at: number): boolean {
    const { it } = this.devices[at] as PlacedDevice;
    if (it.device.capacity === undefined && option.capacity === undefined) return true;
    const amounts = this.consumption(option, at);
    if (amounts === undefined) return false;
    return amounts.size === 0 || fitsBeside(it, amounts, this.input.state.consumed(it.key), this.shareSums[at]);
  }

  toleratesDevice(option: PlannedOption, at: number): boolean {
    if (!this.input.features.deviceTaints) return true;
    const { taints } = (this.devices[at] as PlacedDevice).it.device;
    if (taints === undefined) return true;
    let known = this.tolerated[option.index];
    if (known === undefined) {
      known = [];
      this.tolerated[option.index] = known;
    }
    if (known[at] === undefined) known[at] = toleratesAll(option.tolerations, taints) ? 1 : 2;
    return known[at] === 1;
  }

  /** Allocates the device to the option, or does nothing. The returned function undoes it. */
  take(c: number, option: PlannedOption, at: number, must: boolean): (() => void) | undefined {
    const placed = this.devices[at] as PlacedDevice;
    const { it } = placed;
    const { features, state } = this.input;
    if (!(option.isAdmin && this.isShareable(it)) && this.isInUse(c, option, at)) return undefined;
    const consumesCounters = (it.device.consumesCounters?.length ?? 0) > 0;
    if (consumesCounters && !features.partitionableDevices) return undefined;
    // Counters are consumed by the first share of a device, not by further ones.
    const isPaid =
      this.isShareable(it) &&
      (state.consumed(it.key) !== undefined || state.isShared(it.key) || (this.shareCounts[at] ?? 0) > 0);
    const paysCounters = consumesCounters && !isPaid;
    if (paysCounters && !this.chargeCounters(placed)) return undefined;
    const refundCounters = (): void => {
      if (paysCounters) this.refundCounters(placed);
    };
    if (!this.toleratesDevice(option, at)) {
      refundCounters();
      return undefined;
    }
    const bound = this.constrain(c, option, placed);
    if (bound === undefined) {
      refundCounters();
      if (must) throw new Failure(`request ${option.label}: ${it.key}: a claim constraint would not be satisfied`);
      return undefined;
    }
    if (features.consumableCapacity && !this.hasRoom(option, at)) {
      for (const constraint of bound) constraint.drop();
      refundCounters();
      return undefined;
    }
    let consumed: ReadonlyMap<string, Quantity> | undefined;
    if (this.isShareable(it)) {
      this.shareCounts[at] = (this.shareCounts[at] ?? 0) + 1;
      consumed = this.consumption(option, at);
      this.addShare(at, consumed, 1n);
    } else {
      const holders = this.holders[at];
      if (holders === undefined) this.holders[at] = [c];
      else holders.push(c);
    }
    const results = this.results[c] as Taken[];
    results.push({ option, device: placed, consumed });
    return () => {
      results.pop();
      if (this.isShareable(it)) {
        this.shareCounts[at] = (this.shareCounts[at] ?? 0) - 1;
        this.addShare(at, consumed, -1n);
      } else this.holders[at]?.pop();
      for (const constraint of bound) constraint.drop();
      refundCounters();
    };
  }

  private addShare(at: number, amounts: ReadonlyMap<string, Quantity> | undefined, sign: bigint): void {
    if (amounts === undefined || amounts.size === 0) return;
    const sums = this.shareSums[at] ?? new Map<string, bigint>();
    for (const [name, { nano }] of amounts) sums.set(name, (sums.get(name) ?? 0n) + sign * nano);
    this.shareSums[at] = sums;
  }

  private constrain(c: number, option: PlannedOption, { it }: PlacedDevice): Constraint[] | undefined {
    const bound: Constraint[] = [];
    for (const constraint of this.constraints[c] as Constraint[]) {
      if (!constraint.appliesTo(option.request, option.label)) continue;
      if (!constraint.add(it)) {
        for (const each of bound) each.drop();
        return undefined;
      }
      bound.push(constraint);
    }
    return bound;
  }

  countersOf(pool: Pool): { free: readonly bigint[]; used: bigint[] } {
    let known = this.counters.get(pool);
    if (known === undefined) {
      const { totals = [], uses = new Map() } = pool.counters ?? {};
      const free = [...totals];
      const { state } = this.input;
      for (const [key, own] of uses) {
        if (!state.isTaken(key) && !state.isShared(key) && state.consumed(key) === undefined) continue;
        for (const { at, amount } of own) free[at] = (free[at] as bigint) - amount;
      }
      known = { free, used: totals.map(() => 0n) };
      this.counters.set(pool, known);
    }
    return known;
  }

  /** Every counter of the pool is checked: one that is overdrawn blocks all devices that use counters. */
  chargeCounters({ pool, uses = [] }: PlacedDevice): boolean {
    const { free, used } = this.countersOf(pool);
    for (const { at, amount } of uses) used[at] = (used[at] as bigint) + amount;
    if (free.every((left, at) => left >= (used[at] as bigint))) return true;
    for (const { at, amount } of uses) used[at] = (used[at] as bigint) - amount;
    return false;
  }

  refundCounters({ pool, uses = [] }: PlacedDevice): void {
    const { used } = this.countersOf(pool);
    for (const { at, amount } of uses) used[at] = (used[at] as bigint) - amount;
  }
}

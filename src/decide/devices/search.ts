/**
 * The search for devices: claims in the order given, requests and their alternatives as written, devices by place. The first
 * assignment in that order is the answer, which is Kubernetes' own order.
 *
 * The plain search can take time without end on a claim that has no answer. So it has a budget; when that is used up it begins again
 * with aids that only cut branches without an answer: a look ahead at what is left for every request, devices that nothing tells
 * apart tried once, and states between requests that failed before. The answer stays the same, and so does every error: where
 * an error may lie in a branch, nothing is cut.
 */

import { assert } from "../../model/assert.ts";
import { toleratesAll } from "../../model/deviceTaints.ts";
import type { Quantity } from "../../model/quantity.ts";
import type { AllocatedState } from "./allocatedState.ts";
import { type Consumption, consumptionOf, fitsBeside } from "./capacity.ts";
import type { ClaimPlan, PlannedClaim, PlannedOption } from "./claimPlan.ts";
import { attributeText, type Constraint } from "./constraints.ts";
import type { DeviceFeatures } from "./features.ts";
import type { PoolDevice } from "./poolDevice.ts";
import { type NodePools, type PlacedDevice, type Pool, placeMatches } from "./pools.ts";

/** Devices in one claim. */
export const resultsMax = 32;
/** How far the plain search goes before it asks for aids. */
const plainVisitsMax = 400;

/** A device given to a request. */
export interface Taken {
  readonly option: PlannedOption;
  readonly device: PlacedDevice;
  readonly consumed: ReadonlyMap<string, Quantity> | undefined;
}

export type SearchResult =
  | { readonly kind: "found"; readonly taken: readonly (readonly Taken[])[]; readonly visited: number }
  | { readonly kind: "none"; readonly visited: number }
  | { readonly kind: "failed"; readonly message: string; readonly isNodeLocal: boolean; readonly visited: number }
  | { readonly kind: "stopped"; readonly why: string; readonly visited: number };

export interface SearchInput {
  readonly plan: ClaimPlan;
  readonly pools: NodePools;
  readonly state: AllocatedState;
  readonly features: DeviceFeatures;
  /** Asked at every step; a text ends the search. */
  readonly stop?: () => string | undefined;
  /** For tests: the search without aids, or with them from the start. */
  readonly aids?: "never" | "always";
}

export function search(input: SearchInput): SearchResult {
  const aids = input.aids ?? "later";
  let spent = 0;
  if (aids !== "always") {
    const plain = new Search(input, false, aids === "never" ? Number.POSITIVE_INFINITY : plainVisitsMax);
    const result = plain.run();
    if (result !== undefined) return result;
    spent = plain.visited;
  }
  const result = new Search(input, true, Number.POSITIVE_INFINITY).run();
  assert(result !== undefined, "a search without a budget ends");
  return { ...result, visited: result.visited + spent };
}

/** Ends a search at once; not an Error, because nobody reads its stack. */
class Failure {
  readonly message: string;
  readonly isNodeLocal: boolean;
  constructor(message: string, isNodeLocal = false) {
    this.message = message;
    this.isNodeLocal = isNodeLocal;
  }
}

class Stopped {
  readonly why: string;
  constructor(why: string) {
    this.why = why;
  }
}

class OverBudget {}

type Step = "no" | "yes" | "tooMany";

class Search {
  visited = 0;
  private readonly visitsMax: number;
  private readonly input: SearchInput;
  private readonly claims: readonly PlannedClaim[];
  private readonly devices: readonly PlacedDevice[];
  private readonly constraints: Constraint[][];
  private readonly results: Taken[][];
  /** Claims that hold the device in this attempt. */
  private readonly holders: (number[] | undefined)[] = [];
  /** Shares of the device that this attempt has made, even those that take nothing. */
  private readonly shareCounts: (number | undefined)[] = [];
  private readonly shareSums: (Map<string, bigint> | undefined)[] = [];
  private readonly counters = new Map<Pool, { free: readonly bigint[]; used: bigint[] }>();
  private readonly verdicts: ((1 | 2 | undefined)[] | undefined)[] = [];
  private readonly tolerated: ((1 | 2 | undefined)[] | undefined)[] = [];
  private readonly consumptions: ((Consumption | undefined)[] | undefined)[] = [];
  private readonly allLists: (number[] | undefined)[] = [];
  private readonly aids: Aids | undefined;

  constructor(input: SearchInput, withAids: boolean, visitsMax: number) {
    this.input = input;
    this.visitsMax = visitsMax;
    this.claims = input.plan.claims;
    this.devices = input.pools.devices;
    this.constraints = this.claims.map(({ makeConstraints }) => makeConstraints());
    this.results = this.claims.map(() => []);
    this.aids = withAids ? new Aids(this.devices.length) : undefined;
  }

  /** Undefined when the budget is used up. */
  run(): SearchResult | undefined {
    try {
      this.prepare();
      if (this.aids !== undefined) this.prepareAids(this.aids);
      if (this.step(0, 0, -1, 0, 0) === "yes") {
        return { kind: "found", taken: this.results, visited: this.visited };
      }
      const invalid = this.input.pools.pools.filter(({ state }) => state === "invalid");
      if (invalid.length > 0) {
        const names = invalid.map(({ id, why }) => `${id} (${why ?? "invalid"})`).join(", ");
        const message = `invalid resource pools were encountered: ${names}`;
        return { kind: "failed", message, isNodeLocal: true, visited: this.visited };
      }
      return { kind: "none", visited: this.visited };
    } catch (error) {
      const { visited } = this;
      if (error instanceof OverBudget) return undefined;
      if (error instanceof Stopped) return { kind: "stopped", why: error.why, visited };
      if (!(error instanceof Failure)) throw error;
      return { kind: "failed", message: error.message, isNodeLocal: error.isNodeLocal, visited };
    }
  }

  /** What is known before anything is tried: which devices mode All means, and that the claim is not too large. */
  private prepare(): void {
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
      // Upstream ends the pod's whole attempt here. It is a fact about this node alone.
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

  /**
   * One step: device number `d` of request `r` of claim `c`, not before the place `start`. `s` is the alternative, or -1
   * while none has been chosen.
   */
  private step(c: number, r: number, s: number, d: number, start: number): Step {
    this.visited++;
    if (this.visited > this.visitsMax) throw new OverBudget();
    const why = this.input.stop?.();
    if (why !== undefined) throw new Stopped(why);
    const claim = this.claims[c];
    if (claim === undefined) return "yes";
    const request = claim.requests[r];
    if (request === undefined) {
      const next = this.step(c + 1, 0, -1, 0, 0);
      return next === "tooMany" ? "no" : next;
    }
    const { aids } = this;
    if (aids !== undefined && s < 0 && d === 0 && aids.isActive) {
      const key = this.stateKey(aids, c, r);
      if (key !== undefined) {
        if (aids.failed.has(key)) return "no";
        const result = request.isList ? this.alternatives(c, r) : this.inOption(c, r, 0, d, start);
        if (result === "no") aids.failed.add(key);
        return result;
      }
    }
    if (request.isList && s < 0) return this.alternatives(c, r);
    return this.inOption(c, r, Math.max(s, 0), d, start);
  }

  private alternatives(c: number, r: number): Step {
    const { options } = (this.claims[c] as PlannedClaim).requests[r] as PlannedClaim["requests"][number];
    let allTooMany = true;
    for (let s = 0; s < options.length; s++) {
      const result = this.step(c, r, s, 0, 0);
      if (result === "yes") return "yes";
      if (result === "no") allTooMany = false;
    }
    return allTooMany ? "tooMany" : "no";
  }

  private inOption(c: number, r: number, s: number, d: number, start: number): Step {
    const request = (this.claims[c] as PlannedClaim).requests[r] as PlannedClaim["requests"][number];
    const option = request.options[s] as PlannedOption;
    const list = this.allLists[option.index];
    const needed = list === undefined ? option.count : list.length;
    if (list !== undefined && needed === 0) return "no";
    if (d >= needed) return this.step(c, r + 1, -1, 0, 0);
    const results = this.results[c] as Taken[];
    if (results.length + needed - d > resultsMax) return "tooMany";
    if (this.aids?.isActive === true && this.isHopeless(c, r, s, d, start)) return "no";
    if (list !== undefined) {
      const at = list[d] as number;
      const undo = this.take(c, option, at, true);
      if (undo === undefined) return "no";
      const result = this.within(c, r, s, d + 1, 0);
      if (result !== "yes") undo();
      return result;
    }
    const tried = this.aids?.isActive === true ? new Set<number>() : undefined;
    for (let at = start; at < this.devices.length; at++) {
      if (this.isInUse(c, option, at)) continue;
      if (!this.isSelected(option, at)) continue;
      if (this.input.features.consumableCapacity && !this.hasRoom(option, at)) continue;
      const alike = tried === undefined ? undefined : this.likeness(at);
      if (alike !== undefined && tried?.has(alike) === true) continue;
      const undo = this.take(c, option, at, false);
      if (undo !== undefined) {
        const result = this.within(c, r, s, d + 1, at + 1);
        if (result === "yes") return "yes";
        undo();
        if (result === "tooMany") return "tooMany";
      }
      if (alike !== undefined) tried?.add(alike);
    }
    return "no";
  }

  /** The next device of the same request: counted as a step like any other. */
  private within(c: number, r: number, s: number, d: number, start: number): Step {
    this.visited++;
    if (this.visited > this.visitsMax) throw new OverBudget();
    const why = this.input.stop?.();
    if (why !== undefined) throw new Stopped(why);
    return this.inOption(c, r, s, d, start);
  }

  private isInUse(c: number, option: PlannedOption, at: number): boolean {
    const holders = this.holders[at];
    if (option.isAdmin) return holders?.includes(c) === true;
    if (holders !== undefined && holders.length > 0) return true;
    const { it } = this.devices[at] as PlacedDevice;
    const { state } = this.input;
    // Shares outlive the permission to share: a device that became dedicated is not free while somebody has a part of it.
    return state.isTaken(it.key) || (!this.isShareable(it) && state.isShared(it.key));
  }

  private isShareable(it: PoolDevice): boolean {
    return it.isShareable && this.input.features.consumableCapacity;
  }

  private isSelected(option: PlannedOption, at: number): boolean {
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

  /** True, false, or the mistake in a selector that ends everything: hiding it would hide it from who made it. */
  private judge(option: PlannedOption, at: number): boolean | string {
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

  /** What the option takes of the device; undefined where the device cannot serve it. */
  private consumption(option: PlannedOption, at: number): ReadonlyMap<string, Quantity> | undefined {
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

  private hasRoom(option: PlannedOption, at: number): boolean {
    const { it } = this.devices[at] as PlacedDevice;
    if (it.device.capacity === undefined && option.capacity === undefined) return true;
    const amounts = this.consumption(option, at);
    if (amounts === undefined) return false;
    return amounts.size === 0 || fitsBeside(it, amounts, this.input.state.consumed(it.key), this.shareSums[at]);
  }

  private toleratesDevice(option: PlannedOption, at: number): boolean {
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

  /** Gives the device to the option, or does nothing. What it returns takes back exactly what was done. */
  private take(c: number, option: PlannedOption, at: number, must: boolean): (() => void) | undefined {
    const placed = this.devices[at] as PlacedDevice;
    const { it } = placed;
    const { features, state } = this.input;
    if (!(option.isAdmin && this.isShareable(it)) && this.isInUse(c, option, at)) return undefined;
    const consumesCounters = (it.device.consumesCounters?.length ?? 0) > 0;
    if (consumesCounters && !features.partitionableDevices) return undefined;
    // A further share of a device that is shared already was paid for by the first one.
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

  private countersOf(pool: Pool): { free: readonly bigint[]; used: bigint[] } {
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

  /** Every counter of the pool is looked at: one that is overdrawn stops all who use any. */
  private chargeCounters({ pool, uses = [] }: PlacedDevice): boolean {
    const { free, used } = this.countersOf(pool);
    for (const { at, amount } of uses) used[at] = (used[at] as bigint) + amount;
    if (free.every((left, at) => left >= (used[at] as bigint))) return true;
    for (const { at, amount } of uses) used[at] = (used[at] as bigint) - amount;
    return false;
  }

  private refundCounters({ pool, uses = [] }: PlacedDevice): void {
    const { used } = this.countersOf(pool);
    for (const { at, amount } of uses) used[at] = (used[at] as bigint) - amount;
  }

  // From here on: the aids.

  /** Decides whether cutting is sound at all, and which devices nothing tells apart. */
  private prepareAids(aids: Aids): void {
    const { options } = this.input.plan;
    const { features, state } = this.input;
    for (const { requests, hasConstraints } of this.claims) {
      // Mode All fails for good on a constraint: a branch that is cut might have shown that.
      if (hasConstraints && requests.some((each) => each.options.some(({ isAll }) => isAll))) return;
    }
    const attributes = new Set(this.constraints.flat().map(({ attribute }) => attribute));
    const ids = new Map<string, number>();
    for (let at = 0; at < this.devices.length; at++) {
      const { it, pool, uses } = this.devices[at] as PlacedDevice;
      const parts: unknown[] = [];
      for (const option of options) {
        const verdict = this.judge(option, at);
        if (typeof verdict === "string") return;
        parts.push(verdict && this.toleratesDevice(option, at));
        if (!features.consumableCapacity || !verdict) continue;
        try {
          this.consumption(option, at);
        } catch {
          return;
        }
      }
      for (const attribute of attributes) parts.push(attributeText(it.attribute(attribute)) ?? null);
      parts.push(this.isShareable(it), state.isTaken(it.key), state.isShared(it.key));
      if (uses !== undefined)
        parts.push(
          pool.id,
          uses.map(({ at: counter, amount }) => `${counter}:${amount}`),
        );
      if (it.device.capacity !== undefined) {
        parts.push(it.device.capacity);
        for (const [name, sum] of state.consumed(it.key) ?? []) parts.push(name, String(sum));
      }
      const key = JSON.stringify(parts);
      let id = ids.get(key);
      if (id === undefined) {
        id = ids.size;
        ids.set(key, id);
      }
      aids.likeness[at] = id;
    }
    aids.kinds = ids.size;
    aids.hasAdmin = options.some(({ isAdmin }) => isAdmin);
    aids.isActive = true;
  }

  /**
   * Devices with the same number can stand for each other. If there were an answer with the second one here, then the first one in its
   * place, and the second one wherever the first was used, would be an answer too, and it would have been found.
   */
  private likeness(at: number): number | undefined {
    if ((this.holders[at]?.length ?? 0) > 0 || (this.shareCounts[at] ?? 0) > 0) return undefined;
    return this.aids?.likeness[at];
  }

  /** Everything that the rest of the search depends on, when it stands between two requests. */
  private stateKey(aids: Aids, c: number, r: number): string | undefined {
    // What an administrator looks at stays usable for others: which claim holds what would have to be in the key.
    if (aids.hasAdmin) return undefined;
    const used = new Int32Array(aids.kinds);
    const shares: string[] = [];
    for (let at = 0; at < this.devices.length; at++) {
      if ((this.holders[at]?.length ?? 0) > 0) {
        const kind = aids.likeness[at] as number;
        used[kind] = (used[kind] as number) + 1;
      }
      if ((this.shareCounts[at] ?? 0) > 0) {
        const sums = [...(this.shareSums[at] ?? [])].map(([name, sum]) => `${name}=${sum}`).join("+");
        shares.push(`${at}:${this.shareCounts[at]}:${sums}`);
      }
    }
    const constraints = (this.constraints[c] as Constraint[]).map((each) => each.stateKey()).join(";");
    return `${c},${r},${this.results[c]?.length};${used.join(",")};${shares.join(",")};${constraints}`;
  }

  /** Whether some request that is still open cannot get what it needs, whatever is chosen now. */
  private isHopeless(c: number, r: number, s: number, d: number, start: number): boolean {
    const union = new Set<number>();
    let exclusive = 0;
    let hasShares = false;
    for (let ci = c; ci < this.claims.length; ci++) {
      const { requests } = this.claims[ci] as PlannedClaim;
      for (let ri = ci === c ? r : 0; ri < requests.length; ri++) {
        const request = requests[ri] as PlannedClaim["requests"][number];
        const isCurrent = ci === c && ri === r;
        const options = isCurrent ? [request.options[s] as PlannedOption] : request.options;
        let least = Number.POSITIVE_INFINITY;
        for (const option of options) {
          const list = this.allLists[option.index];
          const needed = (list === undefined ? option.count : list.length) - (isCurrent ? d : 0);
          const usable = this.usable(ci, option, isCurrent && list === undefined ? start : 0, union);
          if (usable.shares) hasShares = true;
          if (list === undefined ? usable.most >= needed : needed > 0) least = Math.min(least, needed);
        }
        if (least === Number.POSITIVE_INFINITY) return true;
        if (!options.some(({ isAdmin, isAll }) => isAdmin || isAll)) exclusive += least;
      }
    }
    return !hasShares && exclusive > union.size;
  }

  /** How many devices the option could get at most, and which; constraints count as far as they are fixed. */
  private usable(
    c: number,
    option: PlannedOption,
    start: number,
    union: Set<number>,
  ): { most: number; shares: boolean } {
    const constraints = (this.constraints[c] as Constraint[]).filter((each) =>
      each.appliesTo(option.request, option.label),
    );
    const groups = constraints.map(() => new Map<string, number>());
    let most = 0;
    let shares = false;
    let budget: { pool: Pool; costs: bigint[][] } | undefined;
    let isOnePool = true;
    for (let at = start; at < this.devices.length; at++) {
      if (this.isInUse(c, option, at) || !this.isSelected(option, at) || !this.toleratesDevice(option, at)) continue;
      if (this.input.features.consumableCapacity && !this.hasRoom(option, at)) continue;
      const placed = this.devices[at] as PlacedDevice;
      if (!constraints.every((each) => each.admits(placed.it))) continue;
      if (this.isShareable(placed.it)) shares = true;
      const isCharged = placed.uses !== undefined && !this.isShareable(placed.it);
      if (isCharged) {
        if (!this.chargeCounters(placed)) continue;
        this.refundCounters(placed);
        if (budget !== undefined && budget.pool !== placed.pool) isOnePool = false;
        budget ??= { pool: placed.pool, costs: [] };
        const { totals = [] } = placed.pool.counters ?? {};
        const costs = totals.map(() => 0n);
        for (const { at: counter, amount } of placed.uses ?? []) costs[counter] = (costs[counter] ?? 0n) + amount;
        budget.costs.push(costs);
      } else isOnePool = false;
      most++;
      union.add(at);
      for (const [i, each] of constraints.entries()) {
        const text = attributeText(placed.it.attribute(each.attribute)) ?? "";
        groups[i]?.set(text, (groups[i]?.get(text) ?? 0) + 1);
      }
    }
    for (const [i, each] of constraints.entries()) {
      const sizes = groups[i] as Map<string, number>;
      most = Math.min(most, each.isDistinct ? sizes.size : Math.max(0, ...sizes.values()));
    }
    if (budget !== undefined && isOnePool) most = Math.min(most, this.affordable(budget.pool, budget.costs));
    return { most, shares };
  }

  /** How many of the cheapest devices each counter could pay for. */
  private affordable(pool: Pool, costs: readonly bigint[][]): number {
    const { free, used } = this.countersOf(pool);
    let most = costs.length;
    for (let counter = 0; counter < free.length; counter++) {
      const prices = costs.map((each) => each[counter] as bigint).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
      let left = (free[counter] as bigint) - (used[counter] as bigint);
      let count = 0;
      for (const price of prices) {
        if (price > left) break;
        left -= price;
        count++;
      }
      most = Math.min(most, count);
    }
    return most;
  }
}

/** What the aids know. They stay off where cutting could hide an error. */
class Aids {
  isActive = false;
  hasAdmin = false;
  kinds = 0;
  readonly likeness: Int32Array;
  readonly failed = new Set<string>();

  constructor(devices: number) {
    this.likeness = new Int32Array(devices);
  }
}

/**
 * Pruning for a long search. A branch is cut only where it certainly has no solution: an open request cannot get enough
 * devices any more, an equivalent device was tried, or the same state between requests failed before.
 */
import type { Attempt } from "./attempt.ts";
import type { PlannedClaim, PlannedOption } from "./claimPlan.ts";
import { attributeText, type Constraint } from "./constraints.ts";
import type { PlacedDevice, Pool } from "./pools.ts";

export class LookAhead {
  /** States between requests from which no solution was found. */
  readonly failed = new Set<string>();
  /** Disabled where cutting could hide an error. */
  isActive = false;
  private readonly attempt: Attempt;
  private readonly numbers: number[] = [];
  private hasAdmin = false;
  private kinds = 0;

  constructor(attempt: Attempt) {
    this.attempt = attempt;
    this.prepare();
  }

  /** Computes whether cutting is sound, and which devices are equivalent. */
  private prepare(): void {
    const { options } = this.attempt.input.plan;
    const { features, state } = this.attempt.input;
    for (const { requests, hasConstraints } of this.attempt.claims) {
      // Mode All fails the claim on a constraint: a cut branch could have that error.
      if (hasConstraints && requests.some((each) => each.options.some(({ isAll }) => isAll))) return;
    }
    const attributes = new Set(this.attempt.constraints.flat().map(({ attribute }) => attribute));
    const ids = new Map<string, number>();
    for (let at = 0; at < this.attempt.devices.length; at++) {
      const { it, pool, uses } = this.attempt.devices[at] as PlacedDevice;
      const parts: unknown[] = [];
      for (const option of options) {
        const verdict = this.attempt.judge(option, at);
        if (typeof verdict === "string") return;
        parts.push(verdict && this.attempt.toleratesDevice(option, at));
        if (!features.consumableCapacity || !verdict) continue;
        try {
          this.attempt.consumption(option, at);
        } catch {
          return;
        }
      }
      for (const attribute of attributes) parts.push(attributeText(it.attribute(attribute)) ?? null);
      parts.push(this.attempt.isShareable(it), state.isTaken(it.key), state.isShared(it.key));
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
      this.numbers[at] = id;
    }
    this.kinds = ids.size;
    this.hasAdmin = options.some(({ isAdmin }) => isAdmin);
    this.isActive = true;
  }

  /**
   * Devices with the same number are equivalent. A solution with the second one here would also be a solution with the
   * two exchanged, and that one would have been found already.
   */
  likeness(at: number): number | undefined {
    if ((this.attempt.holders[at]?.length ?? 0) > 0 || (this.attempt.shareCounts[at] ?? 0) > 0) return undefined;
    return this.numbers[at];
  }

  /** The state on which the rest of the search depends, between two requests. */
  stateKey(c: number, r: number): string | undefined {
    // Devices with admin access stay usable for others: the key would have to contain which claim holds which device.
    if (this.hasAdmin) return undefined;
    const used = new Int32Array(this.kinds);
    const shares: string[] = [];
    for (let at = 0; at < this.attempt.devices.length; at++) {
      if ((this.attempt.holders[at]?.length ?? 0) > 0) {
        const kind = this.numbers[at] as number;
        used[kind] = (used[kind] as number) + 1;
      }
      if ((this.attempt.shareCounts[at] ?? 0) > 0) {
        const sums = [...(this.attempt.shareSums[at] ?? [])].map(([name, sum]) => `${name}=${sum}`).join("+");
        shares.push(`${at}:${this.attempt.shareCounts[at]}:${sums}`);
      }
    }
    const constraints = (this.attempt.constraints[c] as Constraint[]).map((each) => each.stateKey()).join(";");
    return `${c},${r},${this.attempt.results[c]?.length};${used.join(",")};${shares.join(",")};${constraints}`;
  }

  /** Whether some request that is still open cannot get what it needs, whatever is chosen now. */
  isHopeless(c: number, r: number, s: number, d: number, start: number): boolean {
    const union = new Set<number>();
    let exclusive = 0;
    let hasShares = false;
    for (let ci = c; ci < this.attempt.claims.length; ci++) {
      const { requests } = this.attempt.claims[ci] as PlannedClaim;
      for (let ri = ci === c ? r : 0; ri < requests.length; ri++) {
        const request = requests[ri] as PlannedClaim["requests"][number];
        const isCurrent = ci === c && ri === r;
        const options = isCurrent ? [request.options[s] as PlannedOption] : request.options;
        let least = Number.POSITIVE_INFINITY;
        for (const option of options) {
          const list = this.attempt.allLists[option.index];
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
    const constraints = (this.attempt.constraints[c] as Constraint[]).filter((each) =>
      each.appliesTo(option.request, option.label),
    );
    const groups = constraints.map(() => new Map<string, number>());
    let most = 0;
    let shares = false;
    let budget: { pool: Pool; costs: bigint[][] } | undefined;
    let isOnePool = true;
    for (let at = start; at < this.attempt.devices.length; at++) {
      if (
        this.attempt.isInUse(c, option, at) ||
        !this.attempt.isSelected(option, at) ||
        !this.attempt.toleratesDevice(option, at)
      )
        continue;
      if (this.attempt.input.features.consumableCapacity && !this.attempt.hasRoom(option, at)) continue;
      const placed = this.attempt.devices[at] as PlacedDevice;
      if (!constraints.every((each) => each.admits(placed.it))) continue;
      if (this.attempt.isShareable(placed.it)) shares = true;
      const isCharged = placed.uses !== undefined && !this.attempt.isShareable(placed.it);
      if (isCharged) {
        if (!this.attempt.chargeCounters(placed)) continue;
        this.attempt.refundCounters(placed);
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

  /** How many of the cheapest devices each counter allows. */
  private affordable(pool: Pool, costs: readonly bigint[][]): number {
    const { free, used } = this.attempt.countersOf(pool);
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

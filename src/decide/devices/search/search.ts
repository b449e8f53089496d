/**
 * The search for devices: claims in the given order, requests and their alternatives in the order of the spec, devices
 * in the order of the node. The first assignment in that order is the result, as in Kubernetes.
 *
 * The plain search can take exponential time on a claim without a solution. So it has a budget; when that is used up it
 * starts again with pruning, which only cuts branches without a solution. The result stays the same, and so does every
 * error: a branch that may contain an error is not cut.
 */
import { assert } from "../../../model/assert.ts";
import { Attempt, type AttemptInput, Failure, resultsMax, type Taken } from "./attempt.ts";
import type { PlannedClaim, PlannedOption } from "./claimPlan.ts";
import { LookAhead } from "./lookAhead.ts";

/** The number of steps of the plain search before pruning is used. */
const plainVisitsMax = 400;

export type SearchResult =
  | { readonly kind: "found"; readonly taken: readonly (readonly Taken[])[]; readonly visited: number }
  | { readonly kind: "none"; readonly visited: number }
  | { readonly kind: "failed"; readonly message: string; readonly isNodeLocal: boolean; readonly visited: number }
  | { readonly kind: "stopped"; readonly why: string; readonly visited: number };

export interface SearchInput extends AttemptInput {
  /** Called at every step; a text ends the search. */
  readonly stop?: () => string | undefined;
  /** For tests: the search without pruning, or with pruning from the start. */
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
  private readonly input: SearchInput;
  private readonly visitsMax: number;
  private readonly attempt: Attempt;
  private readonly withAids: boolean;
  private aids: LookAhead | undefined;

  constructor(input: SearchInput, withAids: boolean, visitsMax: number) {
    this.input = input;
    this.visitsMax = visitsMax;
    this.withAids = withAids;
    this.attempt = new Attempt(input);
  }

  /** Undefined when the budget is used up. */
  run(): SearchResult | undefined {
    try {
      this.attempt.prepare();
      if (this.withAids) this.aids = new LookAhead(this.attempt);
      if (this.step(0, 0, -1, 0, 0) === "yes") {
        return { kind: "found", taken: this.attempt.results, visited: this.visited };
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

  /**
   * One step: device number `d` of request `r` of claim `c`, from the index `start` on. `s` is the alternative, or -1
   * while none has been chosen.
   */
  private step(c: number, r: number, s: number, d: number, start: number): Step {
    this.visited++;
    if (this.visited > this.visitsMax) throw new OverBudget();
    const why = this.input.stop?.();
    if (why !== undefined) throw new Stopped(why);
    const claim = this.attempt.claims[c];
    if (claim === undefined) return "yes";
    const request = claim.requests[r];
    if (request === undefined) {
      const next = this.step(c + 1, 0, -1, 0, 0);
      return next === "tooMany" ? "no" : next;
    }
    const { aids } = this;
    if (aids !== undefined && s < 0 && d === 0 && aids.isActive) {
      const key = aids.stateKey(c, r);
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
    const { options } = (this.attempt.claims[c] as PlannedClaim).requests[r] as PlannedClaim["requests"][number];
    let allTooMany = true;
    for (let s = 0; s < options.length; s++) {
      const result = this.step(c, r, s, 0, 0);
      if (result === "yes") return "yes";
      if (result === "no") allTooMany = false;
    }
    return allTooMany ? "tooMany" : "no";
  }

  private inOption(c: number, r: number, s: number, d: number, start: number): Step {
    const request = (this.attempt.claims[c] as PlannedClaim).requests[r] as PlannedClaim["requests"][number];
    const option = request.options[s] as PlannedOption;
    const list = this.attempt.allLists[option.index];
    const needed = list === undefined ? option.count : list.length;
    if (list !== undefined && needed === 0) return "no";
    if (d >= needed) return this.step(c, r + 1, -1, 0, 0);
    const results = this.attempt.results[c] as Taken[];
    if (results.length + needed - d > resultsMax) return "tooMany";
    if (this.aids?.isActive === true && this.aids.isHopeless(c, r, s, d, start)) return "no";
    if (list !== undefined) {
      const at = list[d] as number;
      const undo = this.attempt.take(c, option, at, true);
      if (undo === undefined) return "no";
      const result = this.within(c, r, s, d + 1, 0);
      if (result !== "yes") undo();
      return result;
    }
    const tried = this.aids?.isActive === true ? new Set<number>() : undefined;
    for (let at = start; at < this.attempt.devices.length; at++) {
      if (this.attempt.isInUse(c, option, at)) continue;
      if (!this.attempt.isSelected(option, at)) continue;
      if (this.input.features.consumableCapacity && !this.attempt.hasRoom(option, at)) continue;
      const alike = tried === undefined ? undefined : this.aids?.likeness(at);
      if (alike !== undefined && tried?.has(alike) === true) continue;
      const undo = this.attempt.take(c, option, at, false);
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
}

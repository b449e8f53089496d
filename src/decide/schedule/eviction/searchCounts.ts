import type { Generator } from "./searchBudget.ts";

/** How the search for one job ended, as in KAI's metrics. */
export type SearchEnd = "solved" | "generators_exhausted" | "deadline_exhausted" | "no_generator" | "not_attempted";

/** The victim sets that were considered, by result. */
export interface ScenarioCounts {
  emitted: number;
  simulated: number;
  /** Enough resources, but not fair. */
  rejected: number;
}

/** The counts of the victim searches of an action. */
export class SearchCounts {
  readonly scenarios: Readonly<Record<Generator, ScenarioCounts>> = {
    NodeLocalGreedy: { emitted: 0, simulated: 0, rejected: 0 },
    MultiNodeGang: { emitted: 0, simulated: 0, rejected: 0 },
  };
  /** Sets that were discarded without a simulation. */
  filtered = 0;
  /** Whether the action ended before all jobs were tried. */
  isCutShort = false;
  private readonly ends: { end: SearchEnd; isReduced: boolean; count: number }[] = [];

  ended(end: SearchEnd, isReduced = false): void {
    const known = this.ends.find((each) => each.end === end && each.isReduced === isReduced);
    if (known === undefined) this.ends.push({ end, isReduced, count: 1 });
    else known.count++;
  }

  /** Jobs by how their search ended. */
  get jobs(): readonly { readonly end: SearchEnd; readonly isReduced: boolean; readonly count: number }[] {
    return this.ends;
  }

  get solved(): number {
    return this.countOf("solved");
  }

  /** Searches without a result, complete or with an exhausted budget. */
  get failed(): number {
    return this.countOf("generators_exhausted") + this.countOf("deadline_exhausted") + this.countOf("no_generator");
  }

  get simulated(): number {
    return this.scenarios.NodeLocalGreedy.simulated + this.scenarios.MultiNodeGang.simulated;
  }

  private countOf(end: SearchEnd): number {
    let sum = 0;
    for (const each of this.ends) if (each.end === end) sum += each.count;
    return sum;
  }
}

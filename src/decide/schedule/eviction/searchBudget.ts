import type { ActionName } from "../settings.ts";

/**
 * The bounds of a victim search. KAI stops by the clock; here a second of its budgets is a number of attempts, so that
 * a decision can be replayed.
 */
export const attemptsPerSecond = 100;

export type EvictingAction = Extract<ActionName, "consolidation" | "reclaim" | "preempt">;
export const evictingActions: readonly EvictingAction[] = ["consolidation", "reclaim", "preempt"];

/** How victim sets are generated: node by node with as little disruption as possible, or all nodes together. */
export type Generator = "NodeLocalGreedy" | "MultiNodeGang";
export const generators: readonly Generator[] = ["NodeLocalGreedy", "MultiNodeGang"];

/** In milliseconds; zero is unbounded. */
export interface SearchBudgets {
  readonly actionMs: Readonly<Record<EvictingAction, number>>;
  readonly jobMs: number;
  /** The budget of a job even if its action has exhausted its own. */
  readonly jobMinMs: number;
  /** For one job. */
  readonly generatorMs: Readonly<Record<Generator, number>>;
}

export const defaultSearchBudgets: SearchBudgets = {
  actionMs: { consolidation: 300_000, reclaim: 300_000, preempt: 300_000 },
  jobMs: 240_000,
  jobMinMs: 0,
  generatorMs: { NodeLocalGreedy: 30_000, MultiNodeGang: 120_000 },
};

/** The attempts of one action in one cycle. */
export class ActionBudget {
  private readonly budgets: SearchBudgets;
  private left: number;

  constructor(budgets: SearchBudgets, action: EvictingAction) {
    this.budgets = budgets;
    this.left = attemptsIn(budgets.actionMs[action]);
  }

  /** Whether no budget is left for further jobs. */
  get isSpent(): boolean {
    return this.left <= 0;
  }

  /** The budget of the next job; undefined if the action ends. */
  beginJob(): JobBudget | undefined {
    const { jobMs, jobMinMs, generatorMs } = this.budgets;
    const most = attemptsIn(jobMs);
    const least = jobMinMs === 0 ? 0 : attemptsIn(jobMinMs);
    const allowed = Math.min(most, Math.max(this.left, least));
    if (allowed <= 0) return undefined;
    return new JobBudget(allowed, allowed < most, generatorMs, () => this.left--);
  }
}

/** The attempts of one job. */
export class JobBudget {
  /** Whether the job got less than the full budget of a job. */
  readonly isReduced: boolean;
  /** Whether an attempt was not made because the budget is exhausted. */
  isSpent = false;
  private left: number;
  private readonly ofGenerator: Record<Generator, number>;
  private readonly onAttempt: () => void;

  constructor(
    allowed: number,
    isReduced: boolean,
    generatorMs: Readonly<Record<Generator, number>>,
    onAttempt: () => void,
  ) {
    this.left = allowed;
    this.isReduced = isReduced;
    this.ofGenerator = {
      NodeLocalGreedy: attemptsIn(generatorMs.NodeLocalGreedy),
      MultiNodeGang: attemptsIn(generatorMs.MultiNodeGang),
    };
    this.onAttempt = onAttempt;
  }

  /** Takes one attempt; false when there is none left. */
  takeFor(generator: Generator): boolean {
    if (this.left <= 0 || this.ofGenerator[generator] <= 0) {
      this.isSpent = true;
      return false;
    }
    this.left--;
    this.ofGenerator[generator]--;
    this.onAttempt();
    return true;
  }
}

function attemptsIn(ms: number): number {
  return ms === 0 ? Number.POSITIVE_INFINITY : Math.max(1, Math.floor((ms * attemptsPerSecond) / 1000));
}

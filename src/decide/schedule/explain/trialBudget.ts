import type { Session } from "../session.ts";

/**
 * The budget of a cycle; checking a node costs one. A cycle that explains thousands of pods must not take much longer
 * than one that places them.
 */
const trialsMax = 300_000;

/** Removing a pod from its node and restoring it costs as much as checking this many nodes. */
export const removalCost = 20;

/** Bounds the trials of one cycle that search for changes that would let pending jobs run. */
export class TrialBudget {
  private left = trialsMax;

  get isSpent(): boolean {
    return this.left <= 0;
  }

  /** False once the budget is used up. */
  spend(amount: number): boolean {
    this.left -= amount;
    return this.left > 0;
  }
}

const budgets = new WeakMap<Session, TrialBudget>();

export function trialBudgetOf(session: Session): TrialBudget {
  let budget = budgets.get(session);
  if (budget === undefined) {
    budget = new TrialBudget();
    budgets.set(session, budget);
  }
  return budget;
}

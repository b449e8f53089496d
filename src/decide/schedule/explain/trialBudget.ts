import type { Session } from "../session.ts";

/**
 * Looking at a node costs one; a cycle that explains thousands of pods must not take much longer than one that places
 * them.
 */
const trialsMax = 300_000;

/** Taking a pod off its node and putting it back costs as much as looking at this many nodes. */
export const liftCost = 20;

/** How much may be tried to find out what would make those run that wait, in one cycle. */
export class TrialBudget {
  private left = trialsMax;

  get isSpent(): boolean {
    return this.left <= 0;
  }

  /** False when there is not enough left. */
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

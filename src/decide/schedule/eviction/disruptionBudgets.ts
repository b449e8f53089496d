import type { PodDisruptionBudget } from "../../../model/kubernetes.generated.ts";
import {
  type LabelSelector,
  matchesLabels,
  matchNothing,
  selectorRequirements,
} from "../../../model/objects/labelSelector.ts";
import type { Task } from "../cluster/task.ts";

/**
 * PodDisruptionBudgets. Preemption by Kubernetes' rules avoids victims that a budget protects where it can, and evicts
 * them where it must.
 */
export class DisruptionBudgets {
  readonly byKey = new Map<string, PodDisruptionBudget>();

  /** The tasks whose eviction, after those before them, would violate a budget. */
  guarded(tasks: readonly Task[]): ReadonlySet<Task> {
    const guarded = new Set<Task>();
    if (this.byKey.size === 0) return guarded;
    const budgets = [...this.byKey.values()].map((budget) => ({
      namespace: budget.metadata.namespace ?? "",
      // An empty selector is every pod of the namespace, none is none.
      requirements:
        budget.spec?.selector == null ? matchNothing : selectorRequirements(budget.spec.selector as LabelSelector),
      // Terminating pods are counted already.
      disrupted: budget.status?.disruptedPods ?? {},
      left: budget.status?.disruptionsAllowed ?? 0,
    }));
    for (const task of tasks) {
      for (const budget of budgets) {
        if (budget.namespace !== task.namespace || Object.hasOwn(budget.disrupted, task.name)) continue;
        if (!matchesLabels(budget.requirements, task.pod.metadata.labels)) continue;
        budget.left--;
        if (budget.left < 0) guarded.add(task);
      }
    }
    return guarded;
  }
}

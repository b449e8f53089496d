import type { PodDisruptionBudget } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid } from "../../../model/objects/fieldError.ts";
import { checkAtMostWholePercent, checkIntOrPercent, checkOneOf } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { checkDnsSubdomain } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { checkCounters } from "../workloads/workloadChecks.ts";

export const podDisruptionBudgetStrategy = strategyOfKind<PodDisruptionBudget>({
  name: "pathSegment",
  generation: "spec",
  requiresRevision: true,
  validate: (budget) => budgetErrors(budget),
  validateUpdate: (next) => budgetErrors(next),
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    checkCounters(
      next.status,
      ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods", "observedGeneration"],
      errors,
    );
    for (const name of Object.keys(next.status?.disruptedPods ?? {})) {
      checkDnsSubdomain(name, "status.disruptedPods", errors);
    }
    return errors;
  },
});

function budgetErrors(budget: PodDisruptionBudget): FieldError[] {
  const errors: FieldError[] = [];
  const spec = budget.spec ?? {};
  const { minAvailable, maxUnavailable } = spec;
  if (minAvailable !== undefined && maxUnavailable !== undefined) {
    errors.push(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
  }
  for (const field of ["minAvailable", "maxUnavailable"] as const) {
    checkIntOrPercent(spec[field], `spec.${field}`, errors);
    checkAtMostWholePercent(spec[field], `spec.${field}`, errors);
  }
  checkLabelSelector(spec.selector, "spec.selector", errors);
  const policies = ["AlwaysAllow", "IfHealthyBudget"];
  checkOneOf(spec.unhealthyPodEvictionPolicy, policies, "spec.unhealthyPodEvictionPolicy", errors);
  return errors;
}

/** Eviction: a delete that respects the pod's disruption budget. */
import type {
  Pod,
  PodCondition,
  PodDisruptionBudget,
  PodDisruptionBudgetStatus,
} from "../../../model/kubernetes.generated.ts";
import { matchesLabels, selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { failure, forbiddenError, type StatusError, tooManyRequests } from "../../../model/objects/status.ts";
import { formatTime } from "../../../model/values/time.ts";
import { isPodReady } from "../pods/podConditions.ts";
import { withDisruptionAllowed } from "./disruptionCondition.ts";

export type EvictionDecision =
  /** Delete the pod, whatever its state. */
  | { readonly kind: "delete" }
  /** Delete the pod only at the revision that was read: it must not have become ready since. */
  | { readonly kind: "deleteWithRevision"; readonly resourceVersion: string; readonly budget: string | undefined }
  /** Write this status to the budget, then delete the pod. On a conflict on the budget, decide again. */
  | {
      readonly kind: "spendBudget";
      readonly budget: PodDisruptionBudget;
      readonly budgetStatus: PodDisruptionBudgetStatus;
    }
  | { readonly kind: "refuse"; readonly error: StatusError };

/** Set on the pod before it is deleted, except on a dry run. */
export const evictionCondition: PodCondition = {
  type: "DisruptionTarget",
  status: "True",
  reason: "EvictionByEvictionAPI",
  message: "Eviction API: evicting",
};

/** The most disrupted pods that the disruption controller has not processed; beyond this it is not keeping up. */
const disruptedPodsMax = 2000;

export interface EvictionInput {
  readonly pod: Pod;
  /** All budgets of the pod's namespace. */
  readonly budgets: Iterable<PodDisruptionBudget>;
  readonly nowMs: number;
}

export function evictionDecision({ pod, budgets, nowMs }: EvictionInput): EvictionDecision {
  const phase = pod.status?.phase;
  if (phase === "Succeeded" || phase === "Failed" || pod.metadata.deletionTimestamp !== undefined) {
    return { kind: "delete" };
  }
  const { resourceVersion } = pod.metadata;
  if (phase === "Pending") return { kind: "deleteWithRevision", resourceVersion, budget: undefined };

  const matching = [...budgets].filter((budget) => covers(budget, pod));
  const budget = matching[0];
  if (budget === undefined) return { kind: "delete" };
  if (matching.length > 1) {
    const message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    return { kind: "refuse", error: failure(500, "InternalError", message) };
  }

  const status = budget.status ?? {};
  const { currentHealthy = 0, desiredHealthy = 0, disruptionsAllowed = 0 } = status;
  if (!isPodReady(pod)) {
    const isCovered = currentHealthy >= desiredHealthy && desiredHealthy > 0;
    if (budget.spec?.unhealthyPodEvictionPolicy === "AlwaysAllow" || isCovered) {
      return { kind: "deleteWithRevision", resourceVersion, budget: budget.metadata.name };
    }
  }
  const error = refusal(budget);
  if (error !== undefined) return { kind: "refuse", error };
  const budgetStatus: PodDisruptionBudgetStatus = {
    ...status,
    disruptionsAllowed: disruptionsAllowed - 1,
    disruptedPods: { ...status.disruptedPods, [pod.metadata.name]: formatTime(nowMs) },
  };
  if (budgetStatus.disruptionsAllowed === 0) {
    budgetStatus.conditions = withDisruptionAllowed(budgetStatus, status.observedGeneration ?? 0, nowMs);
  }
  return { kind: "spendBudget", budget, budgetStatus };
}

/** The error when the pod changed before a delete with its revision as precondition. */
export function budgetStillProcessing(name: string): StatusError {
  return tooManyRequests(violation, 10, [
    { reason: "DisruptionBudget", message: `The disruption budget ${name} is still being processed by the server.` },
  ]);
}

const violation = "Cannot evict pod as it would violate the pod's disruption budget.";

function covers(budget: PodDisruptionBudget, pod: Pod): boolean {
  if (budget.metadata.namespace !== pod.metadata.namespace || budget.spec?.selector === undefined) return false;
  return matchesLabels(selectorRequirements(budget.spec.selector), pod.metadata.labels);
}

function refusal(budget: PodDisruptionBudget): StatusError | undefined {
  const { name } = budget.metadata;
  const status = budget.status ?? {};
  const { currentHealthy = 0, desiredHealthy = 0, disruptionsAllowed = 0 } = status;
  if ((status.observedGeneration ?? 0) < (budget.metadata.generation ?? 0)) return budgetStillProcessing(name);
  const forbid = (why: string, detail: string): StatusError =>
    forbiddenError({ group: "policy", resource: "poddisruptionbudget" }, name, why, [
      {
        reason: "DisruptionBudget",
        message: `The disruption budget ${name} does not allow evicting pods currently: ${detail}`,
      },
    ]);
  if (disruptionsAllowed < 0) {
    return forbid("pdb disruptions allowed is negative", "pdb disruptions allowed is negative");
  }
  if (Object.keys(status.disruptedPods ?? {}).length > disruptedPodsMax) {
    return forbid(
      "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
      "too many pending evictions not confirmed by PDB controller",
    );
  }
  if (disruptionsAllowed > 0) return undefined;
  const condition = status.conditions?.find(({ type }) => type === "DisruptionAllowed");
  const why = condition?.status === "False" && condition.message !== "" ? condition : undefined;
  let message = `The disruption budget ${name} does not allow evicting pods currently`;
  if (why?.reason === "SyncFailed") message += ` because it failed sync: ${why.message}`;
  else if (currentHealthy <= desiredHealthy) {
    message = `The disruption budget ${name} needs ${desiredHealthy} healthy pods and has ${currentHealthy} currently`;
  } else if (why !== undefined) message += ` (${why.reason}): ${why.message}`;
  return tooManyRequests(violation, 0, [{ reason: "DisruptionBudget", message }]);
}

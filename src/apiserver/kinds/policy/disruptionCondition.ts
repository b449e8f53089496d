import type { Condition, PodDisruptionBudgetStatus } from "../../../model/kubernetes.generated.ts";
import { formatTime } from "../../../model/values/time.ts";

/** The condition DisruptionAllowed: whether the budget allows a disruption. */
export function withDisruptionAllowed(
  status: PodDisruptionBudgetStatus,
  generation: number,
  nowMs: number,
): Condition[] {
  const isAllowed = (status.disruptionsAllowed ?? 0) > 0;
  const before = status.conditions?.find(({ type }) => type === "DisruptionAllowed");
  const word = isAllowed ? "True" : "False";
  const condition: Condition = {
    type: "DisruptionAllowed",
    status: word,
    reason: isAllowed ? "SufficientPods" : "InsufficientPods",
    message: "",
    lastTransitionTime: before !== undefined && before.status === word ? before.lastTransitionTime : formatTime(nowMs),
    observedGeneration: generation,
  };
  const others = (status.conditions ?? []).filter(({ type }) => type !== "DisruptionAllowed");
  return [...others, condition];
}

/** Conditions: rewritten only when they have changed; lastTransitionTime changes only with the status. */
import type { GangCondition } from "../../../model/gang/types.ts";
import { formatTime, timeToMs } from "../../../model/values/time.ts";

export type ConditionContent = Pick<GangCondition, "type" | "status" | "reason" | "message" | "observedGeneration">;

export function conditionOf(
  object: { status?: { conditions?: GangCondition[] } } | undefined,
  type: string,
): GangCondition | undefined {
  return object?.status?.conditions?.find((condition) => condition.type === type);
}

export function withCondition(
  conditions: readonly GangCondition[] | undefined,
  condition: ConditionContent,
  nowMs: number,
): GangCondition[] {
  const before = conditions?.find(({ type }) => type === condition.type);
  if (before === undefined) return [...(conditions ?? []), { ...condition, lastTransitionTime: formatTime(nowMs) }];
  const { observedGeneration = before.observedGeneration } = condition;
  const isSame = (["status", "reason", "message"] as const).every((field) => before[field] === condition[field]);
  const hasTime = timeToMs(before.lastTransitionTime) !== undefined;
  if (isSame && hasTime && before.observedGeneration === observedGeneration) return [...(conditions ?? [])];
  // A condition without a time, as another program may leave it, begins now.
  const isOld = hasTime && before.status === condition.status;
  const lastTransitionTime = isOld ? before.lastTransitionTime : formatTime(nowMs);
  return (conditions ?? []).map((each) => (each === before ? { ...before, ...condition, lastTransitionTime } : each));
}

export function withoutCondition(conditions: readonly GangCondition[] | undefined, type: string): GangCondition[] {
  return (conditions ?? []).filter((each) => each.type !== type);
}

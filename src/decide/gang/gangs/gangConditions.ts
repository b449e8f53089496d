/** Conditions: rewritten only when they say something else, and their time moves only with their status. */
import type { GangCondition } from "../../../model/gang/types.ts";
import { formatTime } from "../../../model/values/time.ts";

export type Said = Pick<GangCondition, "type" | "status" | "reason" | "message">;

export function conditionOf(
  object: { status?: { conditions?: GangCondition[] } } | undefined,
  type: string,
): GangCondition | undefined {
  return object?.status?.conditions?.find((condition) => condition.type === type);
}

export function withCondition(
  conditions: readonly GangCondition[] | undefined,
  said: Said,
  nowMs: number,
): GangCondition[] {
  const before = conditions?.find(({ type }) => type === said.type);
  if (before === undefined) return [...(conditions ?? []), { ...said, lastTransitionTime: formatTime(nowMs) }];
  if (before.status === said.status && before.reason === said.reason && before.message === said.message) {
    return [...(conditions ?? [])];
  }
  const lastTransitionTime = before.status === said.status ? before.lastTransitionTime : formatTime(nowMs);
  return (conditions ?? []).map((each) => (each === before ? { ...before, ...said, lastTransitionTime } : each));
}

export function withoutCondition(conditions: readonly GangCondition[] | undefined, type: string): GangCondition[] {
  return (conditions ?? []).filter((each) => each.type !== type);
}

/** Conditions of an object: a changed reason is written, a changed status also sets lastTransitionTime. */
import { formatTime } from "../values/time.ts";

export interface AnyCondition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
  lastUpdateTime?: string;
}

export function findCondition<T extends AnyCondition>(
  conditions: readonly T[] | undefined,
  type: string,
): T | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export function isTrue(conditions: readonly AnyCondition[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === "True";
}

export function withoutCondition<T extends AnyCondition>(conditions: readonly T[], type: string): T[] {
  return conditions.filter((condition) => condition.type !== type);
}

type NewCondition = {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
};

/** With lastUpdateTime, as Deployments have it. Nothing changes while status and reason stay. */
export function withCondition<T extends AnyCondition>(
  conditions: readonly T[],
  condition: NewCondition,
  nowMs: number,
): T[] {
  const now = formatTime(nowMs);
  const old = findCondition(conditions, condition.type);
  if (old?.status === condition.status && old.reason === condition.reason) return [...conditions];
  const lastTransitionTime = old?.status === condition.status ? (old.lastTransitionTime ?? now) : now;
  const next = { ...condition, lastUpdateTime: now, lastTransitionTime } as T;
  return [...withoutCondition(conditions, condition.type), next];
}

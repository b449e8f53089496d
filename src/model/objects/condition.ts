/** Conditions as controllers keep them: a change of reason is worth a write, a change of status moves the clock. */
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

type Said = { readonly type: string; readonly status: string; readonly reason: string; readonly message: string };

/** With lastUpdateTime, as Deployments have it. Nothing changes while status and reason stay. */
export function withCondition<T extends AnyCondition>(conditions: readonly T[], said: Said, nowMs: number): T[] {
  const now = formatTime(nowMs);
  const old = findCondition(conditions, said.type);
  if (old?.status === said.status && old.reason === said.reason) return [...conditions];
  const lastTransitionTime = old?.status === said.status ? (old.lastTransitionTime ?? now) : now;
  const next = { ...said, lastUpdateTime: now, lastTransitionTime } as T;
  return [...withoutCondition(conditions, said.type), next];
}

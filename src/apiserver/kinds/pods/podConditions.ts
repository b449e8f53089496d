import type { Pod, PodCondition } from "../../../model/kubernetes.generated.ts";
import { formatTime } from "../../../model/values/time.ts";

export function podCondition(pod: Pod, type: string): PodCondition | undefined {
  return pod.status?.conditions?.find((condition) => condition.type === type);
}

export function isPodReady(pod: Pod): boolean {
  return podCondition(pod, "Ready")?.status === "True";
}

/** The conditions with this one set; lastTransitionTime changes only when the status does. */
export function withPodCondition(
  conditions: readonly PodCondition[] | undefined,
  condition: PodCondition,
  nowMs: number,
): PodCondition[] {
  const list = conditions ?? [];
  const before = list.find(({ type }) => type === condition.type);
  const lastTransitionTime =
    before !== undefined && before.status === condition.status && before.lastTransitionTime !== undefined
      ? before.lastTransitionTime
      : formatTime(nowMs);
  const after: PodCondition = { ...condition, lastTransitionTime };
  if (before === undefined) return [...list, after];
  return list.map((other) => (other === before ? after : other));
}

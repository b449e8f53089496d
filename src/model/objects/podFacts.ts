/** Facts about a pod that controllers need. */
import type { Pod, PodCondition } from "../kubernetes.generated.ts";
import { timeToMs } from "../values/time.ts";

export function isFinished({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

export function isLeaving({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** Counts for its owner: it has not ended and is not terminating. */
export function isActive(pod: Pod): boolean {
  return !isFinished(pod) && !isLeaving(pod);
}

/** Terminating and not finished. */
export function isTerminating(pod: Pod): boolean {
  return isLeaving(pod) && !isFinished(pod);
}

export function podCondition({ status }: Pod, type: string): PodCondition | undefined {
  return status?.conditions?.find((condition) => condition.type === type);
}

export function isReady(pod: Pod): boolean {
  return podCondition(pod, "Ready")?.status === "True";
}

/** When the pod became ready, if it is. */
export function readySinceMs(pod: Pod): number | undefined {
  const ready = podCondition(pod, "Ready");
  return ready?.status === "True" ? timeToMs(ready.lastTransitionTime) : undefined;
}

/** When a ready pod is available, which may be in the future; undefined while it is not ready. */
export function availableAtMs(pod: Pod, minReadySeconds: number): number | undefined {
  if (!isReady(pod)) return undefined;
  const since = readySinceMs(pod);
  if (minReadySeconds === 0) return since ?? Number.NEGATIVE_INFINITY;
  return since === undefined ? undefined : since + minReadySeconds * 1000;
}

export function isAvailable(pod: Pod, minReadySeconds: number, nowMs: number): boolean {
  const atMs = availableAtMs(pod, minReadySeconds);
  return atMs !== undefined && (minReadySeconds === 0 || atMs <= nowMs);
}

export interface PodCounts {
  readonly ready: number;
  readonly available: number;
  /** When the next ready pod becomes available. */
  readonly wakeAtMs: number | undefined;
}

export function countPods(pods: readonly Pod[], minReadySeconds: number, nowMs: number): PodCounts {
  let ready = 0;
  let available = 0;
  let wakeAtMs: number | undefined;
  for (const pod of pods) {
    const atMs = availableAtMs(pod, minReadySeconds);
    if (isReady(pod)) ready++;
    if (atMs === undefined) continue;
    if (minReadySeconds === 0 || atMs <= nowMs) available++;
    else if (wakeAtMs === undefined || atMs < wakeAtMs) wakeAtMs = atMs;
  }
  return { ready, available, wakeAtMs };
}

/** The highest restart count of its containers, sidecars included. */
export function restartsMax({ spec, status }: Pod): number {
  let most = 0;
  for (const { restartCount } of status?.containerStatuses ?? []) most = Math.max(most, restartCount);
  const sidecars = new Set((spec?.initContainers ?? []).filter((c) => c.restartPolicy === "Always").map((c) => c.name));
  for (const { name, restartCount } of status?.initContainerStatuses ?? []) {
    if (sidecars.has(name)) most = Math.max(most, restartCount);
  }
  return most;
}

/** The order in which lists are sorted before a decision, so that decisions do not depend on the order of a list. */
export function byAge(a: { metadata: Pod["metadata"] }, b: { metadata: Pod["metadata"] }): number {
  const [left, right] = [a.metadata.creationTimestamp, b.metadata.creationTimestamp];
  if (left !== right) return left < right ? -1 : 1;
  return compareText(a.metadata.uid, b.metadata.uid);
}

export function byName(a: { metadata: Pod["metadata"] }, b: { metadata: Pod["metadata"] }): number {
  return compareText(a.metadata.name, b.metadata.name);
}

export function compareText(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

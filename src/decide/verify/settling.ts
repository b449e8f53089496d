/**
 * The settle window. Times are milliseconds since the first attempt, from a monotonic clock; the last attempt is at the
 * deadline at the latest.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";

export interface Window {
  readonly settleMs: number;
  readonly intervalMs: number;
}

/** Whether another attempt is allowed after one that began at `attemptAtMs`. */
export function isOpen({ settleMs }: Window, attemptAtMs: number): boolean {
  return attemptAtMs < settleMs;
}

/** When the next attempt begins: an interval after the last one, at the deadline at the latest, and not in the past. */
export function nextAttemptMs({ settleMs, intervalMs }: Window, attemptAtMs: number, nowMs: number): number {
  return Math.max(nowMs, Math.min(attemptAtMs + intervalMs, settleMs));
}

/**
 * The settle time that is left before an absolute deadline. The reserve is for writing the report before the run is
 * killed.
 */
export function budgetMs(settleMs: number, untilMs: number, nowMs: number): { ok: boolean; budgetMs: number } {
  const leftMs = untilMs - nowMs - reserveMs;
  const floor = Math.min(settleMs, floorMs);
  return { ok: leftMs >= floor, budgetMs: Math.max(0, Math.min(settleMs, leftMs)) };
}

export const reserveMs = 30_000;
export const floorMs = 5_000;

/**
 * Records when each unscheduled pod was first seen. A pod that is not in the first snapshot has a grace period from
 * then on. Creation timestamps are not used, because the cluster's clock may differ.
 */
export class FirstSeenPods {
  private readonly graceMs: number;
  private readonly firstSeenMs = new Map<string, number>();
  private attempts = 0;

  constructor(graceMs: number) {
    this.graceMs = graceMs;
  }

  /** Records the pods of an attempt, with the time at which it began. */
  record(pods: readonly Pod[], atMs: number): void {
    this.attempts++;
    // A pod of the first snapshot may be of any age.
    const seenMs = this.attempts === 1 ? Number.NEGATIVE_INFINITY : atMs;
    for (const { metadata, spec } of pods) {
      if ((spec?.nodeName ?? "") !== "") continue;
      if (!this.firstSeenMs.has(metadata.uid)) this.firstSeenMs.set(metadata.uid, seenMs);
    }
  }

  isNew(pod: Pod, atMs: number): boolean {
    const seenMs = this.firstSeenMs.get(pod.metadata.uid) ?? Number.NEGATIVE_INFINITY;
    return atMs - seenMs < this.graceMs;
  }
}

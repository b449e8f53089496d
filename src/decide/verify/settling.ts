/**
 * The settle window as arithmetic. Time is a number of milliseconds since the first attempt, from a monotonic clock;
 * the last attempt is at the deadline and never behind it.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";

export interface Window {
  readonly settleMs: number;
  readonly intervalMs: number;
}

/** Whether another look is allowed after one that was begun at `lookedAtMs`. */
export function isOpen({ settleMs }: Window, lookedAtMs: number): boolean {
  return lookedAtMs < settleMs;
}

/** When to look next: an interval after the last look, at the deadline at the latest, and not in the past. */
export function nextLookMs({ settleMs, intervalMs }: Window, lookedAtMs: number, nowMs: number): number {
  return Math.max(nowMs, Math.min(lookedAtMs + intervalMs, settleMs));
}

/**
 * What is left of the window under an absolute end. The reserve is for the report; a run that is killed before its
 * report has found nothing.
 */
export function budgetMs(settleMs: number, untilMs: number, nowMs: number): { ok: boolean; budgetMs: number } {
  const leftMs = untilMs - nowMs - reserveMs;
  const floor = Math.min(settleMs, floorMs);
  return { ok: leftMs >= floor, budgetMs: Math.max(0, Math.min(settleMs, leftMs)) };
}

export const reserveMs = 30_000;
export const floorMs = 5_000;

/**
 * Remembers which pods were there from the first look on. Pods that came later have not had the whole window; each of
 * those has its own grace from the moment it was first seen. Ages are not taken from timestamps: the cluster's clock is
 * not ours.
 */
export class Newcomers {
  private readonly graceMs: number;
  private readonly firstSeenMs = new Map<string, number>();
  private looks = 0;

  constructor(graceMs: number) {
    this.graceMs = graceMs;
  }

  /** Records the pods of an attempt, with the time at which it began. */
  look(pods: readonly Pod[], atMs: number): void {
    this.looks++;
    // A pod of the first snapshot has been there for an unknown time.
    const seenMs = this.looks === 1 ? Number.NEGATIVE_INFINITY : atMs;
    for (const { metadata, spec } of pods) {
      if ((spec?.nodeName ?? "") !== "") continue;
      if (!this.firstSeenMs.has(metadata.uid)) this.firstSeenMs.set(metadata.uid, seenMs);
    }
  }

  isYoung(pod: Pod, atMs: number): boolean {
    const seenMs = this.firstSeenMs.get(pod.metadata.uid) ?? Number.NEGATIVE_INFINITY;
    return atMs - seenMs < this.graceMs;
  }
}

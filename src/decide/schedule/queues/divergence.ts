import type { QueueState } from "./queueTree.ts";

/** The ancestors of two queues directly below their lowest common ancestor. */
export interface Divergence {
  readonly ours: QueueState;
  readonly theirs: QueueState;
}

/** The two queues below the lowest common ancestor, or at the top; undefined for the same queue. */
export function firstDifference(a: QueueState, b: QueueState): Divergence | undefined {
  const pathA = [...a.path()].reverse();
  const pathB = [...b.path()].reverse();
  for (const [at, ours] of pathA.entries()) {
    const theirs = pathB[at];
    if (theirs !== undefined && theirs !== ours) return { ours, theirs };
  }
  return undefined;
}

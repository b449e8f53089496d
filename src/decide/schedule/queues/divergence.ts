import type { QueueState } from "./queueTree.ts";

/** Where two queues part: the one below, or at, the lowest that they have in common, on either side. */
export interface Divergence {
  readonly ours: QueueState;
  readonly theirs: QueueState;
}

/** The two queues below the lowest common one, or at the top; undefined for one queue. */
export function firstDifference(a: QueueState, b: QueueState): Divergence | undefined {
  const pathA = [...a.path()].reverse();
  const pathB = [...b.path()].reverse();
  for (const [at, ours] of pathA.entries()) {
    const theirs = pathB[at];
    if (theirs !== undefined && theirs !== ours) return { ours, theirs };
  }
  return undefined;
}

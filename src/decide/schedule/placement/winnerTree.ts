/**
 * A tournament tree of the node with the highest score: a change of one node updates the path from its leaf to the
 * root. Ties go to the lower index.
 */
export class WinnerTree {
  /** The position in the change log up to which it is current. */
  cursor = -1;
  private readonly leaves: number;
  private readonly count: number;
  /** A binary tree in an array: the root is 1, the children of i are 2i and 2i + 1. */
  private readonly best: Float64Array;

  constructor(count: number) {
    this.count = count;
    this.leaves = 1;
    while (this.leaves < count) this.leaves *= 2;
    this.best = new Float64Array(2 * this.leaves).fill(-1);
  }

  /** Fills the tree with the score of every node. */
  fill(scores: Float64Array): void {
    const { best, leaves } = this;
    best.set(scores, leaves);
    // Level by level, up to the last node of each.
    let first = leaves;
    let last = leaves + this.count - 1;
    while (first > 1) {
      first >>= 1;
      last >>= 1;
      for (let i = first; i <= last; i++) {
        const left = best[2 * i] as number;
        const right = best[2 * i + 1] as number;
        best[i] = left >= right ? left : right;
      }
    }
  }

  set(at: number, score: number): void {
    const { best } = this;
    let i = this.leaves + at;
    if (best[i] === score) return;
    best[i] = score;
    for (i >>= 1; i > 0; i >>= 1) {
      const higher = Math.max(best[2 * i] as number, best[2 * i + 1] as number);
      if (best[i] === higher) return;
      best[i] = higher;
    }
  }

  /** The index of the highest score; -1 if no score is above -1. */
  winner(): number {
    const { best, leaves } = this;
    if (this.count === 0 || (best[1] as number) < 0) return -1;
    let i = 1;
    while (i < leaves) i = (best[2 * i] as number) >= (best[2 * i + 1] as number) ? 2 * i : 2 * i + 1;
    return i - leaves;
  }
}

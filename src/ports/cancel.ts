/** Somebody may give up. Smaller than an AbortSignal, and its order of calls is ours. */
export interface Cancel {
  readonly cancelled: boolean;
  /** Runs once when it is cancelled, or at once if it is already; the returned function forgets it. */
  onCancel(run: () => void): () => void;
}

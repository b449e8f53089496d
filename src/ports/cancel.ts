/** A request that may be cancelled. Smaller than an AbortSignal, and with a defined order of callbacks. */
export interface Cancel {
  readonly cancelled: boolean;
  /** Runs once when it is cancelled, or at once if it is already; the returned function forgets it. */
  onCancel(run: () => void): () => void;
}

/** A cancellation token. Smaller than an AbortSignal, and with a defined order of callbacks. */
export interface Cancel {
  readonly cancelled: boolean;
  /**
   * The callback runs once on cancellation, or at once if it is already cancelled; the returned function removes it.
   */
  onCancel(run: () => void): () => void;
}

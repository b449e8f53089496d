/** Time, and waiting for it. The simulator plays it; nothing else may read a clock. */
export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /**
   * Milliseconds since some moment. It never steps, whatever is done to the machine's clock: for how long, never for
   * when.
   */
  monotonicMs(): number;
  /** Runs once after the delay; the returned function cancels it. */
  after(delayMs: number, run: () => void): () => void;
}

/** Time and timers. In the simulator time is virtual, so no other code may read a clock. */
export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /**
   * Milliseconds since an arbitrary time. It never steps when the wall clock is set: for durations, not for timestamps.
   */
  monotonicMs(): number;
  /** Runs once after the delay; the returned function cancels it. */
  after(delayMs: number, run: () => void): () => void;
}

import type { Clock } from "../../ports/clock.ts";

/** The clock of one machine among several: it may be set wrong, and timers do not notice. */
export class SteppedClock implements Clock {
  private readonly clock: Clock;
  private offsetMs = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  step(byMs: number): void {
    this.offsetMs += byMs;
  }

  nowMs(): number {
    return this.clock.nowMs() + this.offsetMs;
  }

  monotonicMs(): number {
    return this.clock.monotonicMs();
  }

  after(delayMs: number, run: () => void): () => void {
    return this.clock.after(delayMs, run);
  }
}

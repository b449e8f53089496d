import type { Clock } from "../../src/ports/clock.ts";

/**
 * The clock of one process among several: it may be set wrong, which timers do not notice, and the process may stand
 * still.
 */
export class SteppedClock implements Clock {
  private readonly clock: Clock;
  private offsetMs = 0;
  /** Timers that are due while the process is paused; undefined while it runs. */
  private due: (() => void)[] | undefined;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  step(byMs: number): void {
    this.offsetMs += byMs;
  }

  /** From now on no timer fires, though time advances. */
  standStill(): void {
    this.due = [];
  }

  /** Runs the timers that were due meanwhile. */
  goOn(): void {
    const due = this.due ?? [];
    this.due = undefined;
    for (const run of due) run();
  }

  nowMs(): number {
    return this.clock.nowMs() + this.offsetMs;
  }

  monotonicMs(): number {
    return this.clock.monotonicMs();
  }

  after(delayMs: number, run: () => void): () => void {
    let isCancelled = false;
    const runUnlessCancelled = (): void => {
      if (!isCancelled) run();
    };
    const cancel = this.clock.after(delayMs, () => {
      if (this.due === undefined) run();
      else this.due.push(runUnlessCancelled);
    });
    return () => {
      isCancelled = true;
      cancel();
    };
  }
}

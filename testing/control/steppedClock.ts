import type { Clock } from "../../src/ports/clock.ts";

/**
 * The clock of one of several processes: it may be stepped, which does not affect timers, and the process may be
 * paused.
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
  pauseTimers(): void {
    this.due = [];
  }

  /** Resumes and runs the timers that were due meanwhile. */
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

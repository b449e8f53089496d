import type { Clock } from "../../src/ports/clock.ts";

/** A clock that only a test advances. */
export class ManualClock implements Clock {
  private timeMs: number;
  private timers: { atMs: number; order: number; run: () => void }[] = [];
  private started = 0;

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.timeMs = startMs;
  }

  nowMs(): number {
    return this.timeMs;
  }

  monotonicMs(): number {
    return this.timeMs;
  }

  after(delayMs: number, run: () => void): () => void {
    const timer = { atMs: this.timeMs + Math.max(0, delayMs), order: this.started++, run };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  }

  /** Advances the clock; timers fire in order, and the work that they start runs in between. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.timeMs + ms;
    for (;;) {
      const [next] = this.timers
        .filter((timer) => timer.atMs <= untilMs)
        .sort((a, b) => a.atMs - b.atMs || a.order - b.order);
      if (next === undefined) break;
      this.timers = this.timers.filter((timer) => timer !== next);
      this.timeMs = next.atMs;
      next.run();
      await settle();
    }
    this.timeMs = untilMs;
    await settle();
  }

  get pending(): number {
    return this.timers.length;
  }
}

/** Lets everything that is ready run, without waiting for real time. */
export async function settle(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

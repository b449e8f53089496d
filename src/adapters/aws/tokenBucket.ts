/**
 * Limits the rate of requests. AWS has a token bucket per operation and throttles a client that empties it. A slightly
 * smaller bucket here delays calls instead. If a call is throttled all the same, other clients share the limit: the
 * rate is halved and recovers slowly.
 */
import type { Clock } from "../../ports/clock.ts";

export interface BucketSize {
  readonly size: number;
  readonly perSecond: number;
}

export class TokenBucket {
  private readonly clock: Clock;
  private readonly limits: BucketSize;
  private level: number;
  private perSecond: number;
  private atMs: number;

  constructor(clock: Clock, limits: BucketSize) {
    this.clock = clock;
    this.limits = limits;
    this.level = limits.size;
    this.perSecond = limits.perSecond;
    this.atMs = clock.nowMs();
  }

  /** Takes a token and returns how long to wait before using it. */
  take(): number {
    this.refill();
    this.level -= 1;
    return this.level >= 0 ? 0 : Math.ceil((-this.level / this.perSecond) * 1000);
  }

  refused(): void {
    this.refill();
    this.level = Math.min(this.level, 0);
    this.perSecond = Math.max(0.5, this.perSecond / 2);
  }

  accepted(): void {
    this.perSecond = Math.min(this.limits.perSecond, this.perSecond * 1.05);
  }

  private refill(): void {
    const nowMs = this.clock.nowMs();
    this.level = Math.min(this.limits.size, this.level + (Math.max(0, nowMs - this.atMs) / 1000) * this.perSecond);
    this.atMs = nowMs;
  }
}

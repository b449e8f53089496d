import type { Cancel } from "../../ports/cancel.ts";
import type { Clock } from "../../ports/clock.ts";
import { callSocketsMax } from "./agents.ts";

/** A request that is under way. */
export interface Turn {
  /** How many times the limit had been lowered when it was sent. */
  readonly lowered: number;
}

/** Without a rejection for this long, more requests may be under way. */
const growMs = 1_000;

/**
 * How many requests are under way at once: one for each connection, until the API server rejects a request as one too
 * many (429). Then the others queue here instead of being rejected: a rejected one waits for as long as the server
 * asks, which grows with the number of rejections, and the seats of this client are idle meanwhile.
 */
export class RequestLimiter {
  private readonly clock: Clock;
  private limit = callSocketsMax;
  private underWay = 0;
  private lowered = 0;
  private changedMs = 0;
  private readonly queue = new Set<() => void>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Undefined when it was cancelled before its turn. */
  async enter(cancel: Cancel | undefined): Promise<Turn | undefined> {
    while (this.underWay >= this.limit) {
      if (cancel?.cancelled === true) return undefined;
      await new Promise<void>((resolve) => {
        const go = (): void => {
          this.queue.delete(go);
          forget();
          resolve();
        };
        this.queue.add(go);
        const forget = cancel?.onCancel(go) ?? ((): void => {});
      });
    }
    this.underWay++;
    return { lowered: this.lowered };
  }

  leave(turn: Turn, isRejected: boolean): void {
    const nowMs = this.clock.monotonicMs();
    if (isRejected) {
      // Requests that were sent together are rejected together: that lowers the limit once.
      if (turn.lowered === this.lowered) {
        this.limit = Math.max(1, Math.floor(Math.min(this.limit, this.underWay) / 2));
        this.lowered++;
      }
      this.changedMs = nowMs;
    } else if (nowMs - this.changedMs >= growMs && this.limit < callSocketsMax) {
      this.limit = Math.min(callSocketsMax, this.limit + Math.max(1, Math.floor(this.limit / 8)));
      this.changedMs = nowMs;
    }
    this.underWay--;
    for (const go of [...this.queue].slice(0, Math.max(0, this.limit - this.underWay))) go();
  }

  /** Removes the limit, and releases all queued requests: for a client that is closed. */
  releaseAll(): void {
    this.limit = Number.POSITIVE_INFINITY;
    for (const go of [...this.queue]) go();
  }
}

import type { Source } from "../../control/runtime/sources.ts";
import type { WorkQueue } from "../../control/runtime/workQueue.ts";
import type { Clock } from "../../ports/clock.ts";
import { Heap } from "../../snapshot/heap.ts";

interface Wake {
  readonly key: string;
  readonly dueMs: number;
  readonly order: number;
}

/**
 * Wake-ups of many keys with one timer: thousands of nodes renew a lease every ten seconds, and a timer for each would
 * be most of their cost. A key has one wake-up, the one that was set last. Times are of the wall clock, as in
 * decisions; a step of that clock is noticed after a bounded time.
 */
export class Wakes implements Source {
  private readonly clock: Clock;
  private readonly priority: number;
  private readonly heap = new Heap<Wake>((a, b) => a.dueMs - b.dueMs || a.order - b.order);
  private readonly current = new Map<string, Wake>();
  private queue: Pick<WorkQueue, "add"> | undefined;
  private orders = 0;
  private armedMs = Number.POSITIVE_INFINITY;
  private disarm: () => void = () => {};

  /** Keys that wake up come before keys of a lower priority, also when they were queued already. */
  constructor(clock: Clock, priority = 0) {
    this.clock = clock;
    this.priority = priority;
  }

  /** Undefined means never. */
  set(key: string, dueMs: number | undefined): void {
    const before = this.current.get(key);
    if (before?.dueMs === dueMs) return;
    if (dueMs === undefined) {
      this.current.delete(key);
      return;
    }
    const wake = { key, dueMs, order: this.orders++ };
    this.current.set(key, wake);
    this.heap.push(wake);
    if (dueMs < this.armedMs) this.arm();
  }

  start(queue: Pick<WorkQueue, "add">): () => void {
    this.queue = queue;
    this.arm();
    return () => {
      this.queue = undefined;
      this.disarm();
      this.armedMs = Number.POSITIVE_INFINITY;
    };
  }

  /** The number of wake-ups that are set. */
  get size(): number {
    return this.current.size;
  }

  private arm(): void {
    this.disarm();
    this.armedMs = Number.POSITIVE_INFINITY;
    if (this.queue === undefined) return;
    this.dropStale();
    const first = this.heap.first;
    if (first === undefined) return;
    const nowMs = this.clock.nowMs();
    this.armedMs = first.dueMs;
    this.disarm = this.clock.after(Math.min(Math.max(0, first.dueMs - nowMs), lookMsMax), () => this.ring());
  }

  private ring(): void {
    const nowMs = this.clock.nowMs();
    for (;;) {
      this.dropStale();
      const first = this.heap.first;
      if (first === undefined || first.dueMs > nowMs) break;
      this.heap.pop();
      this.current.delete(first.key);
      this.queue?.add(first.key, { priority: this.priority });
    }
    this.arm();
  }

  private dropStale(): void {
    for (let first = this.heap.first; first !== undefined; first = this.heap.first) {
      if (this.current.get(first.key) === first) return;
      this.heap.pop();
    }
  }
}

/** A clock that stepped forward would otherwise delay every wake-up by as long as it stepped. */
const lookMsMax = 5_000;

import type { Clock } from "../../ports/clock.ts";

/** How long one turn of the event loop may work, and how many items it may take when the clock does not advance. */
const turnMs = 3;
const itemsPerTurn = 128;
/** Items that wait for the disk at the same time: one sync then serves them all. */
const busyMax = 192;
const firstRetryMs = 5;
const retryMsMax = 30_000;

/**
 * The turns of the event loop in which controllers work. All queues share them, so that together they never block the
 * event loop for longer than one turn, however long the queues are.
 */
export class Turns {
  readonly clock: Clock;
  private readonly queues: WorkQueue<unknown>[] = [];
  private next = 0;
  private cancel: (() => void) | undefined;
  private isStopped = false;
  private waiters: (() => void)[] = [];

  constructor(clock: Clock) {
    this.clock = clock;
  }

  queue<Key>(options: WorkQueueOptions<Key>): WorkQueue<Key> {
    const queue = new WorkQueue<Key>(this, options);
    this.queues.push(queue as WorkQueue<unknown>);
    return queue;
  }

  /** Requests a turn. */
  wake(): void {
    if (this.isStopped || this.cancel !== undefined) return;
    this.cancel = this.clock.after(0, () => this.turn());
  }

  /** Resolves when nothing is queued or running. Keys in back-off do not count. */
  idle(): Promise<void> {
    if (this.isIdle()) return Promise.resolve();
    return new Promise((resolve) => this.waiters.push(resolve));
  }

  stop(): void {
    this.isStopped = true;
    this.cancel?.();
    this.cancel = undefined;
    for (const queue of this.queues) queue.stop();
    for (const resolve of this.waiters.splice(0)) resolve();
  }

  /** Called by a queue when an item is done. */
  finished(): void {
    if (this.waiters.length === 0 || !this.isIdle()) return;
    for (const resolve of this.waiters.splice(0)) resolve();
  }

  private isIdle(): boolean {
    return this.isStopped || this.queues.every((queue) => queue.size === 0);
  }

  private turn(): void {
    this.cancel = undefined;
    const endMs = this.clock.nowMs() + turnMs;
    const { queues } = this;
    let left = itemsPerTurn;
    // One item of each queue in rotation: a cascade of ten thousand pods must not delay a namespace.
    for (let idle = 0; idle < queues.length && left > 0; ) {
      this.next = (this.next + 1) % queues.length;
      if ((queues[this.next] as WorkQueue<unknown>).step()) {
        idle = 0;
        left--;
        if (this.clock.nowMs() >= endMs) break;
      } else idle++;
    }
    if (queues.some((queue) => queue.isReady)) this.wake();
    this.finished();
  }
}

export interface WorkQueueOptions<Key> {
  /** Reconciles one key. Level-triggered: reads the current state, not the event. */
  work(key: Key): Promise<void> | undefined;
  /** Called with every error; the key is retried with back-off. */
  failed?(key: Key, error: unknown): void;
}

/** A queue of keys: each key once however often it is added, never twice at the same time, again after a failure. */
export class WorkQueue<Key> {
  private readonly turns: Turns;
  private readonly options: WorkQueueOptions<Key>;
  private readonly waiting = new Set<Key>();
  private readonly busy = new Set<Key>();
  /** Keys that were added while they were being reconciled. */
  private readonly again = new Set<Key>();
  private readonly failures = new Map<Key, number>();
  private readonly timers = new Map<Key, { readonly atMs: number; readonly cancel: () => void }>();

  constructor(turns: Turns, options: WorkQueueOptions<Key>) {
    this.turns = turns;
    this.options = options;
  }

  get size(): number {
    return this.waiting.size + this.busy.size;
  }

  get isReady(): boolean {
    return this.waiting.size > 0 && this.busy.size < busyMax;
  }

  add(key: Key): void {
    if (this.busy.has(key)) {
      this.again.add(key);
      return;
    }
    this.waiting.add(key);
    this.turns.wake();
  }

  /** Adds the key after a delay; of several delays the shortest counts. */
  addAfter(key: Key, delayMs: number): void {
    const { clock } = this.turns;
    const atMs = clock.nowMs() + delayMs;
    const pending = this.timers.get(key);
    if (pending !== undefined) {
      if (pending.atMs <= atMs) return;
      pending.cancel();
    }
    const cancel = clock.after(delayMs, () => {
      this.timers.delete(key);
      this.add(key);
    });
    this.timers.set(key, { atMs, cancel });
  }

  stop(): void {
    for (const { cancel } of this.timers.values()) cancel();
    this.timers.clear();
    this.waiting.clear();
    this.again.clear();
  }

  /** Reconciles one key. False when the queue is empty. */
  step(): boolean {
    if (!this.isReady) return false;
    const [key] = this.waiting as Set<Key> & Iterable<Key>;
    this.waiting.delete(key as Key);
    this.start(key as Key);
    return true;
  }

  private start(key: Key): void {
    let outcome: Promise<void> | undefined;
    try {
      outcome = this.options.work(key);
    } catch (error) {
      this.retry(key, error);
      return;
    }
    if (outcome === undefined) {
      this.failures.delete(key);
      return;
    }
    this.busy.add(key);
    outcome.then(
      () => {
        this.failures.delete(key);
        this.release(key);
      },
      (error: unknown) => {
        this.retry(key, error);
        this.release(key);
      },
    );
  }

  private release(key: Key): void {
    this.busy.delete(key);
    if (this.again.delete(key)) this.add(key);
    else if (this.isReady) this.turns.wake();
    this.turns.finished();
  }

  private retry(key: Key, error: unknown): void {
    const failures = this.failures.get(key) ?? 0;
    this.failures.set(key, failures + 1);
    this.options.failed?.(key, error);
    this.addAfter(key, Math.min(retryMsMax, firstRetryMs * 2 ** Math.min(failures, 20)));
  }
}

import { assert } from "../../model/assert.ts";
import { type Backoff, exponentialMs } from "../../ports/backoff.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Metrics } from "../../ports/metrics.ts";
import { Heap } from "../../snapshot/heap.ts";

export interface WorkQueueOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** How long a key waits after each failure in a row. */
  readonly backoff?: Backoff;
  /** A rate limit for the retries of all keys together; unlimited when left out. */
  readonly retries?: RetryBudget;
  /** Each time that this many keys were returned, the oldest key is next, whatever its priority. */
  readonly fairEvery?: number;
}

/** A token bucket for retries: a burst, and then a rate per second. */
export interface RetryBudget {
  readonly perSecond: number;
  readonly burst: number;
}

export interface AddOptions {
  /** Keys of higher priority are returned first. */
  readonly priority?: number;
}

/** The priority of objects of the first list: changes are reconciled before them. */
export const lowPriority = -100;

const defaultBackoff: Backoff = { baseMs: 5, maxMs: 1_000_000 };
const defaultFairEvery = 10;
/** More namespaces than this are remembered only while keys of them wait. */
const namespacesMax = 1_000;

interface Ready {
  readonly key: string;
  readonly priority: number;
  /** Its turn among the keys of all namespaces. */
  readonly turn: number;
  /** A sequence number, given when the key became ready: the order is the same on every run. */
  readonly order: number;
  readonly sinceMs: number;
}

interface Delayed {
  readonly dueMs: number;
  readonly priority: number;
  readonly cancel: () => void;
  /** Of a key that waits because it failed: the time before which it may not be retried, whatever ends its back-off. */
  readonly notBeforeMs: number | undefined;
}

/**
 * Keys to reconcile. A key is in it once, however often it was added; while it is being reconciled it is not returned
 * again, and a key that is added meanwhile is returned afterwards. Higher priority comes first; then namespaces take
 * turns, so that a flood of one tenant's objects does not hold up those of another; then the order of arrival. Every
 * tenth slot goes to the key that has waited longest, so that a flood of urgent keys starves no other.
 */
export class WorkQueue {
  private readonly clock: Clock;
  private readonly metrics: Metrics;
  private readonly labels: { readonly name: string };
  private readonly backoff: Backoff;
  private readonly fairEvery: number;
  private readonly ready = new Map<string, Ready>();
  private readonly urgent = new Heap<Ready>(moreUrgent);
  private readonly oldest = new Heap<Ready>((a, b) => a.order - b.order);
  private readonly delayed = new Map<string, Delayed>();
  /** Keys that are being reconciled, and the priority they were added with meanwhile. */
  private readonly active = new Map<string, { again: number | undefined }>();
  private readonly failureCounts = new Map<string, number>();
  private readonly retries: RetryBudget | undefined;
  private refilledAtMs = 0;
  private readyCount = 0;
  /** The turn of the last key that was returned, and by namespace that of the last key that was added. */
  private turnNow = 0;
  private readonly lastTurns = new Map<string, number>();
  private namespacesKept = namespacesMax;
  private turns = 0;
  private isClosed = false;
  private wake: () => void = () => {};

  constructor(options: WorkQueueOptions) {
    this.clock = options.clock;
    this.metrics = options.metrics;
    this.labels = { name: options.name };
    this.backoff = options.backoff ?? defaultBackoff;
    this.fairEvery = options.fairEvery ?? defaultFairEvery;
    this.retries = options.retries;
  }

  /** Called whenever a key has become ready. */
  onReady(wake: () => void): void {
    this.wake = wake;
  }

  /** Keys that are ready now. */
  get size(): number {
    return this.ready.size;
  }

  /** Whether no key is ready, delayed or being reconciled. */
  get isIdle(): boolean {
    return this.ready.size === 0 && this.delayed.size === 0 && this.active.size === 0;
  }

  add(key: string, { priority = 0 }: AddOptions = {}): void {
    if (this.isClosed) return;
    this.undelay(key);
    this.metrics.count("workqueue_adds_total", this.labels);
    const active = this.active.get(key);
    if (active !== undefined) {
      active.again = Math.max(active.again ?? priority, priority);
      return;
    }
    this.makeReady(key, priority);
    this.wake();
  }

  /** The earlier of two delays counts, and a key that is ready already stays ready. */
  addAfter(key: string, delayMs: number, { priority = 0 }: AddOptions = {}): void {
    this.delay(key, delayMs, { priority, notBeforeMs: undefined });
  }

  private delay(key: string, delayMs: number, { priority, notBeforeMs }: Pick<Delayed, "priority" | "notBeforeMs">) {
    if (delayMs <= 0) {
      this.add(key, { priority });
      return;
    }
    if (this.isClosed || this.ready.has(key)) return;
    const dueMs = this.clock.monotonicMs() + delayMs;
    const before = this.delayed.get(key);
    if (before !== undefined && before.dueMs <= dueMs) return;
    before?.cancel();
    const highest = Math.max(priority, before?.priority ?? priority);
    // One timer a key. Deadlines are compared on a clock that never steps, as timers are kept.
    const cancel = this.clock.after(delayMs, () => {
      this.delayed.delete(key);
      this.add(key, { priority: highest });
    });
    this.delayed.set(key, { dueMs, priority: highest, cancel, notBeforeMs });
  }

  /** Requeues with a back-off that doubles with every failure; returns the back-off. */
  addFailed(key: string, options: AddOptions & { readonly atLeastMs?: number } = {}): number {
    const failures = this.failures(key) + 1;
    this.failureCounts.set(key, failures);
    this.metrics.count("workqueue_retries_total", this.labels);
    const atLeastMs = Math.max(options.atLeastMs ?? 0, this.spendRetry());
    const delayMs = Math.max(atLeastMs, exponentialMs(this.backoff, failures));
    const notBeforeMs = this.clock.monotonicMs() + atLeastMs;
    this.delay(key, delayMs, { priority: options.priority ?? 0, notBeforeMs });
    return delayMs;
  }

  /**
   * Ends every back-off, after an outage of the server: how often a key failed meanwhile says nothing about its object.
   * What the server or the rate limit asked for still holds.
   */
  endBackOffs(): void {
    this.failureCounts.clear();
    const nowMs = this.clock.monotonicMs();
    for (const [key, { notBeforeMs, priority }] of [...this.delayed]) {
      if (notBeforeMs === undefined) continue;
      this.undelay(key);
      this.delay(key, notBeforeMs - nowMs, { priority, notBeforeMs });
    }
  }

  /** How long the rate limit delays this retry. The bucket is kept as the time at which it will be full again. */
  private spendRetry(): number {
    if (this.retries === undefined) return 0;
    const { perSecond, burst } = this.retries;
    const nowMs = this.clock.monotonicMs();
    this.refilledAtMs = Math.max(this.refilledAtMs, nowMs) + 1000 / perSecond;
    return Math.max(0, Math.ceil(this.refilledAtMs - nowMs - (burst * 1000) / perSecond));
  }

  /** A success: the next failure counts as the first one. */
  forget(key: string): void {
    this.failureCounts.delete(key);
  }

  failures(key: string): number {
    return this.failureCounts.get(key) ?? 0;
  }

  /** Returns the next key. The caller has to call `done` for it. */
  next(): string | undefined {
    if (this.isClosed) return undefined;
    const isFair = this.turns % this.fairEvery === this.fairEvery - 1;
    const item = isFair ? this.take(this.oldest) : this.take(this.urgent);
    if (item === undefined) return undefined;
    this.turns++;
    if (!isFair) this.turnNow = Math.max(this.turnNow, item.turn);
    this.ready.delete(item.key);
    this.active.set(item.key, { again: undefined });
    this.metrics.gauge("workqueue_depth", this.labels, this.ready.size);
    this.metrics.observe(
      "workqueue_queue_duration_seconds",
      this.labels,
      (this.clock.monotonicMs() - item.sinceMs) / 1000,
    );
    return item.key;
  }

  done(key: string): void {
    const active = this.active.get(key);
    assert(active !== undefined, () => `${key} is not being reconciled`);
    this.active.delete(key);
    if (active.again === undefined || this.isClosed) return;
    this.undelay(key);
    this.makeReady(key, active.again);
    this.wake();
  }

  /** Closes the queue: no key is added or returned any more. */
  close(): void {
    this.isClosed = true;
    for (const { cancel } of this.delayed.values()) cancel();
    this.delayed.clear();
    this.ready.clear();
  }

  private makeReady(key: string, priority: number): void {
    const before = this.ready.get(key);
    if (before !== undefined && before.priority >= priority) return;
    const order = before?.order ?? this.readyCount++;
    const turn = before?.turn ?? this.turnOf(key);
    const item = { key, priority, turn, order, sinceMs: before?.sinceMs ?? this.clock.monotonicMs() };
    this.ready.set(key, item);
    this.urgent.push(item);
    this.oldest.push(item);
    this.metrics.gauge("workqueue_depth", this.labels, this.ready.size);
  }

  /** The n-th waiting key of a namespace has its turn after n - 1 keys of every other namespace. */
  private turnOf(key: string): number {
    const namespace = key.slice(0, Math.max(0, key.indexOf("/")));
    const turn = Math.max(this.turnNow, this.lastTurns.get(namespace) ?? 0) + 1;
    this.lastTurns.set(namespace, turn);
    if (this.lastTurns.size > this.namespacesKept) {
      for (const [name, last] of this.lastTurns) if (last <= this.turnNow) this.lastTurns.delete(name);
      this.namespacesKept = Math.max(namespacesMax, 2 * this.lastTurns.size);
    }
    return turn;
  }

  /** Entries of the heap that no longer match the state of their key are skipped. */
  private take(heap: Heap<Ready>): Ready | undefined {
    for (let item = heap.pop(); item !== undefined; item = heap.pop()) {
      if (this.ready.get(item.key) === item) return item;
    }
    return undefined;
  }

  private undelay(key: string): void {
    this.delayed.get(key)?.cancel();
    this.delayed.delete(key);
  }
}

function moreUrgent(a: Ready, b: Ready): number {
  return b.priority - a.priority || a.turn - b.turn || a.order - b.order;
}

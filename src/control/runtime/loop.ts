import { AssertionFailure } from "../../model/assert.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Refusal } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { WorkQueue } from "./workQueue.ts";

/** One reconcile of one key: read, decide, write, and record the outcome. */
export type Reconcile = (key: string, context: ReconcileContext) => Promise<ReconcileResult> | ReconcileResult;

export interface ReconcileContext {
  /** Cancelled when the reconcile has taken too long, or at a stop. Pass it to every call. */
  readonly cancel: Cancel;
  /** The number of failures of this key in a row. */
  readonly failures: number;
}

/** Undefined: done until the next event. */
export type ReconcileResult =
  | undefined
  /** Done; requeue after a time. */
  | { readonly requeueAfterMs: number }
  /** Failed: requeue with back-off. */
  | { readonly again: string; readonly atLeastMs?: number }
  /** Failed for good: a retry is of no use until the object changes. */
  | { readonly giveUp: string };

export interface LoopOptions {
  readonly name: string;
  readonly queue: WorkQueue;
  readonly reconcile: Reconcile;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** How many keys may be reconciled at once. */
  readonly concurrency?: number;
  /** After this long a reconcile is cancelled. */
  readonly deadlineMs?: number;
  /** The object that a key names, where it names one. */
  readonly objectOf?: (key: string) => KubeObject | undefined;
  /** Reports on an object that its reconcile threw an exception or ran over its deadline. */
  readonly report?: (object: KubeObject, fault: Fault) => void;
}

/** A reconcile that threw an exception or ran over its deadline. */
export interface Fault {
  readonly reason: "ReconcileError" | "ReconcileTimeout";
  /** Without the exception's message, which may name objects of other tenants; the log has it. */
  readonly note: string;
}

/** A key whose last reconcile threw or ran over its deadline. */
interface Quarantine {
  readonly why: string;
  /** The revision of the object that it happened on; undefined where the key names no object. */
  readonly revision: string | undefined;
  readonly untilMs: number;
}

const defaultDeadlineMs = 120_000;
/** How long a cancelled reconcile may take to end, at a stop. */
const cancelGraceMs = 5_000;

/** Reconciles the keys of a queue. It can be paused, as in a process that does not lead, and resumed. */
export class Loop {
  private readonly options: LoopOptions;
  private readonly concurrency: number;
  private readonly running = new Map<string, CancelSource>();
  /** Until the end of its back-off such a key is reconciled only if its own object has changed. */
  private readonly quarantined = new Map<string, Quarantine>();
  private isOpen = false;
  private isPumping = false;
  private idleWaiters: (() => void)[] = [];

  constructor(options: LoopOptions) {
    this.options = options;
    this.concurrency = options.concurrency ?? 1;
    options.queue.onReady(() => this.pumpSoon());
  }

  resume(): void {
    this.isOpen = true;
    this.pumpSoon();
  }

  /** No new reconcile begins. Resolves when the last running one has ended; after the grace they are cancelled. */
  pause(graceMs = 0): Promise<void> {
    this.isOpen = false;
    if (this.running.size === 0) return Promise.resolve();
    const stopTimer = graceMs > 0 ? this.options.clock.after(graceMs, () => this.cancelAll()) : undefined;
    if (graceMs <= 0) this.cancelAll();
    return new Promise((resolve) => {
      this.idleWaiters.push(() => {
        stopTimer?.();
        resolve();
      });
    });
  }

  /**
   * Stops for good: a reconcile that does not end after it was cancelled is abandoned. Its writes are refused once the
   * lease is released.
   */
  async stop(graceMs = 0): Promise<void> {
    const { clock, log, name } = this.options;
    const ended = this.pause(graceMs);
    if (!this.isBusy) return;
    await new Promise<void>((resolve) => {
      const stopTimer = clock.after(graceMs + cancelGraceMs, () => {
        log.warn(
          { controller: name, keys: [...this.running.keys()].sort() },
          "reconciles did not end in time and are abandoned",
        );
        resolve();
      });
      void ended.then(() => {
        stopTimer();
        resolve();
      });
    });
  }

  private cancelAll(): void {
    for (const [, source] of [...this.running].sort(([a], [b]) => (a < b ? -1 : 1))) source.cancel();
  }

  get isBusy(): boolean {
    return this.running.size > 0;
  }

  /**
   * A key becomes ready while a watch event is delivered; its reconcile starts after all handlers have received the
   * event.
   */
  private pumpSoon(): void {
    if (!this.isOpen || this.isPumping) return;
    this.isPumping = true;
    void Promise.resolve().then(() => {
      this.isPumping = false;
      this.pump();
    });
  }

  private pump(): void {
    const { queue } = this.options;
    while (this.isOpen && this.running.size < this.concurrency) {
      const key = queue.next();
      if (key === undefined) return;
      const heldMs = this.heldMs(key);
      if (heldMs > 0) {
        queue.addAfter(key, heldMs);
        queue.done(key);
        continue;
      }
      const cancel = new CancelSource();
      this.running.set(key, cancel);
      void this.reconcileKey(key, cancel);
    }
  }

  /** How long a quarantined key still waits: events of other objects do not end its back-off. */
  private heldMs(key: string): number {
    const held = this.quarantined.get(key);
    if (held?.revision === undefined) return 0;
    if (this.options.objectOf?.(key)?.metadata.resourceVersion !== held.revision) return 0;
    return held.untilMs - this.options.clock.monotonicMs();
  }

  /**
   * Never rejects. A reconcile that does not end keeps its key and its worker: two reconciles of one key would be
   * worse.
   */
  private async reconcileKey(key: string, cancel: CancelSource): Promise<void> {
    const { name, queue, clock, metrics, log, reconcile, deadlineMs = defaultDeadlineMs } = this.options;
    const startedMs = clock.monotonicMs();
    const stopTimer = clock.after(deadlineMs, () => {
      log.warn({ controller: name, key, deadlineMs }, "reconcile takes too long and is cancelled");
      cancel.cancel();
    });
    const object = this.options.objectOf?.(key);
    let fault: { why: string; error?: unknown } | undefined;
    let result: ReconcileResult;
    try {
      result = await reconcile(key, { cancel, failures: queue.failures(key) });
    } catch (error) {
      fault = { why: error instanceof Error ? error.message : String(error), error };
    }
    stopTimer();
    const elapsedMs = clock.monotonicMs() - startedMs;
    if (fault === undefined && elapsedMs >= deadlineMs) fault = { why: `it ran longer than ${deadlineMs / 1000} s` };
    metrics.observe("muster_reconcile_seconds", { controller: name }, elapsedMs / 1000);
    if (fault === undefined) {
      this.quarantined.delete(key);
      this.follow(key, result);
    } else this.quarantine(key, object, fault);
    this.running.delete(key);
    queue.done(key);
    if (this.running.size === 0 && !this.isOpen) {
      const waiters = this.idleWaiters;
      this.idleWaiters = [];
      for (const wake of waiters) wake();
    }
    this.pump();
  }

  /**
   * Backs off on this key alone. The next reconcile starts from the current state. The object reports the first fault
   * of a series and every other one after it; the log does not repeat itself.
   */
  private quarantine(key: string, object: KubeObject | undefined, fault: { why: string; error?: unknown }): void {
    const { name, log, metrics, clock, queue, report } = this.options;
    const { why, error } = fault;
    const isException = "error" in fault;
    const kind = !isException ? "timeout" : error instanceof AssertionFailure ? "assertion" : "exception";
    metrics.count("muster_reconcile_exceptions_total", { controller: name, kind });
    metrics.count("muster_reconciles_total", { controller: name, result: "again" });
    const isKnown = this.quarantined.get(key)?.why === why;
    const delayMs = queue.addFailed(key);
    const revision = object?.metadata.resourceVersion;
    this.quarantined.set(key, { why, revision, untilMs: clock.monotonicMs() + delayMs });
    if (isKnown) return;
    if (isException) log.error({ controller: name, key, error }, "reconcile threw an exception");
    if (object === undefined) return;
    const what = isException ? "an internal error" : "its deadline";
    report?.(object, {
      reason: isException ? "ReconcileError" : "ReconcileTimeout",
      note: `${name} stopped at ${what} on this object and retries with back-off; the controller's log has the cause`,
    });
  }

  private follow(key: string, result: ReconcileResult): void {
    const { name, queue, log, metrics } = this.options;
    if (result === undefined || "requeueAfterMs" in result) {
      metrics.count("muster_reconciles_total", { controller: name, result: "done" });
      queue.forget(key);
      if (result !== undefined) queue.addAfter(key, result.requeueAfterMs);
    } else if ("again" in result) {
      metrics.count("muster_reconciles_total", { controller: name, result: "again" });
      log.debug({ controller: name, key, why: result.again, failures: queue.failures(key) + 1 }, "reconcile requeued");
      queue.addFailed(key, { atLeastMs: result.atLeastMs ?? 0 });
    } else {
      metrics.count("muster_reconciles_total", { controller: name, result: "giveUp" });
      log.warn({ controller: name, key, why: result.giveUp }, "gave up");
      queue.forget(key);
    }
  }
}

const fencedMs = 500;

/** The usual result of a reconcile whose write was refused. */
export function reconcileResultOf(refusal: Refusal): ReconcileResult {
  switch (refusal.reason) {
    case "NotFound":
      // The object was deleted during the reconcile. If another object is missing, its creation enqueues the key.
      return undefined;
    case "Invalid":
      return { giveUp: refusal.message };
    case "Fenced":
      // Not a failure: the lease is renewed or lost within seconds. Counted as one, a key that met it a dozen times
      // would back off for minutes after this process leads again.
      return { requeueAfterMs: fencedMs };
    case "Conflict":
    case "AlreadyExists":
    case "Expired":
    case "Forbidden":
    case "Unauthorized":
    case "TooManyRequests":
    case "Unavailable":
    case "Unknown": {
      const { retryAfterMs } = refusal;
      const again = `${refusal.reason}: ${refusal.message}`;
      return retryAfterMs === undefined ? { again } : { again, atLeastMs: retryAfterMs };
    }
  }
}

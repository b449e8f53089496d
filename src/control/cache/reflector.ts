import { resourceKey } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import type { Outcome } from "../../model/outcome.ts";
import { backoffMs, exponentialMs } from "../../ports/backoff.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeList, KubeReads, Watch, WatchSink } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { Random } from "../../ports/random.ts";
import type { KindEvent } from "../../snapshot/kindTable.ts";
import {
  idleReflector,
  type ReflectorAction,
  type ReflectorInput,
  type ReflectorState,
  stepReflector,
} from "./stepReflector.ts";

/** Which objects of a kind are watched. */
export interface Selection {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface ReflectorOptions<T extends KubeObject = KubeObject> {
  readonly kube: KubeReads;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly resource: Resource<T>;
  readonly selection?: Selection;
}

const pageSize = 500;
const relistBackoff = { baseMs: 800, maxMs: 30_000 };
/** The longest delay of a watch that keeps failing: the back-off with its jitter. */
export const relistWaitMsMax = 2 * relistBackoff.maxMs;
/** The shortest back-off, even if the server answers for other kinds: the failure may concern one kind only. */
const hastyMs = 500;
/** The timeout of a watch, drawn for each watch, so that many do not reconnect at once. */
const watchSecondsMin = 300;
/**
 * A server sends a bookmark about every minute: without one for this long the server is behind this cache, or hangs.
 */
const silentMs = 150_000;
/** The time in which a connection is established or fails. */
const connectMsMax = 70_000;
/** How long after its timeout a silent watch is still kept open. */
const overdueMs = 30_000;

/** Lists and watches one kind: the state machine of stepReflector.ts with a network and a clock. */
export class Reflector {
  private readonly options: ReflectorOptions;
  private readonly emit: (event: KindEvent) => void;
  private readonly onRefusals: () => void;
  private readonly kind: string;
  private state: ReflectorState = idleReflector;
  private watch: Watch | undefined;
  private call: CancelSource | undefined;
  private stopTimer: (() => void) | undefined;
  private stopSilence: (() => void) | undefined;
  private openedMs = 0;
  /** The time of the last event or bookmark, or of the opening of the watch. */
  private lastEventAtMs: number | undefined;
  /** Since when, and why, the kind is not watched; undefined while it is. */
  private broken: { readonly sinceMs: number; why: string } | undefined;
  /** From this time on the current back-off may be cut short; undefined while there is none. */
  private hastyFromMs: number | undefined;
  private failedWaits = 0;
  /**
   * The number of back-offs that were cut short since the last event of the kind: each one makes the next one longer.
   */
  private cutShort = 0;

  constructor(options: ReflectorOptions, emit: (event: KindEvent) => void, onRefusals: () => void = () => {}) {
    this.options = options;
    this.emit = emit;
    this.onRefusals = onRefusals;
    this.kind = resourceKey(options.resource);
  }

  get phase(): ReflectorState["phase"] {
    return this.state.phase;
  }

  /** Whether the watch is open. */
  get isFollowing(): boolean {
    return this.state.phase === "live";
  }

  /** The time since the last event or bookmark; undefined before the first watch. */
  get silentForMs(): number | undefined {
    return this.lastEventAtMs === undefined ? undefined : this.options.clock.monotonicMs() - this.lastEventAtMs;
  }

  /** How long the kind could not be watched, and why; undefined while it is watched. */
  get outage(): { readonly forMs: number; readonly why: string } | undefined {
    if (this.isFollowing || this.broken === undefined) return undefined;
    return { forMs: this.options.clock.monotonicMs() - this.broken.sinceMs, why: this.broken.why };
  }

  /** How often the watch was interrupted. */
  get breaks(): number {
    return this.failedWaits;
  }

  /** The server answers for other kinds: ends the back-off, or soon if it has just begun. */
  retrySoon(): void {
    if (this.hastyFromMs === undefined) return;
    const { clock } = this.options;
    const leftMs = this.hastyFromMs - clock.monotonicMs();
    this.hastyFromMs = undefined;
    this.cutShort++;
    this.stopTimer?.();
    if (leftMs <= 0) this.due();
    else this.stopTimer = clock.after(leftMs, () => this.due());
  }

  /**
   * Retries before the end of the back-off, to find out for all kinds whether the server answers. Returns whether there
   * was a back-off.
   */
  probe(): boolean {
    if (this.hastyFromMs === undefined || this.options.clock.monotonicMs() < this.hastyFromMs) return false;
    this.stopTimer?.();
    this.due();
    return true;
  }

  /** The number of lists in a row that were older than the known revision. */
  get refusals(): number {
    return this.state.refusals;
  }

  start(): void {
    this.input({ type: "start" });
  }

  stop(): void {
    this.input({ type: "stop" });
  }

  /** The list contradicts the objects of the cache. */
  refuse(why: string): void {
    this.options.log.warn({ kind: this.kind, why }, "list refused");
    this.input({ type: "refused" });
  }

  private input(input: ReflectorInput): void {
    const { refusals } = this.state;
    this.step(input);
    if (this.state.refusals !== refusals) this.onRefusals();
  }

  private step(input: ReflectorInput): void {
    const { state, actions } = stepReflector(this.state, input);
    this.state = state;
    for (const action of actions) {
      this.act(action);
      // An emitted action was refused: the machine has moved on, and the rest of this step is stale.
      if (this.state !== state) return;
    }
    if (state.phase === "live" && state.refusals > 0) this.state = stepReflector(state, { type: "accepted" }).state;
  }

  private act(action: ReflectorAction): void {
    switch (action.type) {
      case "emit":
        this.emit(action.event);
        return;
      case "stream":
        this.options.metrics.count("muster_relists_total", { kind: this.kind, how: "stream" });
        this.open({ sendInitialEvents: true });
        return;
      case "watch":
        this.open({ resourceVersion: action.from });
        return;
      case "list":
        if (action.continueToken === undefined) {
          this.options.metrics.count("muster_relists_total", { kind: this.kind, how: "list" });
        }
        this.list(action.continueToken, action.isPaged);
        return;
      case "close":
        this.close();
        return;
      case "wait":
        this.wait(action.failures, action.why, action.atLeastMs ?? 0);
        return;
    }
  }

  private open(how: { sendInitialEvents: true } | { resourceVersion: string }): void {
    const { kube, clock, random, resource, selection } = this.options;
    this.close();
    const timeoutSeconds = watchSecondsMin + (random.uint32() % watchSecondsMin);
    const sink: WatchSink = {
      event: (event) => {
        this.cutShort = 0;
        this.lastEventAtMs = clock.monotonicMs();
        this.broken = undefined;
        this.input({ type: "event", event });
      },
      ended: (why) => this.ended(why),
    };
    this.openedMs = clock.monotonicMs();
    this.lastEventAtMs ??= this.openedMs;
    this.watch = kube.watch(resource, { ...selection, ...how, allowBookmarks: true, timeoutSeconds }, sink);
    this.stopSilence = clock.after(silentMs, () => this.input({ type: "silent" }));
    // The timeout of the watch is long over: the connection is dead.
    this.stopTimer = clock.after(timeoutSeconds * 1000 + overdueMs, () => {
      this.watch?.stop();
      this.ended(undefined);
    });
  }

  private ended(why: Outcome<never> | undefined): void {
    const livedMs = this.options.clock.monotonicMs() - this.openedMs;
    this.forget();
    // The watch was open without events; a connection that cannot be established fails earlier.
    if (why === undefined || livedMs > connectMsMax) this.broken = undefined;
    if (why !== undefined && !why.ok) {
      this.options.metrics.count("muster_watch_failures_total", { kind: this.kind, reason: why.reason });
    }
    this.input({ type: "ended", why, livedMs });
  }

  private list(continueToken: string | undefined, isPaged: boolean): void {
    const { kube, resource, selection } = this.options;
    const cancel = new CancelSource();
    this.call = cancel;
    const page = { ...(isPaged && { limit: pageSize }), ...(continueToken !== undefined && { continueToken }) };
    const answered = (outcome: Outcome<KubeList>): void => {
      if (this.call !== cancel) return;
      this.call = undefined;
      this.input({ type: "page", outcome });
    };
    kube.list(resource, { ...selection, ...page, cancel }).then(answered, (error: unknown) => {
      this.options.log.error({ kind: this.kind, error }, "the list threw an exception");
      answered({ ok: false, reason: "Unknown", message: String(error) });
    });
  }

  private wait(failures: number, why: string, atLeastMs: number): void {
    const { clock, random, log } = this.options;
    const delayMs = Math.max(atLeastMs, backoffMs(relistBackoff, failures, random));
    // An unavailable server is logged once for all kinds, by the connection.
    const tell = why.includes("Unavailable") ? log.debug.bind(log) : log.info.bind(log);
    tell({ kind: this.kind, why, failures, delayMs }, "watch waits");
    this.broken = { sinceMs: this.broken?.sinceMs ?? clock.monotonicMs(), why };
    this.stopTimer?.();
    this.failedWaits++;
    this.hastyFromMs =
      clock.monotonicMs() + Math.max(atLeastMs, exponentialMs({ ...relistBackoff, baseMs: hastyMs }, this.cutShort));
    this.stopTimer = clock.after(delayMs, () => this.due());
  }

  private due(): void {
    this.stopTimer = undefined;
    this.hastyFromMs = undefined;
    this.input({ type: "due" });
  }

  private close(): void {
    this.watch?.stop();
    this.call?.cancel();
    this.forget();
  }

  private forget(): void {
    this.watch = undefined;
    this.call = undefined;
    this.stopTimer?.();
    this.stopTimer = undefined;
    this.stopSilence?.();
    this.stopSilence = undefined;
    this.hastyFromMs = undefined;
  }
}

import { applyIntent } from "../../intents/applyIntent.ts";
import { assert } from "../../model/assert.ts";
import { expectedOf, type UpdateIntent } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { firstRevision, type Revision } from "../../model/revision.ts";
import { formatMicroTime } from "../../model/values/time.ts";
import { spread } from "../../ports/backoff.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, ObjectRef } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { Random } from "../../ports/random.ts";

/** Identifies the leader of a write: a number that grows with every change of leader, and the leader's name. */
export interface Epoch {
  readonly number: number;
  readonly holder: string;
}

export interface LeaseTimes {
  /** How long a follower waits after the last observed renewal before it takes over. */
  readonly durationMs: number;
  /**
   * How long a leader may write after the request of its last successful renewal was sent. Shorter, so that it stops
   * before a follower takes over.
   */
  readonly renewDeadlineMs: number;
  readonly retryMs: number;
}

export interface LeaseOptions {
  readonly kube: KubeApi;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly namespace: string;
  readonly name: string;
  /** The identity of this process. Unique among all running processes; a restarted process may keep it. */
  readonly identity: string;
  readonly times?: Partial<LeaseTimes>;
}

export interface LeaseEvents {
  readonly acquired: (epoch: Epoch) => void;
  readonly lost: (why: string) => void;
}

const defaultTimes: LeaseTimes = { durationMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000 };
const leases = builtin.Lease;

interface LeaseSpec {
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
}

/**
 * One leader at a time, by a Lease object. Two clocks that disagree must not make two leaders, so no candidate compares
 * a time that another one wrote:
 *
 *   leader                                   follower
 *   t0  before the request: 10 s begin
 *   t1  renewed at the server                t2  sees the renewal: 15 s begin
 *   t0 + 10 s  stops writing                 t2 + 15 s  takes over
 *
 * t0 comes before t2, so a leader without an answer has stopped five seconds before a follower may take over. Both
 * spans are timers, which a step of the wall clock does not move. A paused process runs its timers late, so before each
 * write the leader also reads two clocks and uses the one that has advanced further: the monotonic one, which cannot be
 * set back, and the wall clock, which alone advances while the machine sleeps.
 *
 * One case is not covered: a candidate that has never seen the Lease creates it and leads at once. So the Lease must
 * not be deleted while a process leads.
 */
export class Lease {
  private readonly options: LeaseOptions;
  private readonly times: LeaseTimes;
  private readonly ref: ObjectRef;
  private events: LeaseEvents = { acquired: () => {}, lost: () => {} };
  private state: "stopped" | "following" | "leading" = "stopped";
  private current: Epoch | undefined;
  private takenRevision: Revision | undefined;
  /** The Lease as this process last read or wrote it; undefined after a write of unknown outcome. */
  private seen: KubeObject | undefined;
  /** The last leader that was logged. */
  private leader = "";
  /** The Lease of another holder as it last changed, and whether it has expired since. */
  private watched = { resourceVersion: "", isExpired: false, stopTimer: (): void => {} };
  /** The highest epoch that was ever observed: a Lease that was deleted and created again does not start at zero. */
  private highestNumber = -1;
  private proof: Proof | undefined;
  private request: CancelSource | undefined;
  private stopTick: () => void = () => {};

  constructor(options: LeaseOptions) {
    this.options = options;
    this.times = { ...defaultTimes, ...options.times };
    const { durationMs, renewDeadlineMs, retryMs } = this.times;
    assert(
      retryMs < renewDeadlineMs && renewDeadlineMs < durationMs,
      () =>
        `lease times: retry (${retryMs} ms) must be below renew deadline (${renewDeadlineMs} ms), and that below duration (${durationMs} ms)`,
    );
    this.ref = { ...leases, namespace: options.namespace, name: options.name };
  }

  /** The epoch in which this process leads, or undefined. */
  get epoch(): Epoch | undefined {
    return this.current;
  }

  /** The revision of the write that acquired the lease. A list at or beyond it contains all earlier writes. */
  get takenAt(): Revision | undefined {
    return this.current === undefined ? undefined : this.takenRevision;
  }

  /**
   * Whether this process can prove, by its own clocks alone, that it is the only leader. A write may be sent only while
   * this holds.
   */
  get isProven(): boolean {
    const { proof } = this;
    if (this.state !== "leading" || proof === undefined || proof.isOver) return false;
    const { clock } = this.options;
    const spentMs = Math.max(clock.monotonicMs() - proof.sinceMonotonicMs, clock.nowMs() - proof.sinceMs);
    // The lease is not lost: the next successful renewal proves it again. Until then no write is sent.
    proof.isOver = spentMs >= this.times.renewDeadlineMs;
    return !proof.isOver;
  }

  start(events: LeaseEvents): void {
    this.events = events;
    this.state = "following";
    // The gauge is set also in a process that has never led, so that an alert can ask whether any process leads.
    this.options.metrics.gauge("muster_lease_held", { lease: this.options.name }, 0);
    void this.tick();
  }

  /** Releases the lease, so that the next leader need not wait until it expires. No write may follow. */
  async stop(): Promise<void> {
    const wasLeading = this.state === "leading" && this.isProven;
    const { seen } = this;
    this.state = "stopped";
    this.current = undefined;
    this.stopTick();
    this.watched.stopTimer();
    this.proof?.stopTimer();
    this.request?.cancel();
    if (!wasLeading || seen === undefined) return;
    const spec = { ...specOf(seen), holderIdentity: "", leaseDurationSeconds: 1, renewTime: this.now() };
    await applyIntent(this.options.kube, this.written(seen, spec, "the lease is released"));
  }

  /**
   * One attempt to acquire or renew. Attempts do not overlap; the next one starts a fixed time after this one has
   * ended.
   */
  private async tick(): Promise<void> {
    try {
      if (this.state === "leading") await this.renew();
      else if (this.state === "following") await this.follow();
    } catch (error) {
      this.seen = undefined;
      this.options.log.error({ lease: this.options.name, error }, "the lease loop threw an exception");
    }
    if (this.state === "stopped") return;
    const { clock, random } = this.options;
    this.stopTick = clock.after(spread(this.times.retryMs, 0.1, random), () => void this.tick());
  }

  private async follow(): Promise<void> {
    const found = await this.call((cancel) => this.options.kube.get(this.ref, { cancel }));
    if (this.state !== "following") return;
    if (!found.ok) {
      // The Lease was deleted while a process led, which may write until its deadline: it counts as not renewed.
      const isFree = this.watched.resourceVersion === "" || this.watched.isExpired;
      if (found.reason === "NotFound" && isFree) await this.take(undefined);
      return;
    }
    const lease = found.value;
    const { holderIdentity = "", leaseDurationSeconds, leaseTransitions } = specOf(lease);
    this.observe(lease.metadata.resourceVersion, (leaseDurationSeconds ?? 0) * 1000);
    this.highestNumber = Math.max(this.highestNumber, leaseTransitions ?? -1);
    // A Lease that names this process while it does not lead is free: its own request landed without an answer, or an
    // earlier process with the same identity held it.
    const isFree = holderIdentity === "" || holderIdentity === this.options.identity;
    if (!isFree && holderIdentity !== this.leader) {
      this.leader = holderIdentity;
      this.options.log.info({ lease: this.options.name, holder: holderIdentity }, "another process leads");
    }
    if (isFree || this.watched.isExpired) await this.take(lease);
  }

  /** A renewal changes the object. How long it stays unchanged is measured by our timer alone. */
  private observe(resourceVersion: string, durationMs: number): void {
    if (this.watched.resourceVersion === resourceVersion) return;
    this.watched.stopTimer();
    const watched = { resourceVersion, isExpired: false, stopTimer: (): void => {} };
    // Measured by a local timer: a step of either machine's wall clock makes no leader.
    watched.stopTimer = this.options.clock.after(durationMs, () => {
      watched.isExpired = true;
    });
    this.watched = watched;
  }

  private async take(lease: KubeObject | undefined): Promise<void> {
    const { identity, namespace, name, kube, log, metrics } = this.options;
    const time = this.now();
    const before = lease === undefined ? {} : specOf(lease);
    // Every take-over is a new epoch, also by the previous holder: its earlier process may still have writes in flight.
    const number = Math.max(before.leaseTransitions ?? -1, this.highestNumber) + 1;
    const spec = {
      ...before,
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(this.times.durationMs / 1000),
      acquireTime: time,
      renewTime: time,
      leaseTransitions: number,
    };
    const proof = this.beginProof();
    const outcome = await this.call((cancel) => {
      const why = "the lease is free";
      if (lease !== undefined) return applyIntent(kube, this.written(lease, spec, why), { cancel });
      const object = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { namespace, name }, spec };
      const target = this.ref;
      return applyIntent(kube, { type: "create", target, absentAtRevision: firstRevision, object, why }, { cancel });
    });
    if (!outcome.ok || this.state !== "following" || proof.isOver) {
      proof.stopTimer();
      // Another candidate was first. If the Lease does not exist at the next read, it was deleted while held.
      if (!outcome.ok && outcome.reason === "AlreadyExists") this.observe("taken", this.times.durationMs);
      return;
    }
    this.seen = outcome.value.object;
    this.takenRevision = outcome.value.revision ?? firstRevision;
    this.state = "leading";
    this.leader = identity;
    this.highestNumber = number;
    this.proof = proof;
    this.current = { number, holder: identity };
    metrics.gauge("muster_lease_held", { lease: name }, 1);
    log.info({ lease: name, holder: identity, epoch: number }, "lease won");
    this.events.acquired(this.current);
  }

  private async renew(): Promise<void> {
    const { kube, identity } = this.options;
    const lease = this.seen ?? (await this.lookAtOurs());
    if (lease === undefined || this.state !== "leading") return;
    const { holderIdentity, leaseTransitions } = specOf(lease);
    if (holderIdentity !== identity || leaseTransitions !== this.current?.number) {
      this.lose(`the lease is held by ${JSON.stringify(holderIdentity ?? "")}`);
      return;
    }
    const proof = this.beginProof();
    const spec = { ...specOf(lease), renewTime: this.now() };
    const renewed = this.written(lease, spec, "this process leads");
    const outcome = await this.call((cancel) => applyIntent(kube, renewed, { cancel }));
    if (!outcome.ok || this.state !== "leading" || proof.isOver) {
      proof.stopTimer();
      // Another client wrote to it, or the write of this process may have landed: it is read before the next attempt.
      this.seen = undefined;
      return;
    }
    this.seen = outcome.value.object;
    this.proof?.stopTimer();
    this.proof = proof;
  }

  private async lookAtOurs(): Promise<KubeObject | undefined> {
    const found = await this.call((cancel) => this.options.kube.get(this.ref, { cancel }));
    if (found.ok) return found.value;
    if (found.reason === "NotFound" && this.state === "leading") this.lose("the lease was deleted");
    return undefined;
  }

  /**
   * A write of the lease carries the version that was read: of two processes that read the same version, one succeeds.
   */
  private written(lease: KubeObject, spec: object, why: string): UpdateIntent {
    return { type: "update", target: this.ref, expected: expectedOf(lease), object: { ...lease, spec }, why };
  }

  /** A successful answer counts from now, before the request is sent. */
  private beginProof(): Proof {
    const { clock } = this.options;
    const since = { sinceMonotonicMs: clock.monotonicMs(), sinceMs: clock.nowMs() };
    const proof: Proof = { ...since, isOver: false, stopTimer: () => {} };
    proof.stopTimer = clock.after(this.times.renewDeadlineMs, () => {
      proof.isOver = true;
      if (this.proof === proof && this.state === "leading") this.lose("the lease could not be renewed in time");
    });
    return proof;
  }

  private lose(why: string): void {
    const { name, log, metrics } = this.options;
    this.state = "following";
    this.current = undefined;
    this.seen = undefined;
    this.proof?.stopTimer();
    this.proof = undefined;
    metrics.gauge("muster_lease_held", { lease: name }, 0);
    log.warn({ lease: name, why }, "lease lost");
    this.events.lost(why);
  }

  /** A request is cancelled when its answer would come too late to prove the lease. */
  private async call<T>(send: (cancel: CancelSource) => Promise<Outcome<T>>): Promise<Outcome<T>> {
    const cancel = new CancelSource();
    this.request = cancel;
    const stopTimer = this.options.clock.after(this.times.renewDeadlineMs, () => cancel.cancel());
    const outcome = await send(cancel);
    stopTimer();
    return outcome;
  }

  private now(): string {
    return formatMicroTime(this.options.clock.nowMs());
  }
}

interface Proof {
  readonly sinceMonotonicMs: number;
  /** By the wall clock. */
  readonly sinceMs: number;
  isOver: boolean;
  stopTimer: () => void;
}

function specOf(lease: KubeObject): LeaseSpec {
  return (lease["spec"] ?? {}) as LeaseSpec;
}

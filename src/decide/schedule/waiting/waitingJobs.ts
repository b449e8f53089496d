import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { addTo, type Vector, zeroVector } from "../cluster/resources.ts";
import type { Step } from "../placement/gangSteps.ts";
import { type GateRefusal, gateRefusal } from "../queues/gates.ts";
import type { QueueState } from "../queues/queueTree.ts";
import type { RetryLimits } from "./retryLimits.ts";

/** The first and the longest back-off of a job that a cycle failed on. */
const asideMs = 1_000;
const asideMsMax = 300_000;

/** Why a job was not placed, as far as it decides when the job is tried again. */
export interface FailedTry {
  readonly job: Job;
  /** What it lacked a place for; undefined if it lacked something else. */
  readonly step: Step | undefined;
  readonly gate: GateRefusal | undefined;
  /** Whether only other labels, taints or capacities of nodes can help. */
  readonly isHopeless: boolean;
  /** Whether the cycle ended before it had searched victims for the job, or explained why the job waits. */
  readonly isCutShort: boolean;
  /** Whether the cycle failed on it. */
  readonly isFaulty: boolean;
}

/** A job whose last try failed. */
interface Failure {
  readonly tried: FailedTry;
  readonly round: number;
  readonly shapes: readonly PodShape[];
}

/** The waiting jobs of a queue; of pods without a queue, those of a namespace. */
class WaitingLine {
  readonly key: string;
  readonly jobs = new Set<Job>();
  /** In order of their last try, the oldest first. */
  readonly cutShort = new Map<Job, Failure>();
  readonly failed = new Map<Job, Failure>();
  readonly hopeless = new Map<Job, Failure>();
  /** Set aside after an exception. */
  readonly faulty = new Map<Job, Failure>();
  /** The sum of the requests of its jobs, until one of them changes. */
  requests: Vector | undefined;
  slicedMs = Number.NEGATIVE_INFINITY;

  constructor(key: string) {
    this.key = key;
  }

  get failures(): number {
    return this.cutShort.size + this.failed.size + this.hopeless.size;
  }
}

/**
 * Jobs with pending pods, and which of them the next cycle tries. A job that could not be placed is remembered, so that
 * the cost of a cycle follows what has changed and not the number of jobs that wait:
 *
 * - A job that is new, or has changed itself, is tried at once.
 * - So is one that fits on a node that has gained room, or whose queue no longer refuses it.
 * - The others follow in slices, the one whose last try is longest ago first, until each was tried since the last
 *   change: victims, fair shares and the texts about them change with everything.
 * - Of those that no node could run if it were empty, none is tried before the facts of nodes change.
 * - A job that the cycle failed on is set aside until it changes itself, or its back-off ends.
 *
 * Each queue has slices of its own, so that the jobs of one do not delay those of another. A queue with no more of
 * them than fit in a slice has all of them tried in each cycle.
 */
export class WaitingJobs {
  private readonly jobs = new Set<Job>();
  /**
   * Jobs whose pending pods may have changed. They are folded in when the next caller asks: trials of a cycle that are
   * rolled back leave nothing to do.
   */
  private readonly touched = new Set<Job>();
  private readonly forgotten = new Set<string>();
  private readonly lines = new Map<string, WaitingLine>();
  private readonly lineOf = new Map<Job, WaitingLine>();
  /** Jobs without a remembered failure. */
  private readonly fresh = new Set<Job>();
  private readonly failureOf = new Map<Job, Failure>();
  /** Back-offs of jobs that cycles failed on, running ones too. */
  private readonly aside = new WeakMap<Job, { readonly untilMs: number; readonly times: number }>();
  /** Increases with each change, and when time has changed something. */
  private round = 0;
  private changesSeen = -1;
  private factsSeen = "";
  /** The round in which facts of nodes changed last. */
  private factsRound = 0;
  /** What queues had released at the end of the last cycle. */
  private readonly releasesSeen = new WeakMap<QueueState, number>();
  /** When time alone may change the outcome for some of the jobs. */
  private wakeMs = Number.POSITIVE_INFINITY;

  /** Jobs with pending pods. */
  get all(): ReadonlySet<Job> {
    this.settle();
    return this.jobs;
  }

  /** Ids of jobs whose failure is no longer remembered, since a cycle last asked. */
  get released(): Set<string> {
    this.settle();
    return this.forgotten;
  }

  /** The job may have pending pods or none, another queue, or other pods. */
  update(job: Job): void {
    this.touched.add(job);
  }

  private settle(): void {
    if (this.touched.size === 0) return;
    for (const job of this.touched) this.settleOne(job);
    this.touched.clear();
  }

  private settleOne(job: Job): void {
    if (job.pendingCount === 0 && job.waitingStray === undefined) {
      this.drop(job);
      return;
    }
    const line = this.lineFor(job);
    const before = this.lineOf.get(job);
    if (before !== line) {
      this.leave(job, before);
      line.jobs.add(job);
      this.lineOf.set(job, line);
    }
    line.requests = undefined;
    this.jobs.add(job);
    if (!this.failureOf.has(job)) this.fresh.add(job);
  }

  remove(job: Job): void {
    this.touched.delete(job);
    this.drop(job);
  }

  private drop(job: Job): void {
    if (!this.jobs.delete(job)) return;
    this.forget(job);
    this.fresh.delete(job);
    this.leave(job, this.lineOf.get(job));
    this.lineOf.delete(job);
  }

  /** A fact of the job itself has changed: it is tried again at once. */
  changed(job: Job | undefined): void {
    if (job === undefined) return;
    const aside = this.aside.get(job);
    if (aside !== undefined) this.aside.set(job, { untilMs: 0, times: aside.times });
    this.settle();
    if (!this.jobs.has(job)) return;
    this.requestsChanged(job);
    if (this.forget(job)) this.fresh.add(job);
  }

  requestsChanged(job: Job): void {
    this.settle();
    const line = this.lineOf.get(job);
    if (line !== undefined) line.requests = undefined;
  }

  /** Something that concerns all jobs has changed. */
  changedAll(): void {
    this.settle();
    for (const job of [...this.failureOf.keys()]) this.changed(job);
    for (const line of this.lines.values()) line.requests = undefined;
  }

  /** Whether the reason why the job waits is the one of its last try. */
  isRemembered(job: Job | undefined): boolean {
    this.settle();
    return job !== undefined && this.failureOf.has(job);
  }

  /** The requests of all jobs of each queue. */
  *requests(cluster: Cluster): Iterable<{ queue: QueueState; vector: Readonly<Vector> }> {
    this.settle();
    for (const line of this.lines.values()) {
      const [first] = line.jobs;
      if (first?.queue === undefined) continue;
      if (line.requests === undefined) {
        line.requests = zeroVector();
        for (const job of line.jobs) addTo(line.requests, requestOf(cluster, job));
      }
      yield { queue: first.queue, vector: line.requests };
    }
  }

  /** The jobs that the next cycle tries. Without limits all of them. */
  due(cluster: Cluster, nowMs: number, limits: RetryLimits | undefined): readonly Job[] {
    this.settle();
    if (limits === undefined) return [...this.jobs].filter((job) => !this.isAside(job, nowMs));
    this.beginRound(cluster, nowMs);
    const gained = [...cluster.table.gained].filter((node) => cluster.table.nodes[node.index] === node);
    for (const line of this.lines.values()) {
      for (const job of [...line.faulty.keys()]) if (!this.isAside(job, nowMs)) this.changed(job);
      if (line.failures <= limits.jobsMax) {
        for (const each of [line.cutShort, line.failed, line.hopeless]) this.takeStale(line, each, limits.jobsMax);
        continue;
      }
      this.takeHelped(cluster, line, gained, limits);
      if (nowMs >= line.slicedMs && nowMs < line.slicedMs + limits.pauseMs) continue;
      // What a change has not helped is less urgent than what no cycle has looked at yet.
      const first = this.takeStale(line, line.cutShort, limits.jobsMax);
      let left = Math.min(limits.jobsMax - first, Math.ceil(limits.jobsMax / 4));
      for (const each of [line.failed, line.hopeless]) left -= this.takeStale(line, each, left);
      line.slicedMs = nowMs;
    }
    return [...this.fresh].filter((job) => !this.isAside(job, nowMs));
  }

  /** A cycle failed on the job, which waits or runs: it is left out until it changes, or its back-off ends. */
  setAside(job: Job, nowMs: number): void {
    const times = (this.aside.get(job)?.times ?? 0) + 1;
    const untilMs = nowMs + Math.min(asideMsMax, asideMs * 2 ** (times - 1));
    this.aside.set(job, { untilMs, times });
    this.wakeMs = Math.min(this.wakeMs, untilMs);
  }

  isAside(job: Job, nowMs: number): boolean {
    return nowMs < (this.aside.get(job)?.untilMs ?? 0);
  }

  /** Remembers what could not be placed. Returns when a cycle has to run although nothing has changed. */
  note(
    cluster: Cluster,
    failures: Iterable<FailedTry>,
    { nowMs, wakeMs, limits }: { nowMs: number; wakeMs: number | undefined; limits: RetryLimits | undefined },
  ): number | undefined {
    this.settle();
    // What was tried and rolled back changed nothing.
    cluster.table.gained.clear();
    cluster.terms.changed.clear();
    for (const queue of cluster.queues.byName.values()) this.releasesSeen.set(queue, queue.releases);
    if (limits === undefined) return wakeMs;
    for (const tried of failures) {
      const { job, step, isHopeless, isCutShort, isFaulty } = tried;
      const line = this.lineOf.get(job);
      if (line === undefined) continue;
      const shapes = step === undefined ? [] : [...new Set(step.tasks.map(({ shape }) => shape))];
      const failure: Failure = { tried, round: this.round, shapes };
      this.forget(job);
      this.fresh.delete(job);
      this.failureOf.set(job, failure);
      const { faulty, cutShort, hopeless, failed } = line;
      (isFaulty ? faulty : isCutShort ? cutShort : isHopeless ? hopeless : failed).set(job, failure);
    }
    if (wakeMs !== undefined) this.wakeMs = Math.min(this.wakeMs, wakeMs);
    let nextMs = this.wakeMs;
    for (const line of this.lines.values()) {
      const [oldest] = line.failed.values();
      const [hopeless] = line.hopeless.values();
      const isBehind =
        line.cutShort.size > 0 ||
        (oldest !== undefined && oldest.round < this.round) ||
        (hopeless !== undefined && hopeless.round < this.factsRound);
      if (isBehind) nextMs = Math.min(nextMs, nowMs + limits.pauseMs);
    }
    return Number.isFinite(nextMs) ? nextMs : undefined;
  }

  private beginRound(cluster: Cluster, nowMs: number): void {
    const isAwake = nowMs >= this.wakeMs;
    if (isAwake) this.wakeMs = Number.POSITIVE_INFINITY;
    if (cluster.changes.count !== this.changesSeen || isAwake) this.round++;
    this.changesSeen = cluster.changes.count;
    const facts = cluster.fit.factsStamp;
    if (facts !== this.factsSeen) this.factsRound = this.round;
    this.factsSeen = facts;
  }

  /** Jobs of a line that a change has helped. */
  private takeHelped(
    cluster: Cluster,
    line: WaitingLine,
    gained: readonly NodeState[],
    { jobsMax }: RetryLimits,
  ): void {
    const { fit, terms } = cluster;
    const [first] = line.jobs;
    const hasReleased = first?.queue !== undefined && this.hasReleased(first.queue);
    const areTermsChanged = terms.changed.size > 0;
    if (gained.length === 0 && !hasReleased && !areTermsChanged) return;
    const fits = new Map<PodShape, boolean>();
    const isHelped = (shape: PodShape): boolean => {
      let known = fits.get(shape);
      if (known === undefined) {
        known = gained.some(({ index }) => fit.score(shape, index) >= 0);
        known ||= areTermsChanged && !shape.isLocal && terms.hasChanged(shape);
        fits.set(shape, known);
      }
      return known;
    };
    // Whether other pods keep it from the node, only a search can tell.
    let searchesLeft = jobsMax;
    const isDue = ({ tried: { job, gate }, shapes }: Failure): boolean => {
      if (gate !== undefined) {
        return hasReleased && gateRefusal(gate.queue, job.isPreemptible, gate.requested) === undefined;
      }
      if (!shapes.some(isHelped)) return false;
      return shapes.every(({ isLocal }) => isLocal) || --searchesLeft >= 0;
    };
    const failures = [...line.cutShort.values(), ...line.failed.values()];
    // Only nodes with other labels, taints or capacities can help these.
    if (this.factsRound === this.round) failures.push(...line.hopeless.values());
    for (const each of failures) if (isDue(each)) this.changed(each.tried.job);
  }

  /** Whether a queue, or one above it, uses less than at the end of the last cycle. */
  private hasReleased(queue: QueueState): boolean {
    for (const each of queue.path()) if (this.releasesSeen.get(each) !== each.releases) return true;
    return false;
  }

  /** Makes up to so many jobs due whose last try was before the last change. Returns how many. */
  private takeStale(line: WaitingLine, failures: ReadonlyMap<Job, Failure>, jobsMax: number): number {
    const before = failures === line.hopeless ? this.factsRound : this.round;
    let count = 0;
    for (const [job, { round, tried }] of failures) {
      if (count === jobsMax || (round >= before && !tried.isCutShort)) break;
      count++;
      this.forget(job);
      this.fresh.add(job);
    }
    return count;
  }

  private forget(job: Job): boolean {
    if (!this.failureOf.delete(job)) return false;
    const line = this.lineOf.get(job);
    for (const each of [line?.cutShort, line?.failed, line?.hopeless, line?.faulty]) each?.delete(job);
    this.forgotten.add(job.id);
    return true;
  }

  private leave(job: Job, line: WaitingLine | undefined): void {
    if (line === undefined) return;
    for (const each of [line.cutShort, line.failed, line.hopeless, line.faulty]) each.delete(job);
    line.jobs.delete(job);
    line.requests = undefined;
    if (line.jobs.size === 0) this.lines.delete(line.key);
  }

  private lineFor({ isGroup, queueName, namespace }: Job): WaitingLine {
    const key = isGroup ? `queue ${queueName}` : `namespace ${namespace}`;
    let line = this.lines.get(key);
    if (line === undefined) {
      line = new WaitingLine(key);
      this.lines.set(key, line);
    }
    return line;
  }
}

/** A request that cannot be read counts for nothing; the cycle that tries the job reports the exception. */
function requestOf(cluster: Cluster, job: Job): Readonly<Vector> {
  try {
    return cluster.pendingVector(job);
  } catch {
    return zeroVector();
  }
}

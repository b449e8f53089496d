import type { Job } from "../../decide/schedule/cluster/job.ts";
import type { Task } from "../../decide/schedule/cluster/task.ts";
import { cycle, type Plan, type PlannedBind } from "../../decide/schedule/cycle.ts";
import { explain, explainFault, explainMissingGroup, explainUnserved } from "../../decide/schedule/explain/explain.ts";
import type { PodEffect } from "../../decide/schedule/model/podEffects.ts";
import type { QueueState } from "../../decide/schedule/queues/queueTree.ts";
import type { Session } from "../../decide/schedule/session.ts";
import type { JobFault } from "../../decide/schedule/waiting/jobFault.ts";
import type { ApplyOptions, Written } from "../../intents/applyIntent.ts";
import { AssertionFailure } from "../../model/assert.ts";
import { type Intent, keyOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isPermanent, type Outcome, type Refusal } from "../../model/outcome.ts";
import { firstRevision, type Revision } from "../../model/revision.ts";
import { nodePoolOf } from "../../model/scheduling/keys.ts";
import { poolName } from "../../model/scheduling/podGroup.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { type Committed, InFlightWrites, type Pace } from "../runtime/inFlightWrites.ts";
import type { ReconcileResult } from "../runtime/loop.ts";
import { cycleAuthor, Evictions } from "./evictions.ts";
import type { GroupMarks } from "./groupMarks.ts";
import { withdrawFromLostNodes } from "./lostNodes.ts";
import { CycleDurations, measureBudgets, measureSearch } from "./measures.ts";
import type { Found } from "./pendingReasons.ts";
import { commitsOf, type JobCommit } from "./planIntents.ts";
import type { SchedulerCaches } from "./schedulerCaches.ts";
import { startBackOff } from "./startBackOff.ts";
import { lookAtNodes, takeOver, voidSet } from "./takeOver.ts";

/** Enough concurrent writes that one fsync of the API server covers many. */
const pace: Pace = { atOnce: 256, ramp: "none", stop: "never" };
/** The longest back-off after a refused bind: a policy or webhook that refuses it has to change. */
const longestMs = 300_000;
/** The first and the longest back-off after a failed cycle. */
const soonMs = 10;
const soonMsMax = 1_000;

export interface CycleOutcome {
  readonly revision: Revision;
  readonly found: readonly Found[];
  /** Ids of jobs that the cycle has tried, or that have changed or ended; the reasons of the others still hold. */
  readonly released: ReadonlySet<string>;
  /** UIDs of pods with claims that fit no node. */
  readonly claimsFitNowhere: readonly string[];
}

/** Callbacks of a cycle. */
export interface CycleListener {
  /** Before the first write: UIDs of pods whose nomination cannot be met, and the ids of their jobs. */
  onBroken(broken: ReadonlyMap<string, string>): void;
  /** After the last. */
  onOutcome(outcome: CycleOutcome): void;
}

/**
 * Runs scheduling cycles: brings the model up to date with the caches, decides, and writes the plan. Every intent
 * counts in the ledger before the first write is sent.
 */
export class SchedulingCycles {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly recorder: EventRecorder;
  private readonly marks: GroupMarks;
  private readonly evictions: Evictions;
  private readonly listener: CycleListener;
  /** Jobs that had pods running before the plan that is being carried out. */
  private running: ReadonlySet<Job> = new Set();
  /** The epoch in which the writes of earlier leaders were fenced. */
  private tookOverIn: string | undefined;
  /** Pods that could not be fenced against writes of earlier leaders. */
  private unmarked: { readonly epoch: string; readonly sinceMs: Map<string, number> } = {
    epoch: "",
    sinceMs: new Map(),
  };
  /** The epoch in which missing starts were recorded; "" before the first. */
  private startsKnownIn: string | undefined = "";
  /** The number of broken watches, and the epoch, at which nodes were last compared with those of the API. */
  private caughtUp = "0 ";
  private decidedVersion = -1;
  /** Failed cycles in a row. */
  private failures = 0;
  private wakeMs: number | undefined;
  /** What was measured last, by queue. */
  private readonly measured = new Map<string, { readonly displayName: string; readonly amounts: readonly number[] }>();
  private readonly inFlight: InFlightWrites<PodEffect>;

  constructor(
    controllers: Controllers,
    caches: SchedulerCaches,
    recorder: EventRecorder,
    marks: GroupMarks,
    listener: CycleListener,
  ) {
    this.marks = marks;
    this.controllers = controllers;
    this.caches = caches;
    this.recorder = recorder;
    this.listener = listener;
    const writer = { apply: this.apply.bind(this) };
    this.inFlight = new InFlightWrites({ kube: controllers.kube, writer }, caches.assumeCache);
    this.evictions = new Evictions(controllers, caches, recorder, marks, this.inFlight);
  }

  async reconcile(cancel: Cancel): Promise<ReconcileResult> {
    const { caches, controllers } = this;
    const { clock, metrics, log } = controllers.ports;
    const refusal =
      (await this.takeOver(cancel)) ?? (await this.takeOverClaims(cancel)) ?? (await this.catchUp(cancel));
    if (refusal !== undefined) return this.soon(refusal);
    const lost = { writer: controllers.writer, inFlight: this.inFlight, author: cycleAuthor };
    const unfenced = await withdrawFromLostNodes(caches, lost, cancel);
    if (unfenced !== undefined) return this.soon(unfenced.message);
    // An intent of unknown outcome is resolved by a read, or sent again: its pods count as placed until then.
    await this.inFlight.resolveWrites(cycleAuthor, { cancel, unproven: "send" });
    const unfinished = await this.evictions.finish(cancel);
    if (unfinished !== undefined) return this.soon(unfinished);
    const revision = caches.model.applyAssumed();
    if (!caches.assumeCache.snapshot().isComplete) return { again: "the caches have not synced" };
    if (this.startsKnownIn !== this.tookOverIn) {
      this.marks.noteForgottenStarts();
      this.startsKnownIn = this.tookOverIn;
    }
    this.beginWithDevices();
    const nowMs = clock.nowMs();
    const { cluster } = caches;
    if (this.isNothingNew(nowMs)) return this.sleep(nowMs);
    const found: Found[] = [];
    const durations = new CycleDurations(clock, metrics);
    const plan = cycle(
      cluster,
      nowMs,
      (session) => {
        explainWaiting(session, found);
        this.explainStrays(found);
      },
      durations,
    );
    durations.close();
    for (const fault of plan.faults) this.reportFault(fault);
    caches.model.onDecided(nowMs);
    this.decidedVersion = cluster.changes.count;
    this.wakeMs = plan.wakeMs;
    this.measure(plan);
    this.listener.onBroken(new Map([...plan.broken, ...this.nominationsWithoutGroup()]));
    const hasFailed = await this.carryOut(plan, revision, cancel);
    const released = new Set(cluster.waitingJobs.released);
    cluster.waitingJobs.released.clear();
    this.listener.onOutcome({
      revision,
      found,
      released,
      claimsFitNowhere: cluster.shapes.haveClaims ? stuckWithClaims(plan) : [],
    });
    if (plan.jobs.length > 0 || plan.evictions.length > 0) {
      log.debug({ revision, jobs: plan.jobs.length, evictions: plan.evictions.length }, "decided");
    }
    if (hasFailed) {
      // A refused write is decided again, also if no fact has changed.
      this.decidedVersion = -1;
      return this.soon("a write was refused");
    }
    this.failures = 0;
    return this.sleep(clock.nowMs());
  }

  /** Requeues with back-off. The longest one is short, because all pods wait for the next cycle. */
  private soon(why: string): ReconcileResult {
    const requeueAfterMs = Math.min(soonMsMax, soonMs * 2 ** this.failures++);
    this.controllers.ports.log.debug({ why, requeueAfterMs }, "cycle requeued");
    return { requeueAfterMs };
  }

  /** Takes over once in each epoch. Returns why that failed, or why nothing may be written now: then no cycle runs. */
  private async takeOver(cancel: Cancel): Promise<string | undefined> {
    const { lease } = this.controllers;
    if (lease === undefined) return undefined;
    if (lease.epoch === undefined) return "this process does not hold the lease";
    // No write would be sent, and releasing the chosen devices again would requeue the cycle.
    if (!lease.isProven) return "the lease has to be renewed before anything is written";
    const epoch = JSON.stringify(lease.epoch);
    if (this.tookOverIn === epoch) return undefined;
    const { pendingClaims } = this.caches.model;
    if (pendingClaims !== undefined) pendingClaims.decidedBy = "take-over";
    if (this.unmarked.epoch !== epoch) this.unmarked = { epoch, sinceMs: new Map() };
    const refusal = await takeOver(
      this.controllers,
      this.caches,
      { epoch, since: lease.takenAt ?? firstRevision, unmarkedMs: this.unmarked.sinceMs },
      cancel,
    );
    if (refusal !== undefined) return refusal;
    // No write of an earlier leader can take effect any more.
    this.inFlight.forget(cycleAuthor);
    this.tookOverIn = epoch;
    return undefined;
  }

  /** An allocation by an earlier leader must not land after its device was allocated to another claim. */
  private async takeOverClaims(cancel: Cancel): Promise<string | undefined> {
    const outcome = await this.caches.devices?.takeOver.done(cancel);
    return outcome === undefined || outcome.ok ? undefined : outcome.message;
  }

  /** The caches have synced: what counts as in flight now was decided by an earlier leader. */
  private beginWithDevices(): void {
    const { devices } = this.caches;
    const { pendingClaims } = this.caches.model;
    if (pendingClaims === undefined || devices === undefined || pendingClaims.decidedBy === "scheduler") return;
    pendingClaims.decidedBy = "scheduler";
    devices.report.tookOver("scheduler", devices.tracker, { voided: devices.takeOver.voided });
  }

  /**
   * Nothing is decided while a watch is broken: pods may be current while their nodes were deleted long ago. After that
   * the cached nodes are compared with those of the API until they have caught up; returns why they have not.
   */
  private async catchUp(cancel: Cancel): Promise<string | undefined> {
    const { caches } = this;
    const unfollowed = caches.neededWatches.find(({ isFollowed }) => !isFollowed);
    if (unfollowed !== undefined) return `the watch of ${unfollowed.kind} is broken and is being opened again`;
    const breaks = caches.neededWatches.reduce((sum, each) => sum + each.breaks, 0);
    const seen = `${breaks} ${this.tookOverIn ?? ""}`;
    if (this.caughtUp === seen) return undefined;
    const refusal = await lookAtNodes(this.controllers.kube, caches, cancel);
    if (refusal === undefined) this.caughtUp = seen;
    return refusal;
  }

  /** As the runtime does for a reconcile that throws; the exception may name objects of other tenants. */
  private reportFault({ job, cause }: JobFault): void {
    const { log, metrics } = this.controllers.ports;
    metrics.count("muster_reconcile_exceptions_total", {
      controller: "scheduler",
      kind: cause instanceof AssertionFailure ? "assertion" : "exception",
    });
    log.error({ job: job.id, error: cause }, "a cycle failed on a job, and goes on without it");
    this.recorder.record(job.owner, {
      type: "Warning",
      reason: "ReconcileError",
      action: "Scheduling",
      note: "the scheduler stopped at an internal error on this object and retries with back-off; its log has the cause",
    });
  }

  private measure(plan: Plan): void {
    const { metrics } = this.controllers.ports;
    for (const { action, binds } of plan.jobs) {
      metrics.count("kai_podgroups_acted_on_by_action", { action });
      if (binds.length > 0) metrics.count("kai_podgroups_scheduled_by_action", { action });
    }
    if (plan.evictions.length > 0) metrics.count("kai_total_preemption_attempts", {});
    for (const [action, counts] of plan.searches) measureSearch(metrics, action, counts);
    measureBudgets(metrics, this.caches.cluster.settings.searchBudgets);
    for (const queue of this.caches.cluster.queues.byName.values()) this.measureQueue(queue);
  }

  /** Exports only changed values: there may be hundreds of queues, and a cycle changes a few. */
  private measureQueue({ displayName, name, fairShare, allocated }: QueueState): void {
    const { metrics } = this.controllers.ports;
    const now = [...fairShare, ...allocated];
    const before = this.measured.get(name);
    if (before?.displayName === displayName && now.every((each, at) => each === before.amounts[at])) return;
    this.measured.set(name, { displayName, amounts: now });
    const labels = { queue_name: displayName, queue_metadata_name: name, queue_display_name: displayName };
    metrics.gauge("kai_queue_fair_share_gpu", labels, fairShare[0] / 1000);
    metrics.gauge("kai_queue_fair_share_cpu_cores", labels, fairShare[1] / 1000);
    metrics.gauge("kai_queue_fair_share_memory_gb", labels, fairShare[2] / 1e9);
    metrics.gauge("kai_queue_gpu_usage", labels, allocated[0] / 1000);
    metrics.gauge("kai_queue_cpu_usage", labels, allocated[1] / 1000);
    metrics.gauge("kai_queue_memory_usage", labels, allocated[2] / 1e9);
  }

  /**
   * Explains pods whose group does not exist, or is in a node pool that no scheduler serves. The scheduler of the
   * default pool reports them.
   */
  private explainStrays(found: Found[]): void {
    const { cluster, groups } = this.caches;
    const { servedPools } = cluster;
    if (cluster.settings.nodePool !== "") return;
    for (const [id, tasks] of cluster.withoutGroup) {
      if (![...tasks].some(({ status }) => status === "pending")) continue;
      const group = groups.get(id);
      const waiting = waitingOf(tasks);
      if (group === undefined) found.push({ id, verdict: explainMissingGroup(id), waiting });
      else if (servedPools?.has(nodePoolOf(group)) === false)
        found.push({ id, verdict: explainUnserved(nodePoolOf(group), id), waiting });
    }
  }

  /** The UIDs of nominated pods whose group was deleted, with the id of the group. */
  private *nominationsWithoutGroup(): Iterable<readonly [string, string]> {
    const { cluster, groups } = this.caches;
    if (cluster.settings.nodePool !== "") return;
    for (const { uid, status, waitsForGroup: id } of cluster.nominated) {
      if (status === "pending" && id !== undefined && groups.get(id) === undefined) yield [uid, id];
    }
  }

  private isNothingNew(nowMs: number): boolean {
    const { cluster } = this.caches;
    if (cluster.changes.count === this.decidedVersion) return this.wakeMs === undefined || nowMs < this.wakeMs;
    return false;
  }

  private sleep(nowMs: number): ReconcileResult {
    // A write of unknown outcome may never have arrived: there may be no event for it.
    if (this.inFlight.inDoubt(cycleAuthor).length > 0) return this.soon("the outcome of a write is unknown");
    if (this.wakeMs === undefined) return undefined;
    return { requeueAfterMs: Math.max(1, this.wakeMs - nowMs) };
  }

  /** Sends the writes of a plan. True if one was refused, so that the cycle has to run again. */
  private async carryOut(plan: Plan, revision: Revision, cancel: Cancel): Promise<boolean> {
    const { caches } = this;
    const requestsRevision = caches.requests.revision;
    const nodePool = caches.cluster.settings.nodePool;
    const commits: JobCommit[] = [];
    this.running = new Set(plan.jobs.filter(({ job }) => job.allocatedCount > 0).map(({ job }) => job));
    for (const planned of plan.jobs) {
      for (const commit of commitsOf(planned, { cluster: caches.cluster, requestsRevision, nodePool })) {
        // A BindRequest of that name still exists, of an earlier pod or attempt. It is deleted first; its deletion
        // event starts the next cycle.
        if (commit.writes.some(({ decision: { intent } }) => intent.type === "create" && this.isTaken(intent)))
          this.decidedVersion = -1;
        else commits.push(commit);
      }
    }
    const writes = commits.flatMap((commit) => commit.writes.map((write) => ({ commit, ...write })));
    let hasFailed = false;
    const voided = new Set<JobCommit>();
    const written = new Map<JobCommit, KubeObject[]>();
    const tell = ({ outcome }: Committed, at: number): void => {
      const { commit, bind } = writes[at] as (typeof writes)[number];
      if (outcome.ok) {
        this.bound(commit.job, bind);
        const { object } = outcome.value;
        if (object !== undefined) written.set(commit, [...(written.get(commit) ?? []), object]);
        return;
      }
      hasFailed = true;
      if (outcome.reason === "Unknown") return;
      this.refused(bind, outcome);
      if (commit.commitId !== undefined) voided.add(commit);
    };
    const counted = (): void => caches.model.applyAssumedClaims();
    const decisions = writes.map(({ decision }) => decision);
    await this.inFlight.commit(decisions, { author: cycleAuthor, pace, counted, tell, cancel });
    for (const commit of voided) await voidSet(this.controllers.writer, written.get(commit) ?? [], cancel);
    if (plan.evictions.length > 0) {
      hasFailed = (await this.evictions.carryOut(plan, revision, cancel)) || hasFailed;
    }
    this.recordPipelined(plan);
    return hasFailed;
  }

  private isTaken({ target }: Intent): boolean {
    return this.caches.requests.get(keyOf(target.namespace, target.name)) !== undefined;
  }

  private async apply<T extends KubeObject>(intent: Intent<T>, options?: ApplyOptions): Promise<Outcome<Written<T>>> {
    const { clock, metrics } = this.controllers.ports;
    const startedMs = clock.monotonicMs();
    const outcome = await this.controllers.writer.apply(intent, options);
    if (intent.type === "bind") {
      metrics.observe("kai_task_bind_latency_milliseconds", {}, clock.monotonicMs() - startedMs);
    }
    return outcome;
  }

  private bound(job: Job, bind: PlannedBind): void {
    const { clock, metrics } = this.controllers.ports;
    const nowMs = clock.nowMs();
    if (!this.running.has(job)) this.marks.started(job, nowMs);
    metrics.observe("kai_task_scheduling_latency_milliseconds", {}, Math.max(0, nowMs - bind.task.createdMs));
    const note = `placed on ${bind.node} (node pool ${poolName(this.caches.cluster.settings.nodePool)})`;
    this.recorder.record(bind.task.pod, {
      type: "Normal",
      reason: "Scheduled",
      action: "Binding",
      note,
    });
  }

  private refused(bind: PlannedBind, refusal: Refusal): void {
    // Other reasons do not concern the bind itself: the cache was stale, the lease was lost, or the server is busy.
    if (!isPermanent(refusal)) return;
    const { message } = refusal;
    const { uid, pod } = bind.task;
    const why = `the bind to ${bind.node} was refused: ${message}`;
    startBackOff(this.caches.cluster, uid, { why, nowMs: this.controllers.ports.clock.nowMs(), longestMs });
    this.recorder.record(pod, {
      type: "Warning",
      reason: "FailedBinding",
      action: "Binding",
      note: why,
    });
  }

  private recordPipelined(plan: Plan): void {
    for (const { pipelined } of plan.jobs) {
      for (const { task, node } of pipelined) {
        this.recorder.record(task.pod, {
          type: "Normal",
          reason: "Pipelined",
          action: "Scheduling",
          note: `waits for what is being released on ${node}`,
        });
      }
    }
  }
}

function explainWaiting(session: Session, found: Found[]): void {
  const isLimited = session.cluster.settings.retryLimits !== undefined;
  for (const [job, obstacle] of session.obstacles) {
    const verdict = session.guarded(job, explainFault(), () => explain(session, job, obstacle));
    // Its reason is worked out in a later cycle, and reported then.
    if (isLimited && session.unexplained.has(job)) continue;
    found.push({ id: job.id, verdict, waiting: waitingOf(job.tasks) });
  }
}

/** Identifies the pending pods: each of them gets the reason, also one that was created again under the same name. */
function waitingOf(tasks: ReadonlySet<Task>): string {
  if (tasks.size === 1) for (const { uid } of tasks) return uid;
  let count = 0;
  let mixed = 0;
  for (const { status, uid } of tasks) {
    if (status !== "pending") continue;
    count++;
    mixed ^= Number.parseInt(uid.slice(0, 8), 16);
  }
  return `${count} ${mixed}`;
}

function stuckWithClaims({ obstacles }: Plan): string[] {
  const uids: string[] = [];
  for (const obstacle of obstacles.values()) {
    if (obstacle.type !== "placement") continue;
    for (const { shape, uid } of obstacle.step.tasks) if (shape.hasDeviceClaims) uids.push(uid);
  }
  return uids;
}

/**
 * The decision of the Job controller: pods run until enough have succeeded or too many have failed, each counted once.
 */

import type { Job, JobCondition, JobStatus, Pod } from "../../../model/kubernetes.generated.ts";
import { findCondition, isTrue, withoutCondition } from "../../../model/objects/condition.ts";
import { type IsTaken, TakenNames } from "../../../model/objects/derivedName.ts";
import { type Decision, Draft, withoutZeros } from "../../../model/objects/draft.ts";
import type { JsonObject } from "../../../model/objects/json.ts";
import { selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { claim, controllerOf } from "../../../model/objects/ownership.ts";
import { byAge, isActive, isReady, isTerminating } from "../../../model/objects/podFacts.ts";
import type { Revision } from "../../../model/revision.ts";
import { formatTime, timeToMs } from "../../../model/values/time.ts";
import { rankForDeletion } from "../deployments/scaleDown.ts";
import { pendingPodsMessage, pendingPodsRoom } from "../pendingPods.ts";
import { failureAction, replacesOnlyFailed, retryAtMs, retryIndexAtMs } from "./jobFailure.ts";
import { countOf, failureCountKey, formatIndexes, indexOf, isIndexed } from "./jobIndexes.ts";
import { JobPods } from "./jobPod.ts";
import { isTracked, type Tally, tallyPods, tallyStatus, trackingFinalizer } from "./jobTally.ts";
import { deadlineMs, isOver, judgeJob, storedVerdict, type Verdict } from "./jobVerdict.ts";

export interface JobSnapshot {
  readonly revision: Revision;
  readonly job: Job;
  /** All pods of the namespace, or at least those that the Job controls or selects. */
  readonly pods: readonly Pod[];
  /**
   * Whether a pod of the namespace already has this name. Needed where `pods` is not the whole namespace: a pod that
   * was released by a change of its labels keeps its name.
   */
  readonly isTaken?: IsTaken;
  /**
   * The revision of the list of pods. A pod that the list lacks counts as deleted only if the list is at least as new
   * as the Job: in an older list it may still appear, and would be counted twice. Undefined where that always holds.
   */
  readonly podsRevision?: Revision;
}

const writesMax = 500;
const ownManager = "kubernetes.io/job-controller";

export function decideJob(snapshot: JobSnapshot, nowMs: number): Decision {
  const { job } = snapshot;
  const { spec, metadata } = job;
  const draft = new Draft();
  if (spec === undefined || (spec.managedBy ?? ownManager) !== ownManager) return draft.decision();
  const candidates = [...snapshot.pods].sort(byAge);
  const pods = claim(draft, job, selectorRequirements(spec.selector), candidates, {
    finalizer: trackingFinalizer,
  });
  if (isOver(job) || metadata.deletionTimestamp !== undefined) {
    for (const pod of pods) letGo(draft, pod, `Job ${metadata.name} is over`);
    if (metadata.deletionTimestamp === undefined) expire(draft, job, nowMs);
    return draft.decision();
  }
  new Run(draft, snapshot, pods, nowMs).decide();
  return draft.decision();
}

/**
 * Removes the finalizer from a pod whose Job is deleted: no controller will count it. `job` is the object with the
 * owner's UID.
 */
export function decideOrphanedJobPod(pod: Pod, job: Job | undefined): Decision {
  const draft = new Draft();
  const owner = controllerOf(pod.metadata);
  const isOrphan = owner === undefined || (owner.kind === "Job" && job?.metadata.uid !== owner.uid);
  if (isTracked(pod) && isOrphan) letGo(draft, pod, "the Job of this pod is deleted");
  return draft.decision();
}

function letGo(draft: Draft, pod: Pod, why: string): void {
  if (!isTracked(pod) || draft.has(pod)) return;
  const finalizers = (pod.metadata.finalizers ?? []).filter((each) => each !== trackingFinalizer);
  draft.patch(pod, { metadata: { finalizers: finalizers.length > 0 ? finalizers : null } } as JsonObject, why);
}

function expire(draft: Draft, job: Job, nowMs: number): void {
  const seconds = job.spec?.ttlSecondsAfterFinished;
  if (seconds === undefined) return;
  const conditions = job.status?.conditions;
  const last = isTrue(conditions, "Complete") ? "Complete" : "Failed";
  const endedMs = timeToMs(findCondition(conditions, last)?.lastTransitionTime);
  if (endedMs === undefined) return;
  const atMs = endedMs + seconds * 1000;
  if (atMs > nowMs) draft.wakeAt(atMs);
  else {
    const why = `Job ${job.metadata.name} ended more than ${seconds} seconds ago`;
    draft.remove(job, why, { propagationPolicy: "Foreground" });
  }
}

class Run {
  readonly draft: Draft;
  readonly snapshot: JobSnapshot;
  readonly job: Job;
  readonly pods: readonly Pod[];
  readonly active: readonly Pod[];
  readonly terminating: readonly Pod[];
  readonly tally: Tally;
  readonly stored: Verdict | undefined;
  readonly nowMs: number;

  constructor(draft: Draft, snapshot: JobSnapshot, pods: readonly Pod[], nowMs: number) {
    this.draft = draft;
    this.snapshot = snapshot;
    this.job = snapshot.job;
    this.pods = pods;
    this.active = pods.filter(isActive);
    this.terminating = pods.filter(isTerminating);
    this.stored = storedVerdict(snapshot.job);
    const { podsRevision } = snapshot;
    this.tally = tallyPods(snapshot.job, pods, { verdict: this.stored?.type, podsRevision });
    this.nowMs = nowMs;
  }

  decide(): void {
    const { draft, job, tally } = this;
    const { name } = job.metadata;
    for (const pod of tally.release) letGo(draft, pod, `Job ${name} has counted this pod`);
    if (tally.isStale) draft.wakeAt(this.nowMs + 1000);
    const verdict = this.stored ?? judgeJob(job, this.pods, this.active.length, tally, this.nowMs);
    if (this.stored !== undefined)
      for (const pod of this.active) this.removePod(pod, `Job ${name}: ${this.stored.message}`);
    else if (verdict === undefined) this.manage();
    this.writeStatus(verdict);
    draft.wakeAt(verdict === undefined ? deadlineMs(job) : undefined);
  }

  removePod(pod: Pod, why: string): void {
    if (!this.draft.has(pod)) this.draft.remove(pod, why);
  }

  /**
   * Deleted by the Job itself, so not a failure: the pod first loses its finalizer uncounted, and is deleted in the
   * next reconcile.
   */
  dismiss(pod: Pod, why: string): void {
    if (isTracked(pod)) letGo(this.draft, pod, why);
    else this.removePod(pod, why);
  }

  manage(): void {
    const { job, active, tally } = this;
    const { spec } = job;
    const { name } = job.metadata;
    if (spec?.suspend === true) {
      for (const pod of active.slice(0, writesMax)) this.dismiss(pod, `Job ${name} is suspended`);
      return;
    }
    const parallelism = spec?.parallelism ?? 1;
    const wanted =
      spec?.completions === undefined
        ? tally.succeededTotal > 0
          ? Math.min(active.length, parallelism)
          : parallelism
        : Math.min(parallelism, Math.max(0, spec.completions - tally.succeededTotal - tally.failedIndexes.size));
    const surplus = this.surplusPods(active.length - wanted);
    for (const pod of surplus.slice(0, writesMax)) this.dismiss(pod, `Job ${name} needs ${wanted} active pods`);
    if (surplus.length > 0) return;
    const lingering = replacesOnlyFailed(job) ? this.terminating.length : 0;
    const missing = wanted - active.length - lingering;
    const room = pendingPodsRoom(active);
    if (missing > 0 && room === 0) this.draft.limitedBy(pendingPodsMessage("Job"));
    else if (missing > 0) this.makePods(Math.min(missing, writesMax, room));
  }

  /** Deletes pods whose index is complete, invalid or duplicate; then surplus pods. */
  surplusPods(count: number): Pod[] {
    const { job, active, tally } = this;
    const surplus: Pod[] = [];
    const rest: Pod[] = [];
    const seen = new Set<number>();
    for (const pod of active) {
      const index = indexOf(job, pod);
      if (!isIndexed(job)) rest.push(pod);
      else if (index === undefined || seen.has(index) || tally.completedIndexes.has(index)) surplus.push(pod);
      else {
        seen.add(index);
        rest.push(pod);
      }
    }
    const more = count - surplus.length;
    if (more > 0) surplus.push(...rankForDeletion(rest, rest, this.nowMs).slice(0, more));
    return surplus;
  }

  makePods(count: number): void {
    const { draft, job, snapshot, tally } = this;
    const pods = new JobPods(job, new TakenNames(job.metadata.namespace, snapshot.pods, snapshot.isTaken));
    const why = `Job ${job.metadata.name} has ${this.active.length} active pods, ${tally.succeededTotal} succeeded`;
    const perIndex = job.spec?.backoffLimitPerIndex !== undefined;
    const retryMs = perIndex ? 0 : retryAtMs(job, this.pods);
    if (retryMs > this.nowMs) {
      draft.wakeAt(retryMs);
      return;
    }
    if (!isIndexed(job)) {
      for (let i = 0; i < count; i++) draft.create(snapshot.revision, pods.make(undefined), why);
      return;
    }
    const busy = new Set<number>();
    const occupying = replacesOnlyFailed(job) ? [...this.active, ...this.terminating] : this.active;
    for (const pod of occupying) busy.add(indexOf(job, pod) ?? -1);
    let left = count;
    for (let index = 0; left > 0 && index < (job.spec?.completions ?? 0); index++) {
      index = tally.completedIndexes.gapFrom(index);
      if (index >= (job.spec?.completions ?? 0)) break;
      if (busy.has(index) || tally.failedIndexes.has(index)) continue;
      const failed = tally.retries.get(index);
      const atMs = failed === undefined ? 0 : retryIndexAtMs(failed);
      if (atMs > this.nowMs) {
        draft.wakeAt(atMs);
        continue;
      }
      const failures = perIndex ? this.failuresOf(failed) : undefined;
      draft.create(snapshot.revision, pods.make({ index, failures }), why);
      left--;
    }
  }

  failuresOf(failed: Pod | undefined): number {
    if (failed === undefined) return 0;
    return countOf(failed, failureCountKey) + (failureAction(this.job, failed).action === "Ignore" ? 0 : 1);
  }

  writeStatus(verdict: Verdict | undefined): void {
    const { job, tally, draft } = this;
    const { spec, status: before = {}, metadata } = job;
    const status: JobStatus = {
      ...before,
      ...tallyStatus(tally),
      active: this.active.length,
      ready: this.active.filter(isReady).length,
      terminating: this.terminating.length,
    };
    if (isIndexed(job)) {
      if (tally.completedIndexes.size > 0) status.completedIndexes = formatIndexes(tally.completedIndexes);
      else delete status.completedIndexes;
      if (spec?.backoffLimitPerIndex !== undefined) status.failedIndexes = formatIndexes(tally.failedIndexes);
    }
    let conditions = this.suspension(status);
    if (verdict !== undefined && this.stored === undefined) conditions = this.with(conditions, verdict);
    // The final condition is set last, when every pod has ended and is counted.
    const isQuiet = this.active.length === 0 && this.terminating.length === 0 && !this.pods.some(isTracked);
    if (this.stored !== undefined && isQuiet && tally.isSettled) {
      const type = this.stored.type === "SuccessCriteriaMet" ? "Complete" : "Failed";
      conditions = this.with(conditions, { ...this.stored, type });
      if (type === "Complete") status.completionTime = formatTime(this.nowMs);
    }
    if (conditions.length > 0) status.conditions = conditions;
    const shown = withoutZeros(status, ["active", "succeeded", "failed"]);
    const why = `Job ${metadata.name}: ${this.active.length} active, ${tally.succeededTotal} succeeded, ${tally.failedTotal} failed`;
    draft.status(job, shown, why);
  }

  /** Suspension stops the clock of the deadline: the start time is cleared and set again. */
  suspension(status: JobStatus): JobCondition[] {
    const { spec } = this.job;
    const conditions = status.conditions ?? [];
    const isSuspended = isTrue(conditions, "Suspended");
    if (spec?.suspend === true) {
      delete status.startTime;
      const condition = { type: "Suspended", reason: "JobSuspended", message: "The Job is suspended." };
      return isSuspended ? conditions : this.with(conditions, condition);
    }
    status.startTime ??= formatTime(this.nowMs);
    if (spec?.activeDeadlineSeconds !== undefined && this.job.status?.startTime === undefined) {
      this.draft.wakeAt(this.nowMs + spec.activeDeadlineSeconds * 1000);
    }
    if (!isSuspended) return conditions;
    const condition = { type: "Suspended", status: "False", reason: "JobResumed", message: "The Job is resumed." };
    return this.with(conditions, condition);
  }

  with(
    conditions: readonly JobCondition[],
    condition: { type: string; status?: string; reason: string; message: string },
  ): JobCondition[] {
    const now = formatTime(this.nowMs);
    const { type, status = "True", reason, message } = condition;
    const next = { type, status, reason, message, lastProbeTime: now, lastTransitionTime: now };
    return [...withoutCondition(conditions, type), next];
  }
}

import type { Job } from "../../decide/schedule/cluster/job.ts";
import type { Task } from "../../decide/schedule/cluster/task.ts";
import type { Verdict } from "../../decide/schedule/explain/verdict.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { nodePoolOf } from "../../model/scheduling/keys.ts";
import {
  type PodGroup,
  poolName,
  type SchedulingCondition,
  type UnschedulableReason,
  unschedulableOnNodePool,
} from "../../model/scheduling/podGroup.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { patchObject } from "./patchObject.ts";
import type { PendingReasons, Reason } from "./pendingReasons.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/**
 * The shortest time between two writes of the same kind of reason: numbers in a message change with every pod that is
 * created or deleted.
 */
const refreshMs = 15_000;
/** The pause between two such writes of a namespace, if it has so many pending jobs. */
const refreshPauseMs = 50;
/** How long a new pod may wait for its claims to be created without a condition that reports it. */
const claimsMs = 10_000;

/**
 * Writes the conditions of pending pods and groups, and removes them when their reason has gone. The reasons are those
 * of the last cycle; a pod that was bound in the meantime is not written.
 */
export class StatusReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly recorder: EventRecorder;
  private readonly book: PendingReasons;
  private readonly writtenMs = new Map<string, number>();

  constructor(controllers: Controllers, caches: SchedulerCaches, recorder: EventRecorder, book: PendingReasons) {
    this.controllers = controllers;
    this.caches = caches;
    this.recorder = recorder;
    this.book = book;
  }

  async reconcile(jobId: string, cancel: Cancel): Promise<ReconcileResult> {
    const job = this.caches.cluster.jobs.get(jobId);
    const reason = this.book.get(jobId);
    if (job === undefined) {
      this.writtenMs.delete(jobId);
      return reason === undefined ? this.clearUnserved(jobId, cancel) : this.reportUnserved(jobId, reason, cancel);
    }
    if (reason === undefined) return this.clear(job, cancel);
    const nowMs = this.controllers.ports.clock.nowMs();
    const earlyMs = reason.verdict.refusal === "NotReady" ? untilClaimsAreLate(job, nowMs) : 0;
    if (earlyMs > 0) return { requeueAfterMs: earlyMs };
    const sinceMs = nowMs - (this.writtenMs.get(jobId) ?? Number.NEGATIVE_INFINITY);
    const restMs = Math.max(refreshMs, refreshPauseMs * this.book.countBeside(jobId));
    const isRecent = this.isReportedAs(job, reason) && sinceMs < restMs;
    if (!isRecent) this.writtenMs.set(jobId, nowMs);
    // A group that runs is not unschedulable because it could not grow.
    const isUnschedulable = reason.verdict.reason !== "NotReady" && job.allocatedCount === 0;
    const groupResult =
      job.isGroup && !isRecent
        ? await this.tellGroup(job.owner as PodGroup, reason, isUnschedulable, nowMs, cancel)
        : undefined;
    let podResult: ReconcileResult;
    const isTold = job.spec.markUnschedulable !== false && reason.verdict.reason !== "NotReady";
    for (const task of job.tasks) {
      if (task.status !== "pending") continue;
      // A pod without a condition gets one at once, also if the rest of its group has theirs already.
      const isDue = isTold && !(isRecent && conditionOf(task.pod)?.status === "False");
      if (isDue) podResult = (await this.tellPod(task, reason, nowMs, cancel)) ?? podResult;
      else podResult = (await this.withdrawNomination(task, cancel)) ?? podResult;
    }
    return groupResult ?? podResult ?? (isRecent ? { requeueAfterMs: restMs - sinceMs } : undefined);
  }

  /** Pods whose group does not exist or is in a pool that no scheduler serves, and that group. */
  private async reportUnserved(id: string, reason: Reason, cancel: Cancel): Promise<ReconcileResult> {
    const nowMs = this.controllers.ports.clock.nowMs();
    const group = this.caches.groups.get(id);
    const isSaid = group !== undefined && this.conditionOf(group)?.message === reason.sentence;
    let result: ReconcileResult =
      group === undefined || isSaid ? undefined : await this.tellGroup(group, reason, true, nowMs, cancel);
    for (const task of this.caches.cluster.withoutGroup.get(id) ?? []) {
      if (task.status === "pending") result = (await this.tellPod(task, reason, nowMs, cancel)) ?? result;
    }
    return result;
  }

  /** A scheduler serves the pool by now and reports its own reasons. */
  private async clearUnserved(id: string, cancel: Cancel): Promise<ReconcileResult> {
    const group = this.caches.groups.get(id);
    const others = group?.status?.schedulingConditions?.filter(({ reason }) => reason !== "NoScheduler") ?? [];
    if (group === undefined || others.length === (group.status?.schedulingConditions ?? []).length) return undefined;
    return this.patchGroup(group, others, "its node pool has a scheduler", cancel);
  }

  /** Whether the conditions of the job have this kind of reason already. */
  private isReportedAs(job: Job, { verdict }: Reason): boolean {
    if (!job.isGroup) {
      for (const { pod, status } of job.tasks) {
        if (status === "pending" && conditionOf(pod)?.status !== "False") return false;
      }
      return true;
    }
    const condition = this.conditionOf(job.owner as PodGroup);
    // The message of a refused bind has the time of the next attempt, so it is written each time.
    return verdict.reason !== "BindingRefused" && condition?.reasons?.[0]?.reason === conditionWord(verdict);
  }

  private async tellGroup(
    group: PodGroup,
    { verdict, sentence }: Reason,
    isUnschedulable: boolean,
    nowMs: number,
    cancel: Cancel,
  ): Promise<ReconcileResult> {
    this.recorder.record(group, {
      type: "Normal",
      reason: verdict.reason === "NotReady" ? "NotReady" : "Unschedulable",
      action: "Scheduling",
      note: sentence,
    });
    if (!isUnschedulable) return undefined;
    const known = this.conditionOf(group);
    const word = conditionWord(verdict);
    if (known?.message === sentence && known.reasons?.[0]?.reason === word) return undefined;
    const condition: SchedulingCondition = {
      type: unschedulableOnNodePool,
      nodePool: poolNameOf(group),
      status: "True",
      reason: word,
      message: sentence,
      reasons: [
        {
          reason: word,
          message: sentence,
          ...(verdict.queueDetails !== undefined && { details: { queueDetails: verdict.queueDetails } }),
        },
      ],
      lastTransitionTime: formatTime(nowMs),
      transitionID: String(nextTransition(group)),
    };
    const others = othersOf(group);
    return this.patchGroup(group, [...others, condition], sentence, cancel);
  }

  private async tellPod(
    task: Task,
    { sentence, verdict }: Reason,
    nowMs: number,
    cancel: Cancel,
  ): Promise<ReconcileResult> {
    // The newest observed state: a pod that was bound since must not be reported as unschedulable.
    const pod = this.caches.pods.get(task.key);
    if (pod === undefined || pod.metadata.uid !== task.uid || (pod.spec?.nodeName ?? "") !== "") return undefined;
    const known = conditionOf(pod);
    if (known?.status !== "False" || known.message !== sentence) {
      this.recorder.record(pod, {
        type: "Warning",
        // kube-scheduler's reason for every pod: selectors and alerts on it have to find pods of groups too.
        reason: "FailedScheduling",
        action: "Scheduling",
        note: sentence,
      });
    }
    if (known?.status === "False" && known.message === sentence) return this.withdrawNomination(task, cancel);
    const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== "PodScheduled");
    const condition = {
      type: "PodScheduled",
      status: "False",
      // A node was found, and the bind was refused: an autoscaler must not add nodes for it.
      reason: verdict.reason === "BindingRefused" ? "BindingError" : "Unschedulable",
      message: sentence,
      lastTransitionTime:
        known?.status === "False" ? (known.lastTransitionTime ?? formatTime(nowMs)) : formatTime(nowMs),
    };
    return this.patchPod(pod, { conditions: [...others, condition], ...this.unmetNomination(pod) }, sentence, cancel);
  }

  /**
   * Removes a nomination that cannot be met: the node was deleted, or another pod of the group took its resources.
   */
  private async withdrawNomination(task: Task, cancel: Cancel): Promise<ReconcileResult> {
    const pod = this.caches.pods.get(task.key);
    if (pod === undefined || pod.metadata.uid !== task.uid || (pod.spec?.nodeName ?? "") !== "") return undefined;
    const broken = this.unmetNomination(pod);
    if (Object.keys(broken).length === 0) return undefined;
    return this.patchPod(pod, broken, "its nomination cannot be met", cancel);
  }

  private unmetNomination({ metadata, status }: Pod): { nominatedNodeName?: null } {
    const isBroken = status?.nominatedNodeName !== undefined && this.book.isBroken(metadata.uid);
    return isBroken ? { nominatedNodeName: null } : {};
  }

  private async patchPod(pod: Pod, status: object, why: string, cancel: Cancel): Promise<ReconcileResult> {
    const object = pod;
    const change = { subresource: "status", patch: { status }, why } as const;
    const outcome = await patchObject(this.controllers.writer, refs.pods, object, change, cancel);
    // The watch event of the concurrent change enqueues this key again.
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  /** No pod is pending and no bind is in flight: removes the condition. */
  private async clear(job: Job, cancel: Cancel): Promise<ReconcileResult> {
    this.writtenMs.delete(job.id);
    if (!job.isGroup) return undefined;
    const group = job.owner as PodGroup;
    if (this.conditionOf(group) === undefined) return undefined;
    for (const set of job.podSets) {
      if (set.pending > 0 || set.countOf("binding") > 0) return { requeueAfterMs: 1_000 };
    }
    return this.patchGroup(group, othersOf(group), "no pod of it is pending any more", cancel);
  }

  private async patchGroup(
    group: PodGroup,
    conditions: readonly SchedulingCondition[],
    why: string,
    cancel: Cancel,
  ): Promise<ReconcileResult> {
    const status = { schedulingConditions: conditions.length > 0 ? [...conditions] : null };
    const object = group;
    const change = { subresource: "status", patch: { status }, why } as const;
    const outcome = await patchObject(this.controllers.writer, refs.groups, object, change, cancel);
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  private conditionOf(group: PodGroup): SchedulingCondition | undefined {
    return group.status?.schedulingConditions?.find(({ nodePool }) => nodePool === poolNameOf(group));
  }
}

/** A claim of a template is created shortly after its pod: a condition about its absence would be outdated at once. */
function untilClaimsAreLate({ tasks }: Job, nowMs: number): number {
  let earlyMs = Number.POSITIVE_INFINITY;
  for (const { status, createdMs } of tasks) {
    if (status === "pending") earlyMs = Math.min(earlyMs, createdMs + claimsMs - nowMs);
  }
  return Number.isFinite(earlyMs) ? Math.min(earlyMs, claimsMs) : 0;
}

function poolNameOf({ metadata }: PodGroup): string {
  return poolName(nodePoolOf({ metadata }));
}

/** Conditions of other pools: there is one for each. */
function othersOf(group: PodGroup): SchedulingCondition[] {
  return (group.status?.schedulingConditions ?? []).filter(({ nodePool }) => nodePool !== poolNameOf(group));
}

/** Conditions have KAI's reasons. */
function conditionWord({ reason }: Verdict): UnschedulableReason {
  switch (reason) {
    case "BindingRefused":
    case "NotReady":
    case "NoGroup":
    case "SchedulingGated":
    case "NoGpuWithRoom":
    case "NodeFull":
      return "PodSchedulingErrors";
    default:
      return reason;
  }
}

function conditionOf({ status }: Pod): { status: string; message?: string; lastTransitionTime?: string } | undefined {
  return status?.conditions?.find(({ type }) => type === "PodScheduled");
}

function nextTransition({ status }: PodGroup): number {
  let last = 0;
  for (const { transitionID } of status?.schedulingConditions ?? [])
    last = Math.max(last, Number(transitionID ?? 0) || 0);
  return last + 1;
}

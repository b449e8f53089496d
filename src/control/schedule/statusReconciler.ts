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
import type { Reason, ReasonBook } from "./reasonBook.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/**
 * Numbers in a sentence change with every pod that comes and goes; the same kind of reason is written again this often
 * at most.
 */
const refreshMs = 15_000;
/** For so long a new pod may wait for its claims without a condition that says so: a burst of pods takes its time. */
const claimsMs = 10_000;

/**
 * Writes to pods and groups why they wait. What is written is what the last cycle found, about the object as it is now:
 * a pod that has got a place in the meantime is left alone, and a reason that is gone is removed.
 */
export class StatusReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly recorder: EventRecorder;
  private readonly book: ReasonBook;
  private readonly writtenMs = new Map<string, number>();

  constructor(controllers: Controllers, caches: SchedulerCaches, recorder: EventRecorder, book: ReasonBook) {
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
      return reason === undefined ? this.clearUnserved(jobId, cancel) : this.tellUnserved(jobId, reason, cancel);
    }
    if (reason === undefined) return this.clear(job, cancel);
    const nowMs = this.controllers.ports.clock.nowMs();
    const earlyMs = reason.verdict.awaitsClaims === true ? untilClaimsAreLate(job, nowMs) : 0;
    if (earlyMs > 0) return { requeueAfterMs: earlyMs };
    const sinceMs = nowMs - (this.writtenMs.get(jobId) ?? Number.NEGATIVE_INFINITY);
    const isRecent = this.isToldAs(job, reason) && sinceMs < refreshMs;
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
      // A pod without a condition gets one at once, whenever the rest of its group got theirs.
      const isDue = isTold && !(isRecent && conditionOf(task.pod)?.status === "False");
      if (isDue) podResult = (await this.tellPod(task, reason, nowMs, cancel)) ?? podResult;
      else podResult = (await this.withdrawNomination(task, cancel)) ?? podResult;
    }
    return groupResult ?? podResult ?? (isRecent ? { requeueAfterMs: refreshMs - sinceMs } : undefined);
  }

  /** Pods whose group does not exist or is in a pool that no scheduler serves, and that group. */
  private async tellUnserved(id: string, reason: Reason, cancel: Cancel): Promise<ReconcileResult> {
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

  /** Whether the object already says this kind of reason. */
  private isToldAs(job: Job, { verdict }: Reason): boolean {
    if (!job.isGroup) {
      for (const { pod, status } of job.tasks) {
        if (status === "pending" && conditionOf(pod)?.status !== "False") return false;
      }
      return true;
    }
    const condition = this.conditionOf(job.owner as PodGroup);
    // A refused bind says when it is tried again, each time.
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
    // The newest state that we know: a pod that has got its node since must not be called unschedulable.
    const pod = this.caches.pods.get(task.key);
    if (pod === undefined || pod.metadata.uid !== task.uid || (pod.spec?.nodeName ?? "") !== "") return undefined;
    const known = conditionOf(pod);
    const isDefault = task.job?.isGroup === false;
    if (known?.status !== "False" || known.message !== sentence) {
      this.recorder.record(pod, {
        type: "Warning",
        reason: isDefault ? "FailedScheduling" : "Unschedulable",
        action: "Scheduling",
        note: sentence,
      });
    }
    if (known?.status === "False" && known.message === sentence) return this.withdrawNomination(task, cancel);
    const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== "PodScheduled");
    const condition = {
      type: "PodScheduled",
      status: "False",
      // A place was found, and the bind was refused: no autoscaler could help.
      reason: verdict.reason === "BindingRefused" ? "BindingError" : "Unschedulable",
      message: sentence,
      lastTransitionTime:
        known?.status === "False" ? (known.lastTransitionTime ?? formatTime(nowMs)) : formatTime(nowMs),
    };
    return this.patchPod(pod, { conditions: [...others, condition], ...this.unmetNomination(pod) }, sentence, cancel);
  }

  /**
   * Others were evicted for the pod, and now it has no place all the same: a node went, or a pod of its own group was
   * first.
   */
  private async withdrawNomination(task: Task, cancel: Cancel): Promise<ReconcileResult> {
    const pod = this.caches.pods.get(task.key);
    if (pod === undefined || pod.metadata.uid !== task.uid || (pod.spec?.nodeName ?? "") !== "") return undefined;
    const broken = this.unmetNomination(pod);
    if (Object.keys(broken).length === 0) return undefined;
    return this.patchPod(pod, broken, "no place is kept for it any more", cancel);
  }

  private unmetNomination({ metadata, status }: Pod): { nominatedNodeName?: null } {
    const isBroken = status?.nominatedNodeName !== undefined && this.book.isBroken(metadata.uid);
    return isBroken ? { nominatedNodeName: null } : {};
  }

  private async patchPod(pod: Pod, status: object, why: string, cancel: Cancel): Promise<ReconcileResult> {
    const object = pod;
    const change = { subresource: "status", patch: { status }, why } as const;
    const outcome = await patchObject(this.controllers.writer, refs.pods, object, change, cancel);
    // The watch delivers the concurrent change soon, and then this is reconciled again.
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  /** Nothing waits and no bind is on its way: the condition is history. */
  private async clear(job: Job, cancel: Cancel): Promise<ReconcileResult> {
    this.writtenMs.delete(job.id);
    if (!job.isGroup) return undefined;
    const group = job.owner as PodGroup;
    if (this.conditionOf(group) === undefined) return undefined;
    for (const set of job.podSets) {
      if (set.pending > 0 || set.countOf("binding") > 0) return { requeueAfterMs: 1_000 };
    }
    return this.patchGroup(group, othersOf(group), "nothing of it waits any more", cancel);
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

/** A claim from a template is made in the same moment as its pod: two writes about its absence would be for nothing. */
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

/** Readers of conditions know KAI's words. */
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

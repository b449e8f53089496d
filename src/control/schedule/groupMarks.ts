import { type Job, podSetsOf } from "../../decide/schedule/cluster/job.ts";
import { fragmentsOf, isSatisfied, isStarting } from "../../decide/schedule/placement/gangSteps.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { forMapped } from "../runtime/sources.ts";
import { patchObject } from "./patchObject.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/**
 * Timestamps of a PodGroup that later decisions read, in annotations of the group so that they survive a restart: when
 * it last started, when a pod of it was last evicted, and since when it runs below its minimum.
 */
export class GroupMarks {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly recorder: EventRecorder;
  private readonly push: (key: string) => void;
  private readonly startedMs = new Map<string, number>();
  private readonly evictedMs = new Map<string, number>();
  /** Groups below their minimum, and which of their subgroups are. */
  private unwell = new Map<string, string>();

  constructor(controllers: Controllers, caches: SchedulerCaches, recorder: EventRecorder, push: (key: string) => void) {
    this.controllers = controllers;
    this.caches = caches;
    this.recorder = recorder;
    this.push = push;
  }

  started(job: Job, nowMs: number): void {
    if (!job.isGroup) return;
    this.startedMs.set(job.id, nowMs);
    this.push(job.id);
  }

  evicted(job: Job, nowMs: number): void {
    if (!job.isGroup) return;
    this.evictedMs.set(job.id, nowMs);
    this.push(job.id);
  }

  /** After each cycle: enqueues groups that have fallen below their minimum, and groups that have recovered. */
  noteStale(): void {
    const now = new Map<string, string>();
    for (const { id, root } of this.caches.cluster.unwell) {
      now.set(id, JSON.stringify(fragmentsOf(root).map((each) => (each === root ? null : each.name))));
    }
    for (const [id, components] of now) if (this.unwell.get(id) !== components) this.push(id);
    for (const id of this.unwell.keys()) if (!now.has(id)) this.push(id);
    this.unwell = now;
  }

  /**
   * The previous leader may have crashed between the start of a group and the write that records it, which would leave
   * the group's first minutes unprotected. A new leader calls this once.
   */
  noteForgottenStarts(): void {
    for (const job of this.caches.cluster.jobs.values()) {
      if (!job.isGroup || this.startedMs.has(job.id) || !isSatisfied(job.root) || isStarting(job.root)) continue;
      const noted = job.lastStartMs;
      if (noted !== undefined && noted >= (job.annotationMs(annotationKeys.lastEviction) ?? 0)) continue;
      const startedMs = lastBoundMs(job);
      if (startedMs !== undefined && startedMs > (noted ?? 0)) this.started(job, startedMs);
    }
  }

  async reconcile(id: string, cancel: Cancel): Promise<ReconcileResult> {
    const job = this.caches.cluster.jobs.get(id);
    const group = this.caches.groups.get(id);
    if (job === undefined || group === undefined) {
      this.startedMs.delete(id);
      this.evictedMs.delete(id);
      return undefined;
    }
    const nowMs = this.controllers.ports.clock.nowMs();
    const [startedMs, evictedMs] = [this.startedMs.get(id), this.evictedMs.get(id)];
    const patch: Record<string, string | null> = {};
    const known = group.metadata.annotations ?? {};
    const want = (key: string, ms: number | undefined): void => {
      const text = ms === undefined ? undefined : formatTime(ms);
      if (text !== undefined && known[key] !== text) patch[key] = text;
    };
    want(annotationKeys.lastStart, startedMs);
    want(annotationKeys.lastEviction, evictedMs);
    const fragments = this.caches.cluster.unwell.has(job) ? fragmentsOf(job.root) : [];
    const isUnwell = fragments.includes(job.root);
    const { staleSince, staleSubGroups } = annotationKeys;
    if (isUnwell && known[staleSince] === undefined) patch[staleSince] = formatTime(nowMs);
    else if (!isUnwell && known[staleSince] !== undefined) patch[staleSince] = null;
    const spare = fragments.filter((each) => each !== job.root);
    const since = job.staleSubGroupsSinceMs;
    const noted = spare.map(({ name }) => `${name}=${formatTime(since.get(name) ?? nowMs)}`).sort();
    const wanted = noted.length === 0 ? null : noted.join(",");
    if (wanted !== (known[staleSubGroups] ?? null)) patch[staleSubGroups] = wanted;
    if ((patch[staleSince] ?? null) !== null || spare.some(({ name }) => !since.has(name)))
      this.recordStale(job, group);
    if (Object.keys(patch).length > 0) {
      const change = { patch: { metadata: { annotations: patch } }, why: "timestamps that later decisions read" };
      const outcome = await patchObject(this.controllers.writer, refs.groups, group, change, cancel);
      if (!outcome.ok) return reconcileResultOf(outcome);
    }
    // A change during the write enqueues the group again.
    if (this.startedMs.get(id) === startedMs) this.startedMs.delete(id);
    if (this.evictedMs.get(id) === evictedMs) this.evictedMs.delete(id);
    return undefined;
  }

  private recordStale(job: Job, group: KubeObject): void {
    const components = fragmentsOf(job.root)
      .flatMap(podSetsOf)
      .filter(({ used, min }) => used < min)
      .map(
        ({ name, used, min }) => `${job.podSets.length > 1 ? `subgroup ${name}: ` : ""}${used} of at least ${min} pods`,
      );
    this.recorder.record(group, {
      type: "Normal",
      reason: "StaleJob",
      action: "Scheduling",
      note: `runs below its minimum: ${components.join("; ")}`,
    });
  }
}

/**
 * Groups with the annotation of a stale gang, or from which it was just removed. The event may be late, so the
 * annotation is compared with the current state of the group.
 */
export const forStaleGroups = forMapped(({ metadata: { namespace, name, annotations = {} } }) =>
  [annotationKeys.staleSince, annotationKeys.staleSubGroups].some((key) => annotations[key] !== undefined)
    ? [`${namespace}/${name}`]
    : [],
);

/** When the last of the running pods was bound, by its condition `PodScheduled`. */
function lastBoundMs(job: Job): number | undefined {
  let lastMs: number | undefined;
  for (const { pod } of job.tasks) {
    if (pod.spec?.nodeName === undefined) continue;
    const condition = pod.status?.conditions?.find(({ type, status }) => type === "PodScheduled" && status === "True");
    const ms = timeToMs(condition?.lastTransitionTime);
    if (ms !== undefined) lastMs = Math.max(lastMs ?? 0, ms);
  }
  return lastMs;
}

import { fragmentsOf } from "../../decide/schedule/gang.ts";
import { type Job, podSetsOf } from "../../decide/schedule/job.ts";
import type { KubeObject } from "../../model/object.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { formatTime } from "../../model/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../controllers.ts";
import type { EventRecorder } from "../eventRecorder.ts";
import { type TurnResult, turnResultOf } from "../loop.ts";
import { patchObject } from "./patchObject.ts";
import { refs, type ScheduleWorld } from "./scheduleWorld.ts";

/**
 * Moments in the life of a group that decisions need later, kept on the group itself so that a restart knows them: when it last started, when
 * it last lost a pod, and since when it runs below its minimum.
 */
export class GroupMarks {
  private readonly controllers: Controllers;
  private readonly world: ScheduleWorld;
  private readonly recorder: EventRecorder;
  private readonly push: (key: string) => void;
  private readonly startedMs = new Map<string, number>();
  private readonly evictedMs = new Map<string, number>();
  private unwell = new Set<string>();

  constructor(controllers: Controllers, world: ScheduleWorld, recorder: EventRecorder, push: (key: string) => void) {
    this.controllers = controllers;
    this.world = world;
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

  /** After each cycle: who has fallen below its minimum since, and who has recovered. */
  noteUnwell(): void {
    const now = new Set([...this.world.cluster.unwell].map(({ id }) => id));
    for (const id of now) if (!this.unwell.has(id)) this.push(id);
    for (const id of this.unwell) if (!now.has(id)) this.push(id);
    this.unwell = now;
  }

  async turn(id: string, cancel: Cancel): Promise<TurnResult> {
    const job = this.world.cluster.jobs.get(id);
    const group = this.world.groups.get(id);
    if (job === undefined || group === undefined) {
      this.startedMs.delete(id);
      this.evictedMs.delete(id);
      return undefined;
    }
    const nowMs = this.controllers.ports.clock.nowMs();
    const patch: Record<string, string | null> = {};
    const known = group.metadata.annotations ?? {};
    const want = (key: string, ms: number | undefined): void => {
      const text = ms === undefined ? undefined : formatTime(ms);
      if (text !== undefined && known[key] !== text) patch[key] = text;
    };
    want(annotationKeys.lastStart, this.startedMs.get(id));
    want(annotationKeys.lastEviction, this.evictedMs.get(id));
    const isUnwell = this.world.cluster.unwell.has(job);
    if (isUnwell && known[annotationKeys.staleSince] === undefined) {
      patch[annotationKeys.staleSince] = formatTime(nowMs);
      this.tellStale(job, group);
    } else if (!isUnwell && known[annotationKeys.staleSince] !== undefined) patch[annotationKeys.staleSince] = null;
    if (Object.keys(patch).length > 0) {
      const change = { patch: { metadata: { annotations: patch } }, why: "moments that decisions need later" };
      const outcome = await patchObject(this.controllers.kube, refs.groups, group, change, cancel);
      if (!outcome.ok) return turnResultOf(outcome);
    }
    this.startedMs.delete(id);
    this.evictedMs.delete(id);
    return undefined;
  }

  private tellStale(job: Job, group: KubeObject): void {
    const parts = fragmentsOf(job.root)
      .flatMap(podSetsOf)
      .filter(({ used, min }) => used < min)
      .map(
        ({ name, used, min }) => `${job.podSets.length > 1 ? `subgroup ${name}: ` : ""}${used} of at least ${min} pods`,
      );
    this.recorder.record(group, {
      type: "Normal",
      reason: "StaleJob",
      action: "Scheduling",
      note: `runs below its minimum: ${parts.join("; ")}`,
    });
  }
}

/**
 * The decision of the CronJob controller: a Job for each schedule time, named after that time, so that it is created
 * once.
 */

import type { CronJob, CronJobStatus, Job, ObjectReference } from "../../../model/kubernetes.generated.ts";
import { findCondition, isTrue } from "../../../model/objects/condition.ts";
import { type Decision, Draft } from "../../../model/objects/draft.ts";
import { isOwnedBy, ownerReference } from "../../../model/objects/ownership.ts";
import { byAge, byName } from "../../../model/objects/podFacts.ts";
import type { Revision } from "../../../model/revision.ts";
import { isTimeZone, latestIn, nextAfter, offsetMs, parseSchedule } from "../../../model/values/cronSchedule.ts";
import { formatTime, timeToMs } from "../../../model/values/time.ts";
import { isOver } from "./jobVerdict.ts";

export interface CronJobSnapshot {
  readonly revision: Revision;
  readonly cronJob: CronJob;
  /** All Jobs of the namespace, or at least those that the CronJob controls. */
  readonly jobs: readonly Job[];
}

const scheduledAnnotation = "batch.kubernetes.io/cronjob-scheduled-timestamp";

export function decideCronJob(snapshot: CronJobSnapshot, nowMs: number): Decision {
  const draft = new Draft();
  const { cronJob } = snapshot;
  if (cronJob.metadata.deletionTimestamp !== undefined) return draft.decision();
  const jobs = snapshot.jobs.filter((job) => isOwnedBy(job, cronJob)).sort(byName);
  forgetJobs(draft, cronJob, jobs);
  const lastScheduleTime = scheduleNext(draft, snapshot, jobs, nowMs);
  writeStatus(draft, cronJob, jobs, lastScheduleTime);
  return draft.decision();
}

/** Creates the Job that is due, if one is, and returns its scheduled time. */
function scheduleNext(
  draft: Draft,
  snapshot: CronJobSnapshot,
  jobs: readonly Job[],
  nowMs: number,
): string | undefined {
  const { cronJob } = snapshot;
  const { spec, metadata, status } = cronJob;
  const schedule = parseSchedule(spec.schedule);
  const zone = spec.timeZone ?? "UTC";
  if (spec.suspend === true || schedule === undefined || !isTimeZone(zone)) return undefined;
  const deadlineMs = spec.startingDeadlineSeconds === undefined ? undefined : spec.startingDeadlineSeconds * 1000;
  const sinceMs = timeToMs(status?.lastScheduleTime) ?? timeToMs(metadata.creationTimestamp) ?? nowMs;
  const afterMs = deadlineMs === undefined ? sinceMs : Math.max(sinceMs, nowMs - deadlineMs - 1);
  const dueMs = latestIn(schedule, { afterMs, untilMs: nowMs }, zone);
  draft.wakeAt(nextAfter(schedule, nowMs, zone));
  if (dueMs === undefined) return undefined;
  const name = `${metadata.name}-${Math.floor(dueMs / 60_000)}`;
  const due = formatTime(dueMs);
  // The Job was created and the status that records it was not written.
  if (snapshot.jobs.some((job) => job.metadata.name === name && job.metadata.namespace === metadata.namespace))
    return due;
  const active = jobs.filter((job) => !isOver(job));
  if (active.length > 0 && spec.concurrencyPolicy === "Forbid") return undefined;
  if (active.length > 0 && spec.concurrencyPolicy === "Replace") {
    for (const job of active) {
      if (job.metadata.deletionTimestamp !== undefined || draft.has(job)) continue;
      draft.remove(job, `CronJob ${metadata.name} replaces it`, { propagationPolicy: "Background" });
    }
  }
  draft.create(
    snapshot.revision,
    jobOf(cronJob, { name, dueMs, zone }),
    `CronJob ${metadata.name} is due since ${due}`,
  );
  return due;
}

function jobOf(cronJob: CronJob, { name, dueMs, zone }: { name: string; dueMs: number; zone: string }) {
  const { metadata, spec } = cronJob.spec.jobTemplate;
  const { namespace } = cronJob.metadata;
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(metadata?.labels && { labels: { ...metadata.labels } }),
      annotations: { ...metadata?.annotations, [scheduledAnnotation]: localTime(dueMs, zone) },
      ownerReferences: [ownerReference(cronJob)],
    },
    spec: { ...spec },
  };
}

/** RFC 3339 with the zone's own offset. */
function localTime(ms: number, zone: string): string {
  const offset = offsetMs(ms, zone);
  if (offset === 0) return formatTime(ms);
  const minutes = Math.abs(offset) / 60_000;
  const two = (number: number) => String(Math.floor(number)).padStart(2, "0");
  return `${formatTime(ms + offset).slice(0, -1)}${offset < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}

function writeStatus(draft: Draft, cronJob: CronJob, jobs: readonly Job[], scheduled: string | undefined): void {
  const active: ObjectReference[] = jobs
    .filter((job) => !isOver(job) && job.metadata.deletionTimestamp === undefined)
    .map(({ apiVersion, kind, metadata }) => ({
      apiVersion,
      kind,
      name: metadata.name,
      ...(metadata.namespace !== undefined && { namespace: metadata.namespace }),
      resourceVersion: metadata.resourceVersion,
      uid: metadata.uid,
    }));
  const known = new Map((cronJob.status?.active ?? []).map((each) => [each.uid, each]));
  const status: CronJobStatus = { ...cronJob.status };
  // A reference stays as it was first written, even if the Job has changed.
  if (active.length > 0) status.active = active.map((each) => known.get(each.uid) ?? each);
  else delete status.active;
  if (scheduled !== undefined) status.lastScheduleTime = scheduled;
  const last = jobs
    .filter((job) => isTrue(job.status?.conditions, "Complete"))
    .map(
      (job) =>
        job.status?.completionTime ?? findCondition(job.status?.conditions, "Complete")?.lastTransitionTime ?? "",
    )
    .reduce((latest, each) => (each > latest ? each : latest), status.lastSuccessfulTime ?? "");
  if (last !== "") status.lastSuccessfulTime = last;
  draft.status(cronJob, status, `CronJob ${cronJob.metadata.name} has ${active.length} active jobs`);
}

/** Keeps the newest finished Jobs, up to the limits for successful and failed ones. */
function forgetJobs(draft: Draft, cronJob: CronJob, jobs: readonly Job[]): void {
  const { successfulJobsHistoryLimit = 3, failedJobsHistoryLimit = 1 } = cronJob.spec;
  for (const [type, limit] of [
    ["Complete", successfulJobsHistoryLimit],
    ["Failed", failedJobsHistoryLimit],
  ] as const) {
    const over = jobs.filter((job) => isTrue(job.status?.conditions, type)).sort(byStart);
    for (const job of over.slice(0, Math.max(0, over.length - limit))) {
      if (job.metadata.deletionTimestamp !== undefined) continue;
      const why = `CronJob ${cronJob.metadata.name} keeps ${limit} jobs that are ${type}`;
      draft.remove(job, why, { propagationPolicy: "Background" });
    }
  }
}

function byStart(a: Job, b: Job): number {
  const [left = "", right = ""] = [a.status?.startTime, b.status?.startTime];
  return left === right ? byAge(a, b) : left < right ? -1 : 1;
}

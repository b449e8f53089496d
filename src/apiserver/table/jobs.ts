import type { CronJob, Job } from "../../model/kubernetes.generated.ts";
import { humanAge, humanDuration } from "../../model/values/humanDuration.ts";
import { timeToMs } from "../../model/values/time.ts";
import { boolText, containerCells, none, selectorTextOrNone } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf } from "./tableKind.ts";
import { containerColumns, selectorColumn } from "./workloads.ts";

export const jobTable = tableOf<Job>(
  [
    nameColumn,
    column("Status", "State of the job."),
    column("Completions", "Succeeded pods, of the required completions."),
    column("Duration", "Time from start to completion, or to now."),
    ageColumn,
    ...containerColumns,
    selectorColumn,
  ],
  (job, nowMs) => [
    job.metadata.name,
    jobStatus(job),
    completions(job),
    duration(job, nowMs),
    humanAge(job.metadata.creationTimestamp, nowMs),
    ...containerCells(job.spec?.template.spec?.containers),
    selectorTextOrNone(job.spec?.selector),
  ],
);

function jobStatus({ metadata, status }: Job): string {
  const holds = (type: string): boolean =>
    status?.conditions?.some((condition) => condition.type === type && condition.status === "True") ?? false;
  if (holds("Complete")) return "Complete";
  if (holds("Failed")) return "Failed";
  if (metadata.deletionTimestamp !== undefined) return "Terminating";
  if (holds("Suspended")) return "Suspended";
  if (holds("FailureTarget")) return "FailureTarget";
  if (holds("SuccessCriteriaMet")) return "SuccessCriteriaMet";
  return "Running";
}

function completions({ spec, status }: Job): string {
  const succeeded = status?.succeeded ?? 0;
  if (spec?.completions !== undefined) return `${succeeded}/${spec.completions}`;
  // Without completions, the Job is complete after one success.
  const parallelism = spec?.parallelism ?? 0;
  return parallelism > 1 ? `${succeeded}/1 of ${parallelism}` : `${succeeded}/1`;
}

function duration({ status }: Job, nowMs: number): string {
  const startMs = timeToMs(status?.startTime);
  if (startMs === undefined) return "";
  return humanDuration((timeToMs(status?.completionTime) ?? nowMs) - startMs);
}

export const cronJobTable = tableOf<CronJob>(
  [
    nameColumn,
    column("Schedule", "The cron schedule."),
    column("Timezone", "Time zone of the schedule."),
    column("Suspend", "Whether it is suspended.", "boolean"),
    column("Active", "Number of running jobs.", "integer"),
    column("Last Schedule", "Time since the last job was created."),
    ageColumn,
    ...containerColumns,
    selectorColumn,
  ],
  ({ metadata, spec, status }, nowMs) => [
    metadata.name,
    spec?.schedule ?? "",
    spec?.timeZone ?? none,
    boolText(spec?.suspend),
    status?.active?.length ?? 0,
    status?.lastScheduleTime ? humanAge(status.lastScheduleTime, nowMs) : none,
    humanAge(metadata.creationTimestamp, nowMs),
    ...containerCells(spec?.jobTemplate.spec?.template.spec?.containers),
    selectorTextOrNone(spec?.jobTemplate.spec?.selector),
  ],
);

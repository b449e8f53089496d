import type { CronJob } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, notSupported, required } from "../../../model/objects/fieldError.ts";
import { checkNonNegative, checkOneOf } from "../checks/fieldChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { setPodTemplateDefaults } from "../pods/podTemplate.ts";
import { warnAboutTemplate } from "../pods/podWarnings.ts";
import { cronScheduleProblem } from "./cronSchedule.ts";
import { checkJobSpec } from "./jobSpec.ts";

/** A Job has the name of its CronJob plus eleven characters, and its name must be a DNS label. */
const nameLengthMax = 52;

export const cronJobStrategy = strategyOfKind<CronJob>({
  generation: "spec",
  setDefaults(cronJob) {
    const spec = cronJob.spec;
    if (spec === undefined) return;
    spec.concurrencyPolicy ||= "Allow";
    spec.suspend ??= false;
    spec.successfulJobsHistoryLimit ??= 3;
    spec.failedJobsHistoryLimit ??= 1;
    // Defaults of the Job are set when a Job is created from the template.
    setPodTemplateDefaults(spec.jobTemplate?.spec?.template);
  },
  prepareForCreate(cronJob, { warn }) {
    warnAboutTemplate(cronJob.spec?.jobTemplate?.spec?.template, "spec.jobTemplate.spec.template", warn);
  },
  validate(cronJob) {
    const errors = cronJobErrors(cronJob, undefined);
    if (cronJob.metadata.name.length > nameLengthMax) {
      errors.push(invalid("metadata.name", cronJob.metadata.name, `must be no more than ${nameLengthMax} characters`));
    }
    return errors;
  },
  validateUpdate: (next, old) => cronJobErrors(next, old),
});

function cronJobErrors(cronJob: CronJob, old: CronJob | undefined): FieldError[] {
  const errors: FieldError[] = [];
  const spec = cronJob.spec;
  if (spec === undefined) return [required("spec.schedule"), required("spec.jobTemplate")];
  if (!spec.schedule) errors.push(required("spec.schedule"));
  else {
    const hasZone = /^(CRON_)?TZ=/.test(spec.schedule);
    const bare = spec.schedule.replace(/^(CRON_)?TZ=\S+\s+/, "");
    const problem = cronScheduleProblem(bare);
    if (problem !== undefined) errors.push(invalid("spec.schedule", spec.schedule, problem));
    if (hasZone && spec.timeZone !== undefined) {
      const detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
      errors.push(invalid("spec.schedule", spec.schedule, detail));
    } else if (hasZone && old?.spec?.schedule !== spec.schedule) {
      const detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
      errors.push(invalid("spec.schedule", spec.schedule, detail));
    }
  }
  if (spec.timeZone !== undefined) checkTimeZone(spec.timeZone, errors);
  checkNonNegative(spec.startingDeadlineSeconds, "spec.startingDeadlineSeconds", errors);
  checkOneOf(spec.concurrencyPolicy, ["Allow", "Forbid", "Replace"], "spec.concurrencyPolicy", errors, true);
  checkNonNegative(spec.successfulJobsHistoryLimit, "spec.successfulJobsHistoryLimit", errors);
  checkNonNegative(spec.failedJobsHistoryLimit, "spec.failedJobsHistoryLimit", errors);
  const job = spec.jobTemplate?.spec;
  if (job === undefined) errors.push(required("spec.jobTemplate.spec.template"));
  else {
    checkJobSpec(job, "spec.jobTemplate.spec", errors, false);
    if (job.selector !== undefined) {
      errors.push(invalid("spec.jobTemplate.spec.selector", job.selector, "`selector` will be auto-generated"));
    }
    if (job.manualSelector === true) {
      errors.push(notSupported("spec.jobTemplate.spec.manualSelector", true, ["nil", "false"]));
    }
  }
  return errors;
}

function checkTimeZone(zone: string, errors: FieldError[]): void {
  const path = "spec.timeZone";
  if (zone === "") errors.push(invalid(path, zone, "timeZone must be nil or non-empty string"));
  else if (zone.toLowerCase() === "local") {
    const detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
    errors.push(invalid(path, zone, detail));
  } else if (!isKnownTimeZone(zone)) errors.push(invalid(path, zone, `unknown time zone ${zone}`));
}

function isKnownTimeZone(zone: string): boolean {
  // Offsets such as +02:00 are time zones to Node, but not to the time zone database.
  if (/^[+-]/.test(zone)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

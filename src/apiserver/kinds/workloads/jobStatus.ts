import type { Job, JobStatus } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, required } from "../../../model/objects/fieldError.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { checkCounters } from "./workloadChecks.ts";

const terminal = ["Failed", "Complete", "FailureTarget"];

/** A finished Job stays finished, and its counters never decrease. */
export function checkJobStatusChange(next: Job, old: Job, errors: FieldError[]): void {
  const status = next.status ?? {};
  const before = old.status ?? {};
  checkCounters(status, ["active", "succeeded", "failed", "ready", "terminating"], errors);
  if ((status.ready ?? 0) > (status.active ?? 0)) {
    errors.push(invalid("status.ready", status.ready, "cannot set more ready pods than active"));
  }
  if (status.failedIndexes !== undefined && next.spec?.backoffLimitPerIndex === undefined) {
    const detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
    errors.push(invalid("status.failedIndexes", status.failedIndexes, detail));
  }
  if (status.completedIndexes && next.spec?.completionMode !== "Indexed") {
    const detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
    errors.push(invalid("status.completedIndexes", status.completedIndexes, detail));
  }
  const isComplete = isTrue(status, "Complete");
  const isFailed = isTrue(status, "Failed");
  if (isComplete && isFailed) {
    errors.push(invalid("status.conditions", status.conditions, "cannot set Complete=True and Failed=true conditions"));
  }
  const isFinished = isComplete || isFailed;
  const wasFinished = isTrue(before, "Complete") || isTrue(before, "Failed");
  for (const type of terminal) {
    if (isTrue(before, type) && !isTrue(status, type)) {
      const detail = `cannot disable the terminal ${type}=True condition`;
      errors.push(invalid("status.conditions", status.conditions ?? [], detail));
    }
  }
  if (isFinished && !wasFinished && (status.active ?? 0) > 0) {
    errors.push(invalid("status.active", status.active, "active>0 is invalid for finished job"));
  }
  if (status.completionTime !== undefined) {
    if (!isComplete) {
      const detail = "cannot set completionTime when there is no Complete=True condition";
      errors.push(invalid("status.completionTime", status.completionTime, detail));
    }
    if ((timeToMs(status.completionTime) ?? 0) < (timeToMs(status.startTime) ?? 0)) {
      errors.push(invalid("status.completionTime", status.completionTime, "must be equal to or after `startTime`"));
    }
  } else if (isComplete && !isTrue(before, "Complete")) {
    errors.push(required("status.completionTime", "completionTime is required for Complete jobs"));
  }
  if (before.completionTime !== undefined && status.completionTime !== before.completionTime) {
    errors.push(invalid("status.completionTime", status.completionTime ?? null, "field is immutable"));
  }
  if (before.startTime !== undefined && status.startTime !== before.startTime && next.spec?.suspend !== true) {
    const detail = "field is immutable for unsuspended job once set";
    errors.push(invalid("status.startTime", status.startTime ?? null, detail));
  }
  if (wasFinished || next.spec?.completionMode === "Indexed") return;
  if ((status.failed ?? 0) < (before.failed ?? 0)) {
    errors.push(invalid("status.failed", status.failed ?? 0, "cannot decrease the failed counter"));
  }
  if ((status.succeeded ?? 0) < (before.succeeded ?? 0)) {
    errors.push(invalid("status.succeeded", status.succeeded ?? 0, "cannot decrease the succeeded counter"));
  }
}

function isTrue(status: JobStatus, type: string): boolean {
  return status.conditions?.some((condition) => condition.type === type && condition.status === "True") === true;
}

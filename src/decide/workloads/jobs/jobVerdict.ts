/** Whether a Job has succeeded or failed; recorded first as an interim condition, while pods still terminate. */

import type { Job, JobCondition, Pod } from "../../../model/kubernetes.generated.ts";
import { findCondition, isTrue } from "../../../model/objects/condition.ts";
import { byName } from "../../../model/objects/podFacts.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { failureAction, hasFailed, isPastRestarts } from "./jobFailure.ts";
import { type IndexSet, isIndexed, parseIndexes } from "./jobIndexes.ts";
import { isTracked, type Tally } from "./jobTally.ts";

export interface Verdict {
  readonly type: "SuccessCriteriaMet" | "FailureTarget";
  readonly reason: string;
  readonly message: string;
}

export function isOver({ status }: Job): boolean {
  return isTrue(status?.conditions, "Complete") || isTrue(status?.conditions, "Failed");
}

/** The stored outcome. */
export function storedVerdict({ status }: Job): Verdict | undefined {
  for (const type of ["SuccessCriteriaMet", "FailureTarget"] as const) {
    const found: JobCondition | undefined = findCondition(status?.conditions, type);
    if (found?.status === "True") return { type, reason: found.reason ?? "", message: found.message ?? "" };
  }
  return undefined;
}

export function deadlineMs({ spec, status }: Job): number | undefined {
  const startMs = timeToMs(status?.startTime);
  if (spec?.activeDeadlineSeconds === undefined || spec.suspend === true || startMs === undefined) return undefined;
  return startMs + spec.activeDeadlineSeconds * 1000;
}

export function judgeJob(
  job: Job,
  pods: readonly Pod[],
  active: number,
  tally: Tally,
  nowMs: number,
): Verdict | undefined {
  const { spec } = job;
  const failure = (reason: string, message: string): Verdict => ({ type: "FailureTarget", reason, message });
  const policyFailure = failJobPod(job, pods);
  if (policyFailure !== undefined) return failure("PodFailurePolicy", policyFailure);
  const limit = spec?.backoffLimit ?? 6;
  if (tally.failedTotal > limit || isPastRestarts(job, pods)) {
    return failure("BackoffLimitExceeded", `More failures than the back-off limit of ${limit}.`);
  }
  if ((deadlineMs(job) ?? Number.POSITIVE_INFINITY) <= nowMs) {
    return failure("DeadlineExceeded", `Still active after ${spec?.activeDeadlineSeconds} seconds.`);
  }
  const completions = spec?.completions;
  if (isIndexed(job)) {
    const failed = tally.failedIndexes.size;
    const failedMax = spec?.maxFailedIndexes;
    if (failedMax !== undefined && failed > failedMax) {
      return failure("MaxFailedIndexesExceeded", `${failed} indexes have failed, ${failedMax} may.`);
    }
    if (failed > 0 && failed + tally.completedIndexes.size >= (completions ?? 0)) {
      return failure("FailedIndexes", `${failed} indexes have failed.`);
    }
    const met = successRule(job, tally.completedIndexes);
    if (met !== undefined) {
      return {
        type: "SuccessCriteriaMet",
        reason: "SuccessPolicy",
        message: `Rule ${met} of the success policy is met.`,
      };
    }
  }
  const isReached = completions === undefined ? tally.succeededTotal > 0 : tally.succeededTotal >= completions;
  if (!isReached || active > 0 || spec?.suspend === true) return undefined;
  return {
    type: "SuccessCriteriaMet",
    reason: "CompletionsReached",
    message: "The required number of pods have succeeded.",
  };
}

function failJobPod(job: Job, pods: readonly Pod[]): string | undefined {
  if (job.spec?.podFailurePolicy === undefined) return undefined;
  for (const pod of [...pods].sort(byName)) {
    if (!isTracked(pod) || !hasFailed(job, pod)) continue;
    const { action, rule, detail } = failureAction(job, pod);
    if (action !== "FailJob") continue;
    return `Pod ${pod.metadata.namespace}/${pod.metadata.name} matches rule ${rule} of the pod failure policy, which fails the Job: ${detail}.`;
  }
  return undefined;
}

/** The first rule that is met. A rule requires certain indexes, a number of them, or a number out of certain ones. */
function successRule({ spec }: Job, completed: IndexSet): number | undefined {
  for (const [i, { succeededIndexes, succeededCount }] of (spec?.successPolicy?.rules ?? []).entries()) {
    const wanted = succeededIndexes === undefined ? undefined : parseIndexes(succeededIndexes, spec?.completions ?? 0);
    const done = wanted === undefined ? completed.size : completed.countIn(wanted);
    const enough = succeededCount ?? wanted?.size;
    if (enough !== undefined && enough > 0 && done >= enough) return i;
  }
  return undefined;
}

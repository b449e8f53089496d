/** When a pod of a Job has failed, the action of the failure policy, and the back-off of the Job. */
import type { Job, Pod, PodFailurePolicyRule } from "../../../model/kubernetes.generated.ts";
import { isLeaving } from "../../../model/objects/podFacts.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { countOf, failureCountKey } from "./jobIndexes.ts";

export type FailureAction = "Count" | "Ignore" | "FailIndex" | "FailJob";

const backoffBaseMs = 10_000;
const backoffMaxMs = 600_000;

/** Whether a replacement waits until the pod has ended: then a terminating pod has not failed yet. */
export function replacesOnlyFailed({ spec }: Job): boolean {
  const policy = spec?.podReplacementPolicy;
  return policy === undefined ? spec?.podFailurePolicy !== undefined : policy === "Failed";
}

export function hasFailed(job: Job, pod: Pod): boolean {
  const phase = pod.status?.phase;
  if (phase === "Failed") return true;
  return phase !== "Succeeded" && isLeaving(pod) && !replacesOnlyFailed(job);
}

/** The first rule of the policy that matches decides; a failure without a matching rule counts. */
export function failureAction({ spec }: Job, pod: Pod): { action: FailureAction; rule?: number; detail?: string } {
  for (const [i, rule] of (spec?.podFailurePolicy?.rules ?? []).entries()) {
    const detail = matchingDetail(rule, pod);
    if (detail !== undefined) return { action: rule.action as FailureAction, rule: i, detail };
  }
  return { action: "Count" };
}

function matchingDetail(rule: PodFailurePolicyRule, pod: Pod): string | undefined {
  const codes = rule.onExitCodes;
  if (codes !== undefined) {
    for (const { name, state } of [
      ...(pod.status?.initContainerStatuses ?? []),
      ...(pod.status?.containerStatuses ?? []),
    ]) {
      const exitCode = state?.terminated?.exitCode ?? 0;
      if (exitCode === 0 || (codes.containerName !== undefined && codes.containerName !== name)) continue;
      if (codes.values.includes(exitCode) === (codes.operator === "In")) {
        return `container ${name} ended with exit code ${exitCode}`;
      }
    }
    return undefined;
  }
  for (const { type, status = "True" } of rule.onPodConditions ?? []) {
    if (pod.status?.conditions?.some((each) => each.type === type && each.status === status)) {
      return `the pod has condition ${type}`;
    }
  }
  return undefined;
}

/** Restarts in place count against the limit too, where the kubelet restarts and no pod fails. */
export function isPastRestarts({ spec }: Job, pods: readonly Pod[]): boolean {
  if (spec?.template.spec?.restartPolicy !== "OnFailure") return false;
  const limit = spec.backoffLimit ?? 6;
  let restarts = 0;
  for (const { status } of pods) {
    if (status?.phase !== "Running" && status?.phase !== "Pending") continue;
    for (const { restartCount } of [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])]) {
      restarts += restartCount;
    }
  }
  return limit === 0 ? restarts > 0 : restarts >= limit;
}

/** When its last container ended; another time of the pod if no container ran. */
export function endedAtMs({ status, metadata }: Pod): number {
  let last: number | undefined;
  for (const { state } of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
    const at = timeToMs(state?.terminated?.finishedAt);
    if (at !== undefined && (last === undefined || at > last)) last = at;
  }
  const unready = status?.conditions?.find(({ type, status: value }) => type === "Ready" && value === "False");
  return (
    last ??
    timeToMs(metadata.deletionTimestamp) ??
    timeToMs(unready?.lastTransitionTime) ??
    timeToMs(metadata.creationTimestamp) ??
    0
  );
}

function delayMs(failures: number): number {
  return Math.min(backoffBaseMs * 2 ** Math.max(0, failures - 1), backoffMaxMs);
}

/**
 * When the next pod may be created: ten seconds after the last failure, twice as long with every failure since the last
 * success. It is computed from existing pods, so failures whose pods were deleted do not count.
 */
export function retryAtMs(job: Job, pods: readonly Pod[]): number {
  let lastSuccessMs = Number.NEGATIVE_INFINITY;
  for (const pod of pods) {
    if (pod.status?.phase === "Succeeded") lastSuccessMs = Math.max(lastSuccessMs, endedAtMs(pod));
  }
  let failures = 0;
  let lastFailureMs = 0;
  for (const pod of pods) {
    if (!hasFailed(job, pod) || endedAtMs(pod) < lastSuccessMs) continue;
    failures++;
    lastFailureMs = Math.max(lastFailureMs, endedAtMs(pod));
  }
  return failures === 0 ? 0 : lastFailureMs + delayMs(failures);
}

/** The same for one index, from its last failed pod. */
export function retryIndexAtMs(failed: Pod): number {
  return endedAtMs(failed) + delayMs(countOf(failed, failureCountKey) + 1);
}

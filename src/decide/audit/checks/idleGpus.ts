import type { ContainerStatus, Pod } from "../../../model/kubernetes.generated.ts";
import { isLeaving, podCondition } from "../../../model/objects/podFacts.ts";
import { humanDuration } from "../../../model/values/humanDuration.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { placementOf, podName } from "../../verify/placement.ts";
import { type AuditCheck, settle, stuck } from "../auditCheck.ts";
import { hasGpu } from "../gpus.ts";

/** Reasons of a waiting container that do not pass by waiting alone. */
const failures = new Set([
  "CrashLoopBackOff",
  "ImagePullBackOff",
  "ErrImagePull",
  "ErrImageNeverPull",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
]);

export const idleGpuChecks: readonly AuditCheck[] = [
  {
    name: "gpu-idle",
    meaning:
      "a pod holds GPUs and its containers do not run: a crash loop, an image that cannot be pulled, or no start",
    cause: "an image or a volume is missing, or the program ends with an error again and again",
    cure: "read the events and the log of the pod; correct the image or the program, or delete the workload",
    settleMs: settle.chain,
    needs: ["pods", "resourceclaims"],
    find: (snapshot) =>
      placementOf(snapshot).live.flatMap((pod) => {
        if (!hasGpu(pod, snapshot) || isLeaving(pod)) return [];
        const problem = whyIdle(pod, snapshot.takenAtMs);
        return problem === undefined ? [] : [{ object: podName(pod), problem }];
      }),
  },
];

function whyIdle(pod: Pod, nowMs: number): string | undefined {
  const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
  // A container that runs uses the GPUs, although another one fails.
  if ((pod.status?.containerStatuses ?? []).some(({ state }) => isRunning(state))) return undefined;
  const heldMs = nowMs - (boundAtMs(pod) ?? nowMs);
  const failing = statuses.find(({ state }) => failures.has(state?.waiting?.reason ?? ""));
  if (failing !== undefined) {
    if (heldMs < stuck.failingMs || (failing.state?.waiting?.reason === "CrashLoopBackOff" && !isLoop(failing)))
      return undefined;
    return failureText(failing, heldMs);
  }
  const isStarting = pod.status?.phase === "Pending" && !statuses.some(({ state }) => isRunning(state));
  if (!isStarting || heldMs < stuck.startingMs) return undefined;
  const reason = statuses.find(({ state }) => state?.waiting !== undefined)?.state?.waiting?.reason ?? "no status";
  return `holds GPUs for ${humanDuration(heldMs)} and has not started: ${reason}`;
}

/** Restarts from which on the pauses sum to five minutes. */
const loopMin = 5;

/** Restarted often, and its last run was short: a program that ran for days may crash once. */
function isLoop({ restartCount, lastState }: ContainerStatus): boolean {
  const { startedAt, finishedAt } = lastState?.terminated ?? {};
  const ranMs = (timeToMs(finishedAt) ?? 0) - (timeToMs(startedAt) ?? 0);
  return (restartCount ?? 0) >= loopMin && ranMs < stuck.failingMs;
}

function isRunning(state: ContainerStatus["state"]): boolean {
  return (state?.running ?? undefined) !== undefined;
}

function failureText({ name, state, restartCount }: ContainerStatus, heldMs: number): string {
  const reason = state?.waiting?.reason ?? "";
  return `holds GPUs for ${humanDuration(heldMs)}, and container ${name} is in ${reason} after ${restartCount ?? 0} restarts`;
}

function boundAtMs(pod: Pod): number | undefined {
  const bound = podCondition(pod, "PodScheduled");
  const at = bound?.status === "True" ? bound.lastTransitionTime : undefined;
  return timeToMs(at) ?? timeToMs(pod.metadata.creationTimestamp);
}

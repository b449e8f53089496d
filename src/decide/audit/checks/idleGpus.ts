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
    needs: ["pods"],
    find: (snapshot) =>
      placementOf(snapshot).live.flatMap((pod) => {
        if (!hasGpu(pod) || isLeaving(pod)) return [];
        const problem = whyIdle(pod, snapshot.takenAtMs);
        return problem === undefined ? [] : [{ object: podName(pod), problem }];
      }),
  },
];

function whyIdle(pod: Pod, nowMs: number): string | undefined {
  const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
  const heldMs = nowMs - (heldSinceMs(pod) ?? nowMs);
  // A container that runs uses the GPUs, although another one fails.
  const regular = pod.status?.containerStatuses ?? [];
  if (regular.some(({ state }) => (state?.running ?? undefined) !== undefined)) return undefined;
  const failing = statuses.find(({ state }) => failures.has(state?.waiting?.reason ?? ""));
  if (failing !== undefined && heldMs >= stuck.failingMs) return failureText(failing, heldMs);
  const isStarting = pod.status?.phase === "Pending" && !statuses.some(({ state }) => isRunning(state));
  if (!isStarting || heldMs < stuck.startingMs) return undefined;
  const reason = statuses.find(({ state }) => state?.waiting !== undefined)?.state?.waiting?.reason ?? "no status";
  return `holds GPUs for ${humanDuration(heldMs)} and has not started: ${reason}`;
}

function isRunning(state: ContainerStatus["state"]): boolean {
  return (state?.running ?? undefined) !== undefined;
}

function failureText({ name, state, restartCount }: ContainerStatus, heldMs: number): string {
  const reason = state?.waiting?.reason ?? "";
  return `holds GPUs for ${humanDuration(heldMs)}, and container ${name} is in ${reason} after ${restartCount ?? 0} restarts`;
}

/** The later of its binding and of the last moment at which it was Ready. */
function heldSinceMs(pod: Pod): number | undefined {
  const bound = podCondition(pod, "PodScheduled");
  const ready = podCondition(pod, "Ready");
  const times = [
    timeToMs(bound?.status === "True" ? bound.lastTransitionTime : undefined) ??
      timeToMs(pod.metadata.creationTimestamp),
    timeToMs(ready?.lastTransitionTime),
  ].filter((ms) => ms !== undefined);
  return times.length === 0 ? undefined : Math.max(...times);
}

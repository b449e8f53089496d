/** The facts about pods that a clique counts. */

import type { ContainerStatus, Pod } from "../../../model/kubernetes.generated.ts";
import { earliest } from "../../../model/objects/draft.ts";
import { isFinished, isReady, podCondition } from "../../../model/objects/podFacts.ts";
import { isLeaving } from "../gangLabels.ts";
import { isLostWithNode, type NodeOf, nodeLossAtMs } from "./lostPods.ts";

/** Has a node. A finished pod no longer counts. */
export function isScheduled(pod: Pod): boolean {
  return podCondition(pod, "PodScheduled")?.status === "True" && !isFinished(pod);
}

export function isGated(pod: Pod): boolean {
  const scheduled = podCondition(pod, "PodScheduled");
  return scheduled?.status === "False" && scheduled.reason === "SchedulingGated";
}

/** A container has failed before. Its current state is not used, because it alternates between running and waiting. */
export function isErrored(pod: Pod): boolean {
  if (isReady(pod)) return false;
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  return [...initContainerStatuses, ...containerStatuses].some(
    ({ lastState }) => (lastState?.terminated?.exitCode ?? 0) !== 0,
  );
}

/** Runs and is not ready. A pod that still pulls its image, initializes or starts is not counted. */
export function isStartedNotReady(pod: Pod): boolean {
  if (isReady(pod) || isErrored(pod)) return false;
  return (pod.status?.containerStatuses ?? []).some(
    ({ started, ready }: ContainerStatus) => started === true && !ready,
  );
}

export interface PodCounts {
  /** Not terminating. */
  readonly live: number;
  readonly ready: number;
  /** Have a node that runs them: neither terminating nor lost with their node. */
  readonly scheduled: number;
  readonly gated: number;
  /** Scheduled, and ready or still starting. */
  readonly readyOrStarting: number;
  /** Lost with their node, whether or not they were evicted since. */
  readonly lostWithNode: number;
  /** When the next pod is lost with its node, unless the node recovers. */
  readonly nextLossMs: number | undefined;
}

export function countPods(pods: readonly Pod[], nodeOf: NodeOf, nowMs: number): PodCounts {
  let [live, ready, scheduled, gated, bad, lostWithNode] = [0, 0, 0, 0, 0, 0];
  let nextLossMs: number | undefined;
  for (const pod of pods) {
    if (!isLeaving(pod)) live++;
    if (isGated(pod)) gated++;
    if (!isScheduled(pod)) continue;
    if (isLostWithNode(pod, nodeOf, nowMs)) lostWithNode++;
    else if (!isLeaving(pod)) {
      scheduled++;
      if (isReady(pod)) ready++;
      if (isErrored(pod) || isStartedNotReady(pod)) bad++;
      nextLossMs = earliest(nextLossMs, nodeLossAtMs(pod, nodeOf));
    }
  }
  return { live, ready, scheduled, gated, readyOrStarting: scheduled - bad, lostWithNode, nextLossMs };
}

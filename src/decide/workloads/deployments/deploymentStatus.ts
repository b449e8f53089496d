/** The status of a Deployment, from which `kubectl rollout status` reads the progress. */

import type {
  Deployment,
  DeploymentCondition,
  DeploymentStatus,
  ReplicaSet,
} from "../../../model/kubernetes.generated.ts";
import { findCondition, withCondition, withoutCondition } from "../../../model/objects/condition.ts";
import { withoutZeros } from "../../../model/objects/draft.ts";
import { formatTime, timeToMs } from "../../../model/values/time.ts";
import { sizeLimits } from "./deploymentRevision.ts";
import { totalSize } from "./deploymentScale.ts";

/** Why the status is written; the Progressing condition is evaluated only during a rollout. */
export type StatusCause = "rollout" | "created" | "resize" | "paused" | "watch";

interface Sets {
  readonly deployment: Deployment;
  readonly present: ReplicaSet | undefined;
  readonly sets: readonly ReplicaSet[];
}

/** In upstream this value means that there is no deadline. */
const noDeadline = 2_147_483_647;

export function deploymentStatus(
  { deployment, present, sets }: Sets,
  cause: StatusCause,
  nowMs: number,
): { status: DeploymentStatus; why: string } {
  const { spec, status: before = {}, metadata } = deployment;
  const replicas = spec?.replicas ?? 1;
  const sum = (count: (set: ReplicaSet) => number | undefined) => sets.reduce((all, set) => all + (count(set) ?? 0), 0);
  const available = sum(({ status }) => status?.availableReplicas);
  const status: DeploymentStatus = {
    ...before,
    observedGeneration: metadata.generation ?? 0,
    replicas: sum(({ status: each }) => each?.replicas),
    updatedReplicas: present?.status?.replicas ?? 0,
    readyReplicas: sum(({ status: each }) => each?.readyReplicas),
    availableReplicas: available,
    unavailableReplicas: Math.max(0, totalSize(sets) - available),
    terminatingReplicas: sum(({ status: each }) => each?.terminatingReplicas),
  };
  const conditions = availability(
    before.conditions ?? [],
    available >= replicas - sizeLimits(deployment).maxUnavailable,
    nowMs,
  );
  const judged = progress({ deployment, present, sets }, status, conditions, cause, nowMs);
  status.conditions = replicaFailure(judged, sets, present, nowMs);
  const shown = withoutZeros(status, [
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
  ]);
  const why = `Deployment ${metadata.name}: ${status.updatedReplicas} of ${replicas} pods updated, ${available} available`;
  return { status: shown, why };
}

function availability(conditions: readonly DeploymentCondition[], isEnough: boolean, nowMs: number) {
  const content = isEnough
    ? { status: "True", reason: "MinimumReplicasAvailable", message: "Enough pods are available." }
    : { status: "False", reason: "MinimumReplicasUnavailable", message: "Too few pods are available." };
  return withCondition(conditions, { type: "Available", ...content }, nowMs);
}

function progress(
  { deployment, present }: Sets,
  status: DeploymentStatus,
  given: DeploymentCondition[],
  cause: StatusCause,
  nowMs: number,
): DeploymentCondition[] {
  if (deadlineMsOf(deployment) === undefined) return withoutCondition(given, "Progressing");
  const old = findCondition(given, "Progressing");
  const say = (value: "True" | "False" | "Unknown", reason: string, message: string): DeploymentCondition[] =>
    withCondition(given, { type: "Progressing", status: value, reason, message }, nowMs);
  const name = present?.metadata.name ?? deployment.metadata.name;
  if (cause === "created") return say("True", "NewReplicaSetCreated", "A ReplicaSet is created for the new template.");
  if (cause === "paused") {
    // A rollout that has timed out stays so; pausing does not reset it.
    if (old?.reason === "ProgressDeadlineExceeded") return given;
    return say("Unknown", "DeploymentPaused", "The rollout is paused.");
  }
  if (old?.reason === "DeploymentPaused" && deployment.spec?.paused !== true) {
    return say("Unknown", "DeploymentResumed", "The rollout is resumed.");
  }
  if (cause !== "rollout") return given;
  const isDone = (status.replicas ?? 0) === (status.updatedReplicas ?? 0) && old?.reason === "NewReplicaSetAvailable";
  if (isDone) return given;
  if (isComplete(deployment, status)) {
    return say("True", "NewReplicaSetAvailable", `ReplicaSet "${name}" has all its pods available.`);
  }
  if (old === undefined && present !== undefined) {
    return say("True", "FoundNewReplicaSet", `Found new replica set "${name}"`);
  }
  if (hasProgressed(deployment.status ?? {}, status)) {
    // Every step restarts the deadline, so the condition is written even with the same reason.
    const now = formatTime(nowMs);
    const since = old?.status === "True" ? (old.lastTransitionTime ?? now) : now;
    const message = `ReplicaSet "${name}" is progressing.`;
    const next = { type: "Progressing", status: "True", reason: "ReplicaSetUpdated", message };
    return [...withoutCondition(given, "Progressing"), { ...next, lastUpdateTime: now, lastTransitionTime: since }];
  }
  if (hasTimedOut(deployment, old, nowMs)) {
    return say("False", "ProgressDeadlineExceeded", `ReplicaSet "${name}" has timed out progressing.`);
  }
  return given;
}

function replicaFailure(
  given: DeploymentCondition[],
  sets: readonly ReplicaSet[],
  present: ReplicaSet | undefined,
  nowMs: number,
): DeploymentCondition[] {
  const ordered = present === undefined ? sets : [present, ...sets.filter((set) => set !== present)];
  for (const set of ordered) {
    const found = findCondition(set.status?.conditions, "ReplicaFailure");
    if (found?.status !== "True") continue;
    const { reason = "", message = "" } = found;
    return withCondition(given, { type: "ReplicaFailure", status: "True", reason, message }, nowMs);
  }
  return withoutCondition(given, "ReplicaFailure");
}

export function isComplete({ spec, metadata }: Deployment, status: DeploymentStatus): boolean {
  const replicas = spec?.replicas ?? 1;
  const { updatedReplicas = 0, replicas: all = 0, availableReplicas = 0, observedGeneration = 0 } = status;
  return (
    updatedReplicas === replicas &&
    all === replicas &&
    availableReplicas === replicas &&
    observedGeneration >= (metadata.generation ?? 0)
  );
}

function hasProgressed(before: DeploymentStatus, after: DeploymentStatus): boolean {
  const old = (status: DeploymentStatus) => (status.replicas ?? 0) - (status.updatedReplicas ?? 0);
  return (
    (after.updatedReplicas ?? 0) > (before.updatedReplicas ?? 0) ||
    old(after) < old(before) ||
    (after.readyReplicas ?? 0) > (before.readyReplicas ?? 0) ||
    (after.availableReplicas ?? 0) > (before.availableReplicas ?? 0)
  );
}

function hasTimedOut(deployment: Deployment, condition: DeploymentCondition | undefined, nowMs: number): boolean {
  if (condition === undefined || condition.reason === "NewReplicaSetAvailable") return false;
  if (condition.reason === "ProgressDeadlineExceeded") return true;
  const deadlineMs = deadlineMsOf(deployment);
  const fromMs = timeToMs(condition.lastUpdateTime);
  return deadlineMs !== undefined && fromMs !== undefined && fromMs + deadlineMs < nowMs;
}

function deadlineMsOf({ spec }: Deployment): number | undefined {
  const seconds = spec?.progressDeadlineSeconds ?? 600;
  return seconds === noDeadline ? undefined : seconds * 1000;
}

/** When the progress deadline of a rollout ends. */
export function nextDeadlineMs(deployment: Deployment, status: DeploymentStatus, nowMs: number): number | undefined {
  const deadlineMs = deadlineMsOf(deployment);
  const condition = findCondition(status.conditions, "Progressing");
  if (deadlineMs === undefined || condition === undefined || deployment.spec?.paused === true) return undefined;
  if (condition.reason === "ProgressDeadlineExceeded" || condition.reason === "NewReplicaSetAvailable")
    return undefined;
  if (isComplete(deployment, status)) return undefined;
  const fromMs = timeToMs(condition.lastUpdateTime) ?? nowMs;
  return Math.max(nowMs, fromMs + deadlineMs) + 1000;
}

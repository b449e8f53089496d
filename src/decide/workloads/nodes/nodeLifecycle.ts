/**
 * What follows from a node's silence: the node's conditions become Unknown, it is tainted, its pods are no longer
 * ready, and pods that do not tolerate the taints are evicted when their time is up.
 */

import type { Lease, Node, NodeCondition, Pod, PodCondition, Taint } from "../../../model/kubernetes.generated.ts";
import { type Decision, Draft, earliest } from "../../../model/objects/draft.ts";
import { byName, isLeaving, podCondition } from "../../../model/objects/podFacts.ts";
import { isTolerated, notReadyTaint, sameTaint, tolerates, unreachableTaint } from "../../../model/objects/taints.ts";
import { formatTime, timeToMs } from "../../../model/values/time.ts";

export interface NodeSnapshot {
  readonly node: Node;
  /** Of the namespace kube-node-lease, with the node's name. */
  readonly lease: Lease | undefined;
  readonly pods: readonly Pod[];
  /**
   * When the controller last observed a change of the lease or the node's status, by its own clock: a node with a wrong
   * clock is not NotReady. Without it the times that the node writes are used.
   */
  readonly seenMs?: number;
  /** Every node is unreachable: then the network is the more likely cause, and nothing is evicted. */
  readonly isFullDisruption?: boolean;
}

export interface NodeLifeOptions {
  readonly graceMs: number;
  /** For a node that has never reported. */
  readonly startupGraceMs: number;
}

export const nodeLifeDefaults: NodeLifeOptions = { graceMs: 40_000, startupGraceMs: 60_000 };

const watchedConditions = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
const pressureTaints: Readonly<Record<string, string>> = {
  MemoryPressure: "node.kubernetes.io/memory-pressure",
  DiskPressure: "node.kubernetes.io/disk-pressure",
  PIDPressure: "node.kubernetes.io/pid-pressure",
  NetworkUnavailable: "node.kubernetes.io/network-unavailable",
};
const unschedulableTaint = "node.kubernetes.io/unschedulable";
const ownNoSchedule: ReadonlySet<string> = new Set([
  notReadyTaint,
  unreachableTaint,
  unschedulableTaint,
  ...Object.values(pressureTaints),
]);

export function decideNodeLifecycle(snapshot: NodeSnapshot, nowMs: number, options = nodeLifeDefaults): Decision {
  const draft = new Draft();
  const { node } = snapshot;
  const { name, deletionTimestamp } = node.metadata;
  if (deletionTimestamp !== undefined) return draft.decision();
  const silentMs = silentAtMs(snapshot, options);
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (nowMs < silentMs) {
    if (ready === undefined || ready.status !== "Unknown") draft.wakeAt(silentMs);
  } else {
    const conditions = unknownConditions(node, nowMs);
    draft.status(node, { ...node.status, conditions }, `node ${name} has not reported in time`);
  }
  // A new status is another state of the node; its taints follow in the next reconcile, from that state.
  if (!draft.has(node)) writeTaints(draft, snapshot, nowMs);
  if (ready !== undefined && ready.status !== "True") markPods(draft, snapshot, nowMs);
  return draft.decision();
}

/** When the grace period ends. */
function silentAtMs({ node, lease, seenMs }: NodeSnapshot, { graceMs, startupGraceMs }: NodeLifeOptions): number {
  const reportedMs = [
    timeToMs(lease?.spec?.renewTime),
    ...(node.status?.conditions ?? []).map(({ lastHeartbeatTime }) => timeToMs(lastHeartbeatTime)),
  ].filter((at) => at !== undefined);
  if (reportedMs.length === 0 && seenMs === undefined) {
    return (timeToMs(node.metadata.creationTimestamp) ?? 0) + startupGraceMs;
  }
  // The controller's own observation has precedence, but the process may have just started.
  return Math.max(seenMs ?? Number.NEGATIVE_INFINITY, ...(seenMs === undefined ? reportedMs : [])) + graceMs;
}

function unknownConditions({ status }: Node, nowMs: number): NodeCondition[] {
  const now = formatTime(nowMs);
  const conditions = [...(status?.conditions ?? [])];
  for (const type of watchedConditions) {
    const at = conditions.findIndex((condition) => condition.type === type);
    const old = conditions[at];
    if (old === undefined) {
      const message = "The node has never reported.";
      conditions.push({ type, status: "Unknown", reason: "NodeStatusNeverUpdated", message, lastTransitionTime: now });
    } else if (old.status !== "Unknown") {
      const message = "The node has stopped reporting.";
      const next = { ...old, status: "Unknown", reason: "NodeStatusUnknown", message, lastTransitionTime: now };
      conditions[at] = next;
    }
  }
  return conditions;
}

function writeTaints(draft: Draft, snapshot: NodeSnapshot, nowMs: number): void {
  const { node } = snapshot;
  const before = node.spec?.taints ?? [];
  const wanted = wantedTaints(snapshot);
  const kept = before.filter((taint) => {
    const isOurs =
      (taint.effect === "NoSchedule" && ownNoSchedule.has(taint.key)) ||
      (taint.effect === "NoExecute" && (taint.key === notReadyTaint || taint.key === unreachableTaint));
    return !isOurs || wanted.some((each) => sameTaint(each, taint));
  });
  const now = formatTime(nowMs);
  const added = wanted.filter((taint) => !kept.some((each) => sameTaint(each, taint)));
  const stamped = [...kept, ...added].map((taint): Taint => {
    // tolerationSeconds count from timeAdded. A taint set by hand has none, and a restart must not reset it.
    const needsTime = taint.timeAdded === undefined && (taint.effect === "NoExecute" || added.includes(taint));
    return needsTime ? { ...taint, timeAdded: now } : taint;
  });
  const isSame = stamped.length === before.length && stamped.every((taint, i) => taint === before[i]);
  if (isSame) return;
  const patch = { spec: { taints: stamped.length > 0 ? stamped : null } };
  draft.patch(node, patch, `taints of node ${node.metadata.name} follow its conditions`);
}

function wantedTaints({ node, isFullDisruption }: NodeSnapshot): Taint[] {
  const wanted: Taint[] = [];
  const conditions = node.status?.conditions ?? [];
  const ready = conditions.find(({ type }) => type === "Ready")?.status;
  const key = ready === "Unknown" ? unreachableTaint : ready === "False" ? notReadyTaint : undefined;
  if (key !== undefined) {
    wanted.push({ key, effect: "NoSchedule" });
    if (isFullDisruption !== true) wanted.push({ key, effect: "NoExecute" });
  }
  for (const { type, status } of conditions) {
    const pressure = pressureTaints[type];
    if (pressure !== undefined && status === "True") wanted.push({ key: pressure, effect: "NoSchedule" });
  }
  if (node.spec?.unschedulable === true) wanted.push({ key: unschedulableTaint, effect: "NoSchedule" });
  return wanted;
}

/** A pod on a silent node must not receive traffic. When the node returns, its kubelet sets Ready again. */
function markPods(draft: Draft, { node, pods }: NodeSnapshot, nowMs: number): void {
  for (const pod of [...pods].sort(byName)) {
    const ready = podCondition(pod, "Ready");
    if (pod.spec?.nodeName !== node.metadata.name || ready?.status !== "True") continue;
    const next = { ...ready, status: "False", lastTransitionTime: formatTime(nowMs) };
    const conditions = (pod.status?.conditions ?? []).map((each) => (each === ready ? next : each));
    draft.status(pod, { ...pod.status, conditions }, `node ${node.metadata.name} of the pod is not ready`);
  }
}

/** Evicts pods that no longer tolerate a NoExecute taint, on every node, not only on silent ones. */
export function decideTaintEviction({ node, pods }: { node: Node; pods: readonly Pod[] }, nowMs: number): Decision {
  const draft = new Draft();
  const taints = (node.spec?.taints ?? []).filter(({ effect }) => effect === "NoExecute");
  if (taints.length === 0) return draft.decision();
  for (const pod of [...pods].sort(byName)) {
    if (pod.spec?.nodeName !== node.metadata.name || isLeaving(pod)) continue;
    const atMs = evictionAtMs(pod, taints);
    if (atMs === undefined) continue;
    if (atMs > nowMs) {
      draft.wakeAt(atMs);
      continue;
    }
    const keys = taints.map(({ key }) => key).join(", ");
    disrupt(
      draft,
      pod,
      { reason: "DeletionByTaintManager", why: `the pod does not tolerate ${keys} any longer` },
      nowMs,
    );
  }
  return draft.decision();
}

/** When a pod no longer tolerates its node's NoExecute taints. Undefined: never, or not before the taint has a time. */
export function evictionAtMs({ spec, metadata }: Pod, taints: readonly Taint[]): number | undefined {
  let atMs: number | undefined;
  for (const taint of taints) {
    if (!isTolerated(taint, spec?.tolerations)) return Number.NEGATIVE_INFINITY;
    const since = timeToMs(taint.timeAdded);
    if (since === undefined) continue;
    const startMs = Math.max(since, timeToMs(metadata.creationTimestamp) ?? since);
    for (const toleration of spec?.tolerations ?? []) {
      if (!tolerates(toleration, taint) || toleration.tolerationSeconds === undefined) continue;
      atMs = earliest(atMs, startMs + Math.max(0, toleration.tolerationSeconds) * 1000);
    }
  }
  return atMs;
}

/**
 * First writes DisruptionTarget to the pod, so that a Job's failure policy can read it; when that is stored, deletes
 * the pod.
 */
export function disrupt(draft: Draft, pod: Pod, { reason, why }: { reason: string; why: string }, nowMs: number): void {
  if (podCondition(pod, "DisruptionTarget")?.status === "True") {
    draft.remove(pod, why);
    return;
  }
  draft.status(pod, { ...pod.status, conditions: disrupted(pod, { reason, why }, nowMs) }, why);
}

export function disrupted(pod: Pod, { reason, why }: { reason: string; why: string }, nowMs: number): PodCondition[] {
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== "DisruptionTarget");
  const lastTransitionTime = formatTime(nowMs);
  return [...others, { type: "DisruptionTarget", status: "True", reason, message: why, lastTransitionTime }];
}

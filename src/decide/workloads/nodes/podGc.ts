/**
 * Pods that no other controller deletes: those of deleted nodes, finished ones, and terminating ones without a node.
 */

import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { type Decision, Draft } from "../../../model/objects/draft.ts";
import { byAge, isFinished, isLeaving, podCondition } from "../../../model/objects/podFacts.ts";
import { disrupted } from "./nodeLifecycle.ts";

export interface PodGcSnapshot {
  readonly pods: readonly Pod[];
  readonly nodes: readonly Node[];
  /**
   * Since when a node with pods has been missing, from `missing` of the last decision. A node that is newer than the
   * list of nodes looks deleted; so it has to be missing for a while before its pods are deleted.
   */
  readonly missingSinceMs: ReadonlyMap<string, number>;
}

export interface PodGcDecision extends Decision {
  /** Names of nodes that have pods and do not exist. */
  readonly missing: readonly string[];
}

export interface PodGcOptions {
  /** How many finished pods are kept. */
  readonly endedMax: number;
  readonly quarantineMs: number;
}

export const podGcDefaults: PodGcOptions = { endedMax: 12_500, quarantineMs: 40_000 };

const outOfService = "node.kubernetes.io/out-of-service";

export function decidePodGc(snapshot: PodGcSnapshot, nowMs: number, options = podGcDefaults): PodGcDecision {
  const draft = new Draft();
  const pods = [...snapshot.pods].sort(byAge);
  const nodes = new Map(snapshot.nodes.map((node) => [node.metadata.name, node]));
  const missing = new Set<string>();
  for (const pod of pods) {
    const nodeName = pod.spec?.nodeName ?? "";
    if (nodeName === "") {
      if (isLeaving(pod)) clear(draft, pod, { why: "the pod is terminating and was never scheduled" }, nowMs);
      continue;
    }
    const node = nodes.get(nodeName);
    if (node === undefined) {
      missing.add(nodeName);
      const sinceMs = snapshot.missingSinceMs.get(nodeName) ?? nowMs;
      const atMs = sinceMs + options.quarantineMs;
      if (atMs > nowMs) draft.wakeAt(atMs);
      else clear(draft, pod, { reason: "DeletionByPodGC", why: `node ${nodeName} of the pod does not exist` }, nowMs);
    } else if (isLeaving(pod) && isOutOfService(node)) {
      clear(draft, pod, { reason: "DeletionByPodGC", why: `node ${nodeName} of the pod is out of service` }, nowMs);
    }
  }
  clearEnded(draft, pods, options.endedMax);
  return { ...draft.decision(), missing: [...missing].sort() };
}

function isOutOfService({ spec, status }: Node): boolean {
  const isReady = status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True");
  return isReady !== true && spec?.taints?.some(({ key }) => key === outOfService) === true;
}

/** No kubelet will report the pod's end, so it is recorded here; when that is stored, the object is deleted. */
function clear(draft: Draft, pod: Pod, cause: { reason?: string; why: string }, nowMs: number): void {
  const { reason, why } = cause;
  const needsReason = reason !== undefined && podCondition(pod, "DisruptionTarget") === undefined;
  if (!isFinished(pod)) {
    const conditions = needsReason ? disrupted(pod, { reason, why }, nowMs) : pod.status?.conditions;
    draft.status(pod, { ...pod.status, phase: "Failed", ...(conditions && { conditions }) }, why);
    return;
  }
  // The delete was sent already, without grace: a finalizer keeps the object.
  if (isLeaving(pod) && pod.metadata.deletionGracePeriodSeconds === 0) return;
  draft.remove(pod, why, { gracePeriodSeconds: 0 });
}

/** Evicted pods first, then the oldest. */
function clearEnded(draft: Draft, pods: readonly Pod[], endedMax: number): void {
  const ended = pods.filter((pod) => isFinished(pod) && !isLeaving(pod));
  const surplus = ended.length - endedMax;
  if (surplus <= 0) return;
  const isEvicted = ({ status }: Pod) => status?.phase === "Failed" && status.reason === "Evicted";
  const ordered = [...ended].sort((a, b) => Number(isEvicted(b)) - Number(isEvicted(a)) || byAge(a, b));
  for (const pod of ordered.slice(0, surplus)) {
    if (!draft.has(pod)) draft.remove(pod, `there are more than ${endedMax} finished pods`, { gracePeriodSeconds: 0 });
  }
}

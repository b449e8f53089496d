/**
 * Pods that no other controller deletes: those of nodes that are gone, those that have ended, those that never had a
 * node.
 */

import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { type Decision, Draft } from "../../../model/objects/draft.ts";
import { byAge, isFinished, isLeaving, podCondition } from "../../../model/objects/podFacts.ts";
import { disrupted } from "./nodeLife.ts";

export interface PodGcSnapshot {
  readonly pods: readonly Pod[];
  readonly nodes: readonly Node[];
  /**
   * Since when a node with pods has been missing, as the driver keeps it from `missing` of the last decision. A node
   * that was read before its pods looks gone; so it has to be missing for a while, and still, before its pods are.
   */
  readonly missingSinceMs: ReadonlyMap<string, number>;
}

export interface PodGcDecision extends Decision {
  /** Names of nodes that pods are on and that do not exist. */
  readonly missing: readonly string[];
}

export interface PodGcOptions {
  /** How many ended pods are kept. */
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
      if (isLeaving(pod)) clear(draft, pod, { why: "the pod was asked to go before it had a node" }, nowMs);
      continue;
    }
    const node = nodes.get(nodeName);
    if (node === undefined) {
      missing.add(nodeName);
      const sinceMs = snapshot.missingSinceMs.get(nodeName) ?? nowMs;
      const atMs = sinceMs + options.quarantineMs;
      if (atMs > nowMs) draft.wakeAt(atMs);
      else clear(draft, pod, { reason: "DeletionByPodGC", why: `node ${nodeName} of the pod is gone` }, nowMs);
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
function clear(draft: Draft, pod: Pod, said: { reason?: string; why: string }, nowMs: number): void {
  const { reason, why } = said;
  const needsReason = reason !== undefined && podCondition(pod, "DisruptionTarget") === undefined;
  if (!isFinished(pod)) {
    const conditions = needsReason ? disrupted(pod, { reason, why }, nowMs) : pod.status?.conditions;
    draft.status(pod, { ...pod.status, phase: "Failed", ...(conditions && { conditions }) }, why);
    return;
  }
  // Asked for already, without grace: a finalizer keeps the object, and asking again changes nothing.
  if (isLeaving(pod) && pod.metadata.deletionGracePeriodSeconds === 0) return;
  draft.remove(pod, why, { gracePeriodSeconds: 0 });
}

/** The oldest first, and before them the evicted ones, which are of least interest. */
function clearEnded(draft: Draft, pods: readonly Pod[], endedMax: number): void {
  const ended = pods.filter((pod) => isFinished(pod) && !isLeaving(pod));
  const surplus = ended.length - endedMax;
  if (surplus <= 0) return;
  const isEvicted = ({ status }: Pod) => status?.phase === "Failed" && status.reason === "Evicted";
  const ordered = [...ended].sort((a, b) => Number(isEvicted(b)) - Number(isEvicted(a)) || byAge(a, b));
  for (const pod of ordered.slice(0, surplus)) {
    if (!draft.has(pod)) draft.remove(pod, `more than ${endedMax} ended pods are kept`, { gracePeriodSeconds: 0 });
  }
}

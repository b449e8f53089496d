/**
 * Pods that no longer count for their clique although their objects exist. A pod on a node that is deleted or silent
 * stays Terminating for ever, because no kubelet confirms its deletion; and when every node is silent, the node
 * lifecycle controller stops evicting, so that such pods are not even deleted. So the state of the node counts as well:
 *
 *   kubelet        node                      pod                               counts
 *   silent         Ready is Unknown          tolerates that for a while        as before
 *   silent         unreachable               its toleration is over            no longer
 *   silent         unreachable               evicted: Terminating for ever     no longer
 *   back           Ready is True             not evicted in the meantime       again
 */
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { notReadyTaint, unreachableTaint } from "../../../model/objects/taints.ts";
import { evictionAtMs } from "../../workloads/nodes/nodeLifecycle.ts";
import { isLeaving } from "../gangLabels.ts";

/** The node that a pod is bound to. Undefined: the pod has none, or the node is unknown, which is not a loss. */
export type NodeOf = (pod: Pod) => Node | "gone" | undefined;

/** When a pod is lost with its node. Undefined: the known state of the node does not lead to a loss. */
export function nodeLossAtMs(pod: Pod, nodeOf: NodeOf): number | undefined {
  const node = nodeOf(pod);
  if (node === undefined) return undefined;
  if (node === "gone") return Number.NEGATIVE_INFINITY;
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  const key = ready?.status === "Unknown" ? unreachableTaint : ready?.status === "False" ? notReadyTaint : undefined;
  if (key === undefined) return undefined;
  const taint = node.spec?.taints?.find((each) => each.key === key && each.effect === "NoExecute");
  // The condition's time first: the taint comes later, and is removed when all nodes are silent.
  const timeAdded = ready?.lastTransitionTime ?? taint?.timeAdded;
  return evictionAtMs(pod, [{ key, effect: "NoExecute", ...(timeAdded !== undefined && { timeAdded }) }]);
}

export function isLostWithNode(pod: Pod, nodeOf: NodeOf, nowMs: number): boolean {
  const atMs = nodeLossAtMs(pod, nodeOf);
  return atMs !== undefined && atMs <= nowMs;
}

/** Whether a pod no longer counts: it is terminating, or lost with its node. */
export function isLost(pod: Pod, nodeOf: NodeOf, nowMs: number): boolean {
  return isLeaving(pod) || isLostWithNode(pod, nodeOf, nowMs);
}

/**
 * Pods that a clique no longer has, although their objects exist. A pod on a node that is gone or silent stays
 * Terminating for ever, because no kubelet confirms its deletion; and when every node is silent the cluster stops
 * evicting, so that such pods are not even deleted. So the nodes count as well:
 *
 *   kubelet        node                      pod                               counts
 *   silent         Ready is Unknown          tolerates that for a while        as before
 *   silent         unreachable               its toleration is over            no longer
 *   silent         unreachable               evicted: Terminating for ever     no longer
 *   back           Ready is True             not evicted in the meantime       again
 */
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { notReadyTaint, unreachableTaint } from "../../../model/objects/taints.ts";
import { evictionAtMs } from "../../workloads/nodes/nodeLife.ts";
import { isLeaving } from "../gangLabels.ts";

/** The node that a pod is bound to. Undefined: the pod has none, or nothing is known of it, which is no loss. */
export type NodeOf = (pod: Pod) => Node | "gone" | undefined;

/** When a pod is lost with its node: undefined while nothing that is known of the node leads to that. */
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

/**
 * How far an owner may run ahead of the schedulers. A Deployment of two thousand million replicas would otherwise fill
 * the disk and the memory with pods that no node can take; so the next pods are made when earlier ones have found a
 * node.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";

/** No more pods of one owner than this wait for a node at a time. */
export const pendingPodsMax = 5_000;

/** Reported as a condition where a kind has one, and as an event. */
export const pendingPodsReason = "TooManyPendingPods";

export function pendingPodsMessage(kind: string): string {
  return `${pendingPodsMax} pods of this ${kind} wait for a node; more are created as these are scheduled. Add nodes, or ask for fewer pods`;
}

/** How many more pods may be made now. `pods` are those that count for the owner. */
export function pendingPodsRoom(pods: Iterable<Pod>): number {
  let pending = 0;
  for (const { spec } of pods) if ((spec?.nodeName ?? "") === "") pending++;
  return Math.max(0, pendingPodsMax - pending);
}

/**
 * Limits the pending pods of an owner. A Deployment of two billion replicas would otherwise fill the disk and the
 * memory with pods that no node can run; so further pods are created when earlier ones are scheduled.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";

/** The largest number of pods of one owner without a node. */
export const pendingPodsMax = 5_000;

/** Reported as a condition where a kind has one, and as an event. */
export const pendingPodsReason = "TooManyPendingPods";

export function pendingPodsMessage(kind: string): string {
  return `${pendingPodsMax} pods of this ${kind} wait for a node; more are created as these are scheduled. Add nodes, or request fewer pods`;
}

/** How many more pods may be created now. `pods` are those that count for the owner. */
export function pendingPodsRoom(pods: Iterable<Pod>): number {
  let pending = 0;
  for (const { spec } of pods) if ((spec?.nodeName ?? "") === "") pending++;
  return Math.max(0, pendingPodsMax - pending);
}

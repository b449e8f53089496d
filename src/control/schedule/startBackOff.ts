import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";

/** The first back-off after a failed bind or eviction; each one after that is twice as long, up to the longest. */
const firstMs = 1_000;

/**
 * Starts the back-off of a pod that could not be bound: placed again at once, it would be first in every cycle, and
 * other pods would starve. The same for a pod that could not be evicted: other pods may be victims instead. The
 * back-off is kept in memory only, because losing it is harmless.
 */
export function startBackOff(
  cluster: Cluster,
  uid: string,
  { why, nowMs, longestMs }: { readonly why: string; readonly nowMs: number; readonly longestMs: number },
): void {
  if (!cluster.tasks.has(uid)) return;
  const times = (cluster.backOffs.get(uid)?.times ?? 0) + 1;
  cluster.backOffs.set(uid, { untilMs: nowMs + Math.min(longestMs, firstMs * 2 ** (times - 1)), why, times });
}

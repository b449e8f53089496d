import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";

/** The first back-off after a failed bind or eviction; each one after that is twice as long, up to the longest. */
const firstMs = 1_000;

/**
 * A pod that could not be bound backs off, longer each time: placed again at once it would win every cycle, and others
 * would starve behind it. The same for a pod that could not be evicted: others may be victims instead. May be lost: it
 * only delays.
 */
export function holdBack(
  cluster: Cluster,
  uid: string,
  { why, nowMs, longestMs }: { readonly why: string; readonly nowMs: number; readonly longestMs: number },
): void {
  if (!cluster.tasks.has(uid)) return;
  const times = (cluster.heldBack.get(uid)?.times ?? 0) + 1;
  cluster.heldBack.set(uid, { untilMs: nowMs + Math.min(longestMs, firstMs * 2 ** (times - 1)), why, times });
}

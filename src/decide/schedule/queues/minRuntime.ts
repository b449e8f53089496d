import type { Job } from "../cluster/job.ts";
import type { Session } from "../session.ts";
import { firstDifference } from "./divergence.ts";
import type { QueueState } from "./queueTree.ts";

/** Whether the job started less than `minRuntime` ago: its required pods are protected, its surplus is not. */
export function isProtected(session: Session, job: Job, minRuntimeMs: number): boolean {
  if (minRuntimeMs <= 0 || job.lastStartMs === undefined) return false;
  const untilMs = job.lastStartMs + minRuntimeMs;
  if (untilMs > session.nowMs) session.wakeAt(untilMs);
  return untilMs > session.nowMs;
}

export function preemptMinRuntimeMs({ cluster }: Session, { queue }: Job): number {
  for (const each of queue?.path() ?? []) {
    if (each.preemptMinRuntimeMs !== undefined) return each.preemptMinRuntimeMs;
  }
  return cluster.settings.preemptMinRuntimeMs;
}

export function reclaimMinRuntimeMs({ cluster }: Session, { queue }: Job, reclaimer: QueueState): number {
  const { settings } = cluster;
  if (queue === undefined) return settings.reclaimMinRuntimeMs;
  const byDivergence = settings.reclaimMinRuntimeMethod === "lca";
  const from = (byDivergence ? firstDifference(reclaimer, queue)?.theirs : undefined) ?? queue;
  for (const each of from.path()) if (each.reclaimMinRuntimeMs !== undefined) return each.reclaimMinRuntimeMs;
  return settings.reclaimMinRuntimeMs;
}

import type { Job } from "../../decide/schedule/cluster/job.ts";
import type { Task } from "../../decide/schedule/cluster/task.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { PendingReasons } from "./pendingReasons.ts";

interface Waiting {
  count: number;
  oldestMs: number;
}

/** Pending pods by job, and those whose group does not exist. */
export interface WaitingSource {
  readonly jobs: ReadonlyMap<string, Job>;
  readonly withoutGroup: ReadonlyMap<string, ReadonlySet<Task>>;
}

/**
 * Exports the number of pending pods by reason, and the age of the oldest, for alerts. A reason without pods stays at
 * zero, because a series that ends looks like a process that has ended.
 */
export class WaitingPods {
  private readonly metrics: Metrics;
  private readonly pool: string;
  private readonly known = new Set<string>();

  constructor(metrics: Metrics, pool: string) {
    this.metrics = metrics;
    this.pool = pool;
  }

  measure(source: WaitingSource, reasons: PendingReasons, nowMs: number): void {
    const byReason = new Map<string, Waiting>();
    const note = (tasks: ReadonlySet<Task>, reason: string): void => {
      for (const { status, createdMs } of tasks) {
        if (status !== "pending") continue;
        const waiting = byReason.get(reason) ?? { count: 0, oldestMs: createdMs };
        waiting.count++;
        waiting.oldestMs = Math.min(waiting.oldestMs, createdMs);
        byReason.set(reason, waiting);
      }
    };
    for (const { id, tasks } of source.jobs.values()) note(tasks, reasonOf(reasons, id, "Undecided"));
    for (const [id, tasks] of source.withoutGroup) note(tasks, reasonOf(reasons, id, "NoGroup"));
    this.write(byReason, nowMs);
  }

  /** Removes the series when another process holds the lease. */
  clear(): void {
    this.write(new Map(), 0);
  }

  private write(byReason: ReadonlyMap<string, Waiting>, nowMs: number): void {
    for (const reason of byReason.keys()) this.known.add(reason);
    for (const reason of this.known) {
      const { count, oldestMs } = byReason.get(reason) ?? { count: 0, oldestMs: nowMs };
      const labels = { node_pool: this.pool, reason };
      this.metrics.gauge("muster_pending_pods", labels, count);
      this.metrics.gauge("muster_oldest_pending_pod_age_seconds", labels, Math.max(0, nowMs - oldestMs) / 1000);
    }
  }
}

function reasonOf(reasons: PendingReasons, id: string, otherwise: string): string {
  return reasons.get(id)?.verdict.reason ?? otherwise;
}

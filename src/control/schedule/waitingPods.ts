import type { Job } from "../../decide/schedule/cluster/job.ts";
import type { Task } from "../../decide/schedule/cluster/task.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { ReasonBook } from "./reasonBook.ts";

interface Waiting {
  count: number;
  oldestMs: number;
}

/** What waits is in one of these: the groups that are known, and pods of groups that are not. */
export interface WaitingSource {
  readonly jobs: ReadonlyMap<string, Job>;
  readonly withoutGroup: ReadonlyMap<string, ReadonlySet<Task>>;
}

/**
 * How many pods wait, for which reason, and for how long the oldest of them: numbers for alerts. A reason that has gone
 * stays at zero, because a series that ends looks like a process that ends.
 */
export class WaitingPods {
  private readonly metrics: Metrics;
  private readonly pool: string;
  private readonly known = new Set<string>();

  constructor(metrics: Metrics, pool: string) {
    this.metrics = metrics;
    this.pool = pool;
  }

  measure(source: WaitingSource, reasons: ReasonBook, nowMs: number): void {
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

  /** Another process leads and says it. */
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

function reasonOf(reasons: ReasonBook, id: string, otherwise: string): string {
  return reasons.get(id)?.verdict.reason ?? otherwise;
}

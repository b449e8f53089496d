import type { PendingReasons } from "./pendingReasons.ts";
import type { SchedulerCaches } from "./schedulerCaches.ts";

/** The scheduler of one node pool: its model of the cluster, and what it reported about jobs that wait. */
export interface SchedulerPool {
  readonly caches: SchedulerCaches;
  readonly reasons: PendingReasons;
}

/** The schedulers that run in this process, for views: they read the models that decisions are taken from. */
export class SchedulerPools {
  private readonly pools = new Set<SchedulerPool>();

  add(pool: SchedulerPool): void {
    this.pools.add(pool);
  }

  remove(pool: SchedulerPool): void {
    this.pools.delete(pool);
  }

  all(): readonly SchedulerPool[] {
    return [...this.pools];
  }
}

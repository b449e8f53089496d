import { unlimited } from "../../../model/scheduling/queue.ts";
import type { QueueState } from "../queues/queueTree.ts";
import type { Cluster } from "./cluster.ts";
import type { Task } from "./task.ts";

/** The bound of a queue that keeps a task from GPUs of one type. */
export interface TypeBar {
  readonly queue: QueueState;
  readonly type: string;
  readonly bound: "limit" | "quota";
  /** In thousandths of a GPU. */
  readonly amount: number;
}

const none: ReadonlyMap<string, TypeBar> = new Map();

/**
 * The types of GPUs for which a task's queue, or an ancestor of it, has reached its limit; for non-preemptible work,
 * its quota.
 */
export function barredTypes(cluster: Cluster, task: Task): ReadonlyMap<string, TypeBar> {
  const { job } = task;
  if (!cluster.queues.hasTypes || job?.queue === undefined) return none;
  const [asked] = cluster.vectorOf(task, cluster.gpuMemoryRange().mostMiB);
  if (asked <= 0) return none;
  const bars = new Map<string, TypeBar>();
  for (const queue of job.queue.path()) {
    for (const [type, { quota, limit }] of queue.typeBounds) {
      if (bars.has(type)) continue;
      const { allocated, nonPreemptible } = queue.ofType(type);
      if (limit !== unlimited && allocated + asked > limit)
        bars.set(type, { queue, type, bound: "limit", amount: limit });
      else if (!job.isPreemptible && quota !== unlimited && nonPreemptible + asked > quota) {
        bars.set(type, { queue, type, bound: "quota", amount: quota });
      }
    }
  }
  return bars;
}

export function typeBarText({ queue, type, bound, amount }: TypeBar): string {
  return `have GPUs of type ${type}, and the pod would exceed the ${bound} of ${amount / 1000} that queue ${queue.name} has for this type`;
}

import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { Task } from "../cluster/task.ts";
import { elasticRank } from "../placement/gangSteps.ts";
import { compareJobs, sortedJobs } from "../queues/order.ts";
import type { EvictionReason } from "../statement.ts";

/**
 * Which pods a job may evict, and when that is fair. The rules are evaluated on demand, because most running jobs are
 * never considered.
 */
export interface VictimRules {
  readonly reason: EvictionReason;
  /** Two rules of one action and one kind have the same victims in the same order, and let them keep the same core. */
  readonly kind: string;
  /** Before the first eviction. */
  readonly isVictim: (job: Job) => boolean;
  /** Compares the queues of two jobs before the first eviction: negative if that of the first job loses first. */
  readonly compareQueues: (a: Job, b: Job) => number;
  /** The pods that a PodDisruptionBudget protects, given in order of importance: they are evicted last. */
  readonly guarded?: (tasks: readonly Task[]) => ReadonlySet<Task>;
  /** Whether the job may lose more than its surplus. */
  readonly mayLoseCore: (job: Job) => boolean;
  /** Called before each eviction, with the evictions so far applied to the queues. */
  readonly mayTake: (job: Job) => boolean;
  /** Called at the end, with the job placed. */
  readonly isFair: () => boolean;
  /** Every victim must be placed on another node. */
  readonly replacesAll: boolean;
  /** A pod that may not be evicted may be moved to another node. */
  readonly mayMove: boolean;
  readonly jobsMax: number;
}

/** The order of victims: by queue, then the lowest priority first, then the youngest. */
export function compareVictims(rules: VictimRules, a: Job, b: Job, rankOf: (job: Job) => number = elasticRank): number {
  if (a === b) return 0;
  return rules.compareQueues(a, b) || compareJobs(b, a, rankOf);
}

/** All jobs that may lose pods, in the order of victims. */
export function victimsUnder(cluster: Cluster, rules: VictimRules): Job[] {
  const jobs: Job[] = [];
  for (const job of cluster.jobs.values()) if (job.allocatedCount > 0 && rules.isVictim(job)) jobs.push(job);
  return sortedJobs(jobs)
    .reverse()
    .sort((a, b) => rules.compareQueues(a, b));
}

/** Only jobs of PodGroups are in queues; other pods are scheduled by Kubernetes' rules. */
export function isOfQueue(job: Job): boolean {
  return job.isGroup && job.queue !== undefined;
}

export function reasonFor(
  action: EvictionReason["action"],
  evictor: Job,
  whyFor: (name: string) => string,
  evictorName = evictor.id,
): EvictionReason {
  return { action, evictor, why: whyFor(evictorName), evictorName };
}

/** The reason as the victim's tenant may read it: workloads of another namespace have no name in it. */
export function reasonToldTo(victim: Task, reason: EvictionReason): EvictionReason {
  const { evictor, evictorName, why } = reason;
  if (evictor === undefined || evictorName === undefined || evictor.namespace === victim.namespace) return reason;
  return { ...reason, why: why.replaceAll(evictorName, "a workload of another namespace") };
}

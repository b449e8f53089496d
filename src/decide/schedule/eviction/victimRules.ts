import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { Task } from "../cluster/task.ts";
import { elasticRank } from "../placement/gang.ts";
import { compareJobs, sortedJobs } from "../queues/order.ts";
import type { EvictionReason } from "../statement.ts";

/**
 * Which pods a job may evict, and when that is fair. Nothing of it is worked out for every running job: most are never
 * looked at.
 */
export interface VictimRules {
  readonly reason: EvictionReason;
  /** Two rules of one action and one kind have the same victims in the same order, and let them keep the same core. */
  readonly kind: string;
  /** As it was before anything was taken. */
  readonly isVictim: (job: Job) => boolean;
  /** Which of two jobs' queues loses first, as they were before anything was taken: negative for the first one's. */
  readonly compareQueues: (a: Job, b: Job) => number;
  /** Of pods, the most important first, those that a budget of theirs does not let go: they go last. */
  readonly guarded?: (tasks: readonly Task[]) => ReadonlySet<Task>;
  /** Whether the job may lose more than what it can do without. */
  readonly mayLoseCore: (job: Job) => boolean;
  /** Asked before each step, with everything taken so far already gone from the queues' accounts. */
  readonly mayTake: (job: Job) => boolean;
  /** Asked at the end, with the job placed. */
  readonly isFair: () => boolean;
  /** Every victim must find another place. */
  readonly replacesAll: boolean;
  /** A pod that may not be evicted may be moved: it must find another place then. */
  readonly mayMove: boolean;
  readonly jobsMax: number;
}

/** The first to lose first: of the queue that loses first, of the lowest priority, the youngest. */
export function compareVictims(rules: VictimRules, a: Job, b: Job, rankOf: (job: Job) => number = elasticRank): number {
  if (a === b) return 0;
  return rules.compareQueues(a, b) || compareJobs(b, a, rankOf);
}

/** All jobs that may lose pods, the first to lose first. */
export function victimsUnder(cluster: Cluster, rules: VictimRules): Job[] {
  const jobs: Job[] = [];
  for (const job of cluster.jobs.values()) if (job.allocatedCount > 0 && rules.isVictim(job)) jobs.push(job);
  return sortedJobs(jobs)
    .reverse()
    .sort((a, b) => rules.compareQueues(a, b));
}

export function hasVictims(cluster: Cluster, rules: VictimRules): boolean {
  for (const job of cluster.jobs.values()) if (rules.isVictim(job) && job.allocatedCount > 0) return true;
  return false;
}

/** Only groups are in queues; a pod without one is the business of the cluster's own scheduler. */
export function isOfQueue(job: Job): boolean {
  return job.isGroup && job.queue !== undefined;
}

export function reasonFor(action: EvictionReason["action"], evictor: Job, why: string): EvictionReason {
  return { action, evictor, why };
}

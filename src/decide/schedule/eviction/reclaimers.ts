import type { Job } from "../cluster/job.ts";
import { nextSteps, type Step } from "../placement/gangSteps.ts";
import { requestOf } from "../queues/gates.ts";
import type { QueueState } from "../queues/queueTree.ts";
import { reclaimRules } from "../queues/reclaimRules.ts";
import type { Session } from "../session.ts";

interface Reclaimer {
  readonly job: Job;
  readonly step: Step;
  readonly gpuMilli: number;
}

/**
 * Pending jobs that may reclaim, one of each queue: the one with the smallest request has the most victims. A job that
 * such a reclaimer may evict is not started just before: it would be evicted at once.
 */
export class Reclaimers {
  private readonly session: Session;
  private known: ReadonlyMap<QueueState, Reclaimer> | undefined;
  /** By the queue of the job, until something is placed or rolled back: jobs of one queue have the same reclaimers. */
  private readonly answers = new Map<QueueState, boolean>();
  private answeredAt = -1;

  constructor(session: Session) {
    this.session = session;
  }

  /** Whether one of them may evict the preemptible job, with the current usage of its queue. */
  mayTake(job: Job): boolean {
    const { end } = this.session.cluster.table.log;
    if (this.answeredAt !== end) this.answers.clear();
    this.answeredAt = end;
    if (job.queue === undefined) return false;
    let answer = this.answers.get(job.queue);
    if (answer === undefined) {
      answer = this.looks(job);
      this.answers.set(job.queue, answer);
    }
    return answer;
  }

  private looks(job: Job): boolean {
    this.known ??= this.byQueue();
    for (const [queue, { job: reclaimer, step }] of this.known) {
      // It may have been placed since.
      if (queue === job.queue || !this.session.obstacles.has(reclaimer)) continue;
      if (reclaimRules(this.session, reclaimer, step)?.isVictim(job) === true) return true;
    }
    return false;
  }

  private byQueue(): ReadonlyMap<QueueState, Reclaimer> {
    const { cluster, obstacles, nowMs } = this.session;
    const least = new Map<QueueState, Reclaimer>();
    for (const [job, { type }] of obstacles) {
      if (type !== "placement" || job.queue === undefined || job.preemptsFromMs > nowMs) continue;
      const [step] = nextSteps(job);
      if (step === undefined) continue;
      const [gpuMilli] = requestOf(cluster, step.tasks);
      if (gpuMilli < (least.get(job.queue)?.gpuMilli ?? Number.POSITIVE_INFINITY)) {
        least.set(job.queue, { job, step, gpuMilli });
      }
    }
    return least;
  }
}

import type { Job } from "../cluster/job.ts";
import type { Session } from "../session.ts";

/**
 * The victim searches of one action that found nothing, by queue; by namespace for pods without a queue. A queue with
 * too many of them searches for its other jobs in later cycles, so that it does not hold up the other queues.
 */
export class QueueSearches {
  private readonly session: Session;
  private readonly max: number;
  private readonly failedOf = new Map<string, number>();

  constructor(session: Session) {
    this.session = session;
    this.max = session.cluster.settings.retryLimits?.jobsMax ?? Number.POSITIVE_INFINITY;
  }

  mayBegin(job: Job): boolean {
    if ((this.failedOf.get(keyOf(job)) ?? 0) < this.max) return true;
    this.session.unsearched.add(job);
    return false;
  }

  failed(job: Job): void {
    const key = keyOf(job);
    this.failedOf.set(key, (this.failedOf.get(key) ?? 0) + 1);
  }
}

function keyOf({ isGroup, queueName, namespace }: Job): string {
  return isGroup ? `queue ${queueName}` : `namespace ${namespace}`;
}

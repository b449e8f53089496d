import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import { isAllocatedStatus } from "../cluster/task.ts";
import { JobLine, sortedJobs } from "../queues/order.ts";
import { isBeingBound, type Session } from "../session.ts";
import { isReady } from "./gangSteps.ts";

/** Allocates free resources, job after job in the order of fairness. An elastic job that has grown is queued again. */
export function allocate(session: Session): void {
  const { cluster } = session;
  session.unplaceable.clear();
  for (const job of plainLine(session)) servePlain(session, job);
  const depth = cluster.settings.queueDepth["allocate"];
  const candidates = session.candidates();
  // Jobs that victims were evicted for get their nominated nodes before other jobs are placed.
  const promised =
    cluster.nominated.size === 0 ? [] : candidates.filter((job) => session.guarded(job, false, () => isNominated(job)));
  for (const job of sortedJobs(promised)) while (serve(session, job) && isNominated(job));
  const line = new JobLine(
    cluster,
    session.total,
    candidates.filter((job) => job.pendingCount > 0),
    depth,
  );
  for (let job = line.pop(); job !== undefined; job = line.pop()) {
    if (serve(session, job) && job.pendingCount > 0) line.push(job);
  }
  // Later actions may evict pods and free resources.
  session.unplaceable.clear();
}

interface PlainLine {
  readonly number: number;
  readonly jobs: readonly Job[];
}

/**
 * The order of the last cycle, by cluster: jobs that are still pending keep their order, so that sorting costs little.
 */
const lastLines = new WeakMap<Cluster, PlainLine>();

/** Jobs without a queue, in order. */
function plainLine(session: Session): readonly Job[] {
  const { cluster } = session;
  const last = lastLines.get(cluster) ?? { number: 0, jobs: [] };
  const number = last.number + 1;
  const line: Job[] = [];
  const join = (job: Job): void => {
    job.lineNumber = number;
    line.push(job);
  };
  const isDue = new Set(session.due);
  for (const job of last.jobs) if (isDue.has(job)) join(job);
  for (const job of session.due) if (!job.isGroup && job.lineNumber !== number) join(job);
  const jobs = sortedJobs(line);
  lastLines.set(cluster, { number, jobs });
  return jobs;
}

/** Places a single pod, or a gang without a queue: its minimum together, then further pods one by one. */
function servePlain(session: Session, job: Job): void {
  const isServed = session.guarded(job, false, () => {
    if (!isReady(job.root)) session.obstacles.set(job, { type: "notReady" });
    return isReady(job.root) && !isBeingBound(job);
  });
  while (isServed && serve(session, job) && job.pendingCount > 0);
}

function serve(session: Session, job: Job): boolean {
  if (!session.guarded(job, false, () => session.tryPlace(job))) return false;
  session.obstacles.delete(job);
  if (!session.decided.has(job)) session.decided.set(job, "allocate");
  return true;
}

function isNominated(job: Job): boolean {
  for (const set of job.podSets) {
    if (set.pending === 0) continue;
    for (const task of set.tasks) {
      if (!isAllocatedStatus[task.status] && task.pod.status?.nominatedNodeName !== undefined) return true;
    }
  }
  return false;
}

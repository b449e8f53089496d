import { isReady } from "./gang.ts";
import type { Job } from "./job.ts";
import { JobLine, sortedJobs } from "./order.ts";
import { isBeingBound, type Session } from "./session.ts";
import { isAllocatedStatus } from "./task.ts";

/** Gives out what is free, job after job in the order of fairness. An elastic job that has grown goes back in line. */
export function allocate(session: Session): void {
  const { cluster } = session;
  const solos: Job[] = [];
  for (const job of cluster.waiting) if (!job.isGroup && !session.isSomebodyElses(job)) solos.push(job);
  for (const job of sortedJobs(solos)) servePlain(session, job);
  const depth = cluster.settings.queueDepth["allocate"];
  const candidates = session.candidates();
  // Somebody was evicted for these: what was promised to them is theirs before anybody else's.
  const promised = candidates.filter(isPromised);
  for (const job of sortedJobs(promised)) while (serve(session, job) && isPromised(job));
  const line = new JobLine(
    cluster,
    session.total,
    candidates.filter((job) => job.pendingCount > 0),
    depth,
  );
  for (let job = line.pop(); job !== undefined; job = line.pop()) {
    if (serve(session, job) && job.pendingCount > 0) line.push(job);
  }
}

/** A pod alone, or a gang without a queue: all that it needs, then one by one what more there is of it. */
function servePlain(session: Session, job: Job): void {
  if (!isReady(job.root)) {
    session.obstacles.set(job, { type: "notReady" });
    return;
  }
  if (isBeingBound(job)) return;
  while (serve(session, job) && job.pendingCount > 0);
}

function serve(session: Session, job: Job): boolean {
  if (!session.tryPlace(job)) return false;
  session.obstacles.delete(job);
  if (!session.decided.has(job)) session.decided.set(job, "allocate");
  return true;
}

function isPromised(job: Job): boolean {
  for (const set of job.podSets) {
    if (set.pending === 0) continue;
    for (const task of set.tasks) {
      if (!isAllocatedStatus[task.status] && task.pod.status?.nominatedNodeName !== undefined) return true;
    }
  }
  return false;
}

import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import { addTo, sum, type Vector, zeroVector } from "../cluster/resources.ts";
import { elasticRank, nextSteps } from "../placement/gangSteps.ts";
import { about } from "../waiting/jobFault.ts";
import { allocatable, dominantShare, isWithin } from "./queueShares.ts";
import type { QueueState } from "./queueTree.ts";

export function compareJobs(a: Job, b: Job, rankOf: (job: Job) => number = elasticRank): number {
  // Most jobs differ in priority, and computing a rank costs more.
  return b.priority - a.priority || compareRanked(a, rankOf(a), b, rankOf(b));
}

/** The higher priority, then the job that is below its minimum, then the older. */
function compareRanked(a: Job, rankA: number, b: Job, rankB: number): number {
  return (
    b.priority - a.priority ||
    rankA - rankB ||
    a.createdMs - b.createdMs ||
    (a.uid < b.uid ? -1 : a.uid > b.uid ? 1 : 0)
  );
}

interface Standing {
  readonly queue: QueueState;
  readonly allocated: Readonly<Vector>;
  readonly withJob: Readonly<Vector>;
}

/** Compares queues by usage relative to their share; negative if the first is served first. */
export function compareQueues(a: Standing, b: Standing, total: Readonly<Vector>): number {
  const byFlag = (flagA: boolean, flagB: boolean): number => Number(flagB) - Number(flagA);
  const [mayA, mayB] = [allocatable(a.queue), allocatable(b.queue)];
  return (
    byFlag(!isOverEverything(a), !isOverEverything(b)) ||
    byFlag(isWithin(a.withJob, a.queue.deserved), isWithin(b.withJob, b.queue.deserved)) ||
    b.queue.priority - a.queue.priority ||
    byFlag(!touchesNothing(a.withJob, mayA), !touchesNothing(b.withJob, mayB)) ||
    dominantShare(a.queue, a.withJob, total) - dominantShare(b.queue, b.withJob, total) ||
    dominantShare(a.queue, a.allocated, total) - dominantShare(b.queue, b.allocated, total) ||
    bySmaller(mayA, mayB) ||
    a.queue.createdMs - b.queue.createdMs ||
    (a.queue.uid < b.queue.uid ? -1 : 1)
  );
}

function isOverEverything({ queue, allocated }: Standing): boolean {
  return allocated.every((has, r) => (queue.fairShare[r] as number) < has);
}

/** Whether it uses a resource of which its share is zero. */
function touchesNothing(amounts: Readonly<Vector>, may: Readonly<Vector>): boolean {
  return amounts.some((amount, r) => amount > 0 && may[r] === 0);
}

function bySmaller(a: Readonly<Vector>, b: Readonly<Vector>): number {
  const value = (each: number): number => (each < 0 ? Number.POSITIVE_INFINITY : each);
  const isLess = (x: Readonly<Vector>, y: Readonly<Vector>): boolean =>
    x.every((each, r) => value(each) <= value(y[r] as number)) &&
    x.some((each, r) => value(each) < value(y[r] as number));
  return isLess(a, b) ? -1 : isLess(b, a) ? 1 : 0;
}

/** The request of a job's next step, for fairness. */
function nextVector(cluster: Cluster, job: Job): Vector {
  const [step] = nextSteps(job);
  if (step === undefined) return zeroVector();
  if (step.tasks.length === job.pendingCount) return cluster.pendingVector(job);
  const { leastMiB } = cluster.gpuMemoryRange();
  const vector = zeroVector();
  for (const task of step.tasks) addTo(vector, cluster.vectorOf(task, leastMiB));
  return vector;
}

/** A queue with pending jobs, or with child queues that have them. */
class Line {
  readonly queue: QueueState | undefined;
  readonly lines: Line[] = [];
  readonly jobs: Job[] = [];
  parent: Line | undefined;

  constructor(queue: QueueState | undefined) {
    this.queue = queue;
  }

  get isEmpty(): boolean {
    return this.jobs.length === 0 && this.lines.length === 0;
  }
}

/**
 * The jobs of all queues in the order in which they are tried. The order among queues is updated after each job,
 * because placing it changes the usage of its queues; only the path of that job has to be sorted again.
 */
export class JobLine {
  private readonly cluster: Cluster;
  private readonly total: Readonly<Vector>;
  private readonly root = new Line(undefined);
  private readonly byQueue = new Map<QueueState, Line>();
  private readonly vectors = new Map<Job, Vector>();
  private served: Line | undefined;

  constructor(cluster: Cluster, total: Readonly<Vector>, jobs: Iterable<Job>, depthMax = Number.POSITIVE_INFINITY) {
    this.cluster = cluster;
    this.total = total;
    const perQueue = new Map<QueueState, Job[]>();
    for (const job of jobs) {
      if (job.queue === undefined) continue;
      const known = perQueue.get(job.queue);
      if (known === undefined) perQueue.set(job.queue, [job]);
      else known.push(job);
    }
    for (const [queue, inLine] of perQueue) {
      const sorted = sortedJobs(inLine);
      if (sorted.length > depthMax) sorted.length = depthMax;
      // Jobs are popped from the end.
      const line = this.lineOf(queue);
      line.jobs.push(...sorted.reverse());
    }
    this.heapify(this.root);
  }

  /** The next job; undefined when no job is left. */
  pop(): Job | undefined {
    this.repair();
    let line = this.root;
    while (line.lines.length > 0) line = line.lines[0] as Line;
    const job = line.jobs.pop();
    this.served = line;
    return job;
  }

  /** Adds a job that has more pods to place again. */
  push(job: Job): void {
    if (job.queue === undefined) return;
    this.vectors.delete(job);
    this.repair();
    const line = this.lineOf(job.queue);
    let at = line.jobs.length;
    while (at > 0 && compareJobs(line.jobs[at - 1] as Job, job) < 0) at--;
    line.jobs.splice(at, 0, job);
    this.insert(line);
  }

  /** Sorts the path of the queue that was served again. */
  private repair(): void {
    for (let line = this.served; line?.parent !== undefined; line = line.parent) {
      const { parent } = line;
      const at = parent.lines.indexOf(line);
      if (at < 0) continue;
      if (line.isEmpty) {
        const last = parent.lines.pop() as Line;
        if (last !== line) {
          parent.lines[at] = last;
          this.sift(parent, at);
        }
      } else {
        this.sift(parent, at);
      }
    }
    this.served = undefined;
  }

  private insert(line: Line): void {
    for (let at = line; at.parent !== undefined; at = at.parent) {
      const { lines } = at.parent;
      let place = lines.indexOf(at);
      if (place < 0) place = lines.push(at) - 1;
      this.sift(at.parent, place);
    }
  }

  private lineOf(queue: QueueState): Line {
    let line = this.byQueue.get(queue);
    if (line === undefined) {
      line = new Line(queue);
      this.byQueue.set(queue, line);
      line.parent = queue.parent === undefined ? this.root : this.lineOf(queue.parent);
    }
    return line;
  }

  private heapify(root: Line): void {
    for (const line of this.byQueue.values()) {
      for (let at = line; at.parent !== undefined; at = at.parent) {
        if (at.parent.lines.includes(at)) break;
        at.parent.lines.push(at);
      }
    }
    const order = (line: Line): void => {
      for (const below of line.lines) order(below);
      for (let at = (line.lines.length >> 1) - 1; at >= 0; at--) this.siftDown(line, at);
    };
    order(root);
  }

  private sift(line: Line, at: number): void {
    let place = at;
    const { lines } = line;
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (this.compare(lines[place] as Line, lines[above] as Line) >= 0) break;
      swap(lines, place, above);
      place = above;
    }
    this.siftDown(line, place);
  }

  private siftDown(line: Line, at: number): void {
    const { lines } = line;
    for (let place = at; ; ) {
      let first = place;
      for (const child of [2 * place + 1, 2 * place + 2]) {
        if (child < lines.length && this.compare(lines[child] as Line, lines[first] as Line) < 0) first = child;
      }
      if (first === place) return;
      swap(lines, place, first);
      place = first;
    }
  }

  private compare(a: Line, b: Line): number {
    return compareQueues(this.standing(a), this.standing(b), this.total);
  }

  private standing(line: Line): Standing {
    const queue = line.queue as QueueState;
    const job = nextJob(line);
    const { allocated } = queue;
    return { queue, allocated, withJob: job === undefined ? allocated : sum(allocated, this.vectorOf(job)) };
  }

  private vectorOf(job: Job): Vector {
    let vector = this.vectors.get(job);
    if (vector === undefined) {
      vector = about(job, () => nextVector(this.cluster, job));
      this.vectors.set(job, vector);
    }
    return vector;
  }
}

function nextJob(line: Line): Job | undefined {
  let at = line;
  while (at.lines.length > 0) at = at.lines[0] as Line;
  return at.jobs.at(-1);
}

/** Sorts jobs, computing each rank once. Sorting jobs that are in order already costs little. */
export function sortedJobs(jobs: readonly Job[]): Job[] {
  const ranks = new Map<Job, number>();
  // Most pending jobs are below their minimum.
  for (const job of jobs) {
    const rank = about(job, () => elasticRank(job));
    if (rank !== 0) ranks.set(job, rank);
  }
  if (ranks.size === 0) return [...jobs].sort((a, b) => compareRanked(a, 0, b, 0));
  return [...jobs].sort((a, b) => compareRanked(a, ranks.get(a) ?? 0, b, ranks.get(b) ?? 0));
}

function swap<T>(list: T[], a: number, b: number): void {
  const kept = list[a] as T;
  list[a] = list[b] as T;
  list[b] = kept;
}

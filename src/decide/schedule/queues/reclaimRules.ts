import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import { sum, type Vector, zeroVector } from "../cluster/resources.ts";
import { isOfQueue, reasonFor, type VictimRules } from "../eviction/victimRules.ts";
import { standingText } from "../explain/explain.ts";
import type { Step } from "../placement/gangSteps.ts";
import type { Session } from "../session.ts";
import { type Divergence, firstDifference } from "./divergence.ts";
import { requestOf } from "./gates.ts";
import { isProtected, reclaimMinRuntimeMs } from "./minRuntime.ts";
import { allocatable, isWithin } from "./queueShares.ts";
import type { QueueState } from "./queueTree.ts";

/** Rules of reclaim: queues beyond their fair share lose pods to queues below theirs. */
export function reclaimRules(session: Session, job: Job, step: Step): VictimRules | undefined {
  const leaf = job.queue;
  if (leaf === undefined) return undefined;
  const request = requestOf(session.cluster, step.tasks);
  // A queue reclaims up to its fair share, and never more.
  if (!isWithin(sum(leaf.allocated, request), leaf.fairShare)) return undefined;
  const pathOf = [...leaf.path()].reverse();
  const isInDeserved = new Map(pathOf.map((queue) => [queue, isWithin(sum(queue.allocated, request), queue.deserved)]));
  const rivals = rivalsOf(session, leaf, ({ ours, theirs }) =>
    isInDeserved.get(ours) === true
      ? isAtLeastDeserved(theirs, request)
      : exceeds(theirs.allocated, allocatable(theirs)),
  );
  const divergence = new Map<QueueState, Divergence | undefined>();
  const diverge = ({ queue }: Job): Divergence | undefined => {
    if (queue === undefined) return undefined;
    if (!divergence.has(queue)) divergence.set(queue, firstDifference(leaf, queue));
    return divergence.get(queue);
  };
  const rivalOf = (victim: Job): Rival | undefined => {
    const levels = diverge(victim);
    return levels === undefined ? undefined : rivals.get(levels.theirs);
  };
  return {
    reason: { ...reasonFor("reclaim", job, (name) => reclaimText(name, leaf)), standings: new Map() },
    kind: `${leaf.name} ${kindOf(rivals)}`,
    isVictim: (victim) => isOfQueue(victim) && victim.isPreemptible && rivalOf(victim)?.mayLose === true,
    compareQueues: (a, b) => {
      const [ours, theirs] = [rivalOf(a), rivalOf(b)];
      return ours === undefined || theirs === undefined || ours === theirs ? 0 : byLoss(ours, theirs);
    },
    mayLoseCore: (victim) => !isProtected(session, victim, reclaimMinRuntimeMs(session, victim, leaf)),
    mayTake: (victim) => {
      const levels = diverge(victim);
      if (levels === undefined) return false;
      const { ours, theirs } = levels;
      if (exceeds(theirs.allocated, allocatable(theirs))) return true;
      return isInDeserved.get(ours) === true && exceeds(theirs.allocated, theirs.deserved);
    },
    isFair: () => isFairReclaim(session, leaf, request, rivals),
    replacesAll: false,
    mayMove: session.cluster.settings.reclaimMovesVictims,
    jobsMax: Number.POSITIVE_INFINITY,
  };
}

/** A sibling of an ancestor of the reclaiming queue, before the first eviction. */
interface Rival {
  readonly queue: QueueState;
  readonly had: Vector;
  /** Whether jobs of it and its descendants may be victims. */
  readonly mayLose: boolean;
  /** Its usage beyond its share, as a portion of the cluster. */
  readonly overuse: number;
}

function rivalsOf(
  { cluster, total }: Session,
  leaf: QueueState,
  mayLose: (levels: Divergence) => boolean,
): ReadonlyMap<QueueState, Rival> {
  const rivals = new Map<QueueState, Rival>();
  for (const ours of leaf.path()) {
    for (const theirs of siblingsOf(cluster, ours)) {
      rivals.set(theirs, {
        queue: theirs,
        had: [...theirs.allocated],
        mayLose: mayLose({ ours, theirs }),
        overuse: overuseOf(theirs, total),
      });
    }
  }
  return rivals;
}

function* siblingsOf({ queues }: Cluster, queue: QueueState): Iterable<QueueState> {
  for (const each of queue.parent === undefined ? queues.roots : queue.parent.children) if (each !== queue) yield each;
}

/**
 * The order in which queues lose pods: beyond their fair share first, then the lower priority, then the furthest
 * beyond. A queue within its share would reclaim from the others what it lost.
 */
function byLoss(a: Rival, b: Rival): number {
  return Number(b.overuse > 0) - Number(a.overuse > 0) || a.queue.priority - b.queue.priority || b.overuse - a.overuse;
}

/** Identifies the queues that may lose pods, and their order. */
function kindOf(rivals: ReadonlyMap<QueueState, Rival>): string {
  const victimJobs = [...rivals.values()].filter(({ mayLose }) => mayLose).sort(byLoss);
  return victimJobs
    .map((rival, at) => {
      const before = victimJobs[at - 1];
      return `${before !== undefined && byLoss(before, rival) === 0 ? "=" : ">"}${rival.queue.name}`;
    })
    .join(" ");
}

/** Whether no sibling that lost pods ends up with a lower relative usage than the reclaiming queue. */
function isFairReclaim(
  session: Session,
  leaf: QueueState,
  request: Readonly<Vector>,
  rivals: ReadonlyMap<QueueState, Rival>,
): boolean {
  const { settings } = session.cluster;
  for (const ours of leaf.path()) {
    for (const sibling of siblingsOf(session.cluster, ours)) {
      const had = rivals.get(sibling)?.had ?? zeroVector();
      for (let r = 0; r < 3; r++) {
        const hasLost = (sibling.allocated[r] as number) < (had[r] as number);
        if (!hasLost || (request[r] as number) <= 0) continue;
        const ourRatio = saturation(ours, r);
        const theirRatio = saturation(sibling, r);
        const isOver = ourRatio > 1 && (sibling.fairShare[r] as number) > 0;
        if (isOver && ourRatio * Math.max(1, settings.reclaimerSaturationMultiplier) >= theirRatio) return false;
      }
    }
  }
  return true;
}

function saturation(queue: QueueState, r: number): number {
  const share = queue.fairShare[r] as number;
  const has = queue.allocated[r] as number;
  if (share === 0) return has > 0 ? Number.POSITIVE_INFINITY : 0;
  return has / share;
}

function exceeds(amounts: Readonly<Vector>, bound: Readonly<Vector>): boolean {
  return amounts.some((each, r) => (bound[r] as number) >= 0 && each > (bound[r] as number));
}

/** Whether the queue is beyond its quota in a requested resource, or below it in none. */
function isAtLeastDeserved({ allocated, deserved }: QueueState, request: Readonly<Vector>): boolean {
  let isBelowSome = false;
  for (let r = 0; r < 3; r++) {
    if ((request[r] as number) <= 0 || (deserved[r] as number) < 0) continue;
    if ((allocated[r] as number) > (deserved[r] as number)) return true;
    if ((allocated[r] as number) < (deserved[r] as number)) isBelowSome = true;
  }
  return !isBelowSome;
}

function overuseOf(queue: QueueState, total: Readonly<Vector>): number {
  const may = allocatable(queue);
  let most = 0;
  for (let r = 0; r < 3; r++) {
    const bound = may[r] as number;
    if (bound >= 0 && total[r] !== 0)
      most = Math.max(most, ((queue.allocated[r] as number) - bound) / (total[r] as number));
  }
  return most;
}

function reclaimText(name: string, leaf: QueueState): string {
  return `reclaimed by ${name} of queue ${leaf.name} (${standingText(leaf)})`;
}

import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import { sum, type Vector, zeroVector } from "../cluster/resources.ts";
import { isOfQueue, reasonFor, type VictimRules } from "../eviction/victimRules.ts";
import { standingText } from "../explain/explain.ts";
import type { Step } from "../placement/gang.ts";
import type { Session } from "../session.ts";
import { type Divergence, firstDifference } from "./divergence.ts";
import { requestOf } from "./gates.ts";
import { isProtected, reclaimMinRuntimeMs } from "./minRuntime.ts";
import { allocatable, isWithin } from "./queueShares.ts";
import type { QueueState } from "./queueTree.ts";

/** Queues that have more than they should give it back to those that have less. */
export function reclaimRules(session: Session, job: Job, step: Step): VictimRules | undefined {
  const leaf = job.queue;
  if (leaf === undefined) return undefined;
  const request = requestOf(session.cluster, step.tasks);
  // A queue takes back what is its own, never more than its fair share.
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
    reason: { ...reasonFor("reclaim", job, reclaimText(job, leaf)), standings: new Map() },
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

/** A queue beside one of ours, as it was before anything was taken. */
interface Rival {
  readonly queue: QueueState;
  readonly had: Vector;
  /** Whether anything may be taken from the jobs in it and below. */
  readonly mayLose: boolean;
  /** How far it is beyond what it may have, of the whole cluster. */
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
 * The queue that loses first: one that is beyond its fair share, then the one with the lower priority, then the one
 * that is furthest beyond. What a queue within its share lost it would take back from the others.
 */
function byLoss(a: Rival, b: Rival): number {
  return Number(b.overuse > 0) - Number(a.overuse > 0) || a.queue.priority - b.queue.priority || b.overuse - a.overuse;
}

/** Which jobs may lose, in which order. */
function kindOf(rivals: ReadonlyMap<QueueState, Rival>): string {
  const losers = [...rivals.values()].filter(({ mayLose }) => mayLose).sort(byLoss);
  return losers
    .map((rival, at) => {
      const before = losers[at - 1];
      return `${before !== undefined && byLoss(before, rival) === 0 ? "=" : ">"}${rival.queue.name}`;
    })
    .join(" ");
}

/** No sibling that lost something may end up relatively poorer than the one that took it. */
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

/** Beyond its quota in something that is asked for, or below it in nothing of that. */
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

function reclaimText(job: Job, leaf: QueueState): string {
  return `reclaimed by ${job.id} of queue ${leaf.name} (${standingText(leaf)})`;
}

import type { Cluster } from "./cluster.ts";
import { standingText } from "./explain.ts";
import { nextSteps, type Step } from "./gang.ts";
import { requestOf } from "./gates.ts";
import type { Job } from "./job.ts";
import { Losses } from "./losses.ts";
import { isHopeless, makeRoom } from "./makeRoom.ts";
import { JobLine, sortedJobs } from "./order.ts";
import { allocatable, isWithin } from "./queueShares.ts";
import type { QueueState } from "./queueTree.ts";
import { gpuAt, sum, type Vector, zeroVector } from "./resources.ts";
import { ActionBudget, type EvictingAction } from "./searchBudget.ts";
import type { Obstacle, Session } from "./session.ts";
import type { EvictionReason } from "./statement.ts";
import { isAllocatedStatus } from "./task.ts";
import { hasVictims, type VictimRules } from "./victimRules.ts";

/** Actions that evict: they differ in who may be a victim, and in what is fair. */

/** Moves running pods together so that a job fits; everybody who moves has a place to move to. */
export function consolidate(session: Session): void {
  const { settings } = session.cluster;
  const { gpuStrategy, cpuStrategy, consolidationJobsMax } = settings;
  // Who wants pods spread out does not want them moved together.
  if (gpuStrategy === "spread" || cpuStrategy === "spread" || consolidationJobsMax === 0) return;
  search(session, "consolidation", (job, step) => {
    if (!job.isPreemptible) return undefined;
    const needed = requestOf(session.cluster, step.tasks)[0];
    if (needed > freeGpuMilli(session)) return undefined;
    return {
      reason: reasonFor("consolidation", job, `moved to make room for ${job.id}`),
      kind: unlessItself(job, ""),
      isVictim: (victim) => victim !== job && isOfQueue(victim) && victim.isPreemptible,
      overuseOf: () => 0,
      mayLoseCore: () => true,
      mayTake: () => true,
      isFair: () => true,
      replacesAll: true,
      mayMove: false,
      jobsMax: consolidationJobsMax < 0 ? Number.POSITIVE_INFINITY : consolidationJobsMax,
    };
  });
}

/** Queues take back what is theirs from queues that have more than they should. */
export function reclaim(session: Session): void {
  search(session, "reclaim", (job, step) => reclaimRules(session, job, step));
}

/** Inside a queue, the higher priority goes before the lower one. */
export function preempt(session: Session): void {
  search(session, "preempt", (job) => {
    if (!job.mayPreempt) return undefined;
    return {
      reason: reasonFor("preempt", job, `preempted by ${job.id} of higher priority (${job.priority})`),
      kind: unlessItself(job, `${job.queueName} ${job.priority}`),
      isVictim: (victim) =>
        victim !== job &&
        isOfQueue(victim) &&
        victim.queue === job.queue &&
        victim.isPreemptible &&
        victim.priority < job.priority,
      overuseOf: () => 0,
      mayLoseCore: (victim) => !isProtected(session, victim, preemptMinRuntimeMs(session, victim)),
      mayTake: () => true,
      isFair: () => true,
      replacesAll: false,
      mayMove: false,
      jobsMax: Number.POSITIVE_INFINITY,
    };
  });
  preemptPlain(session);
}

/** Kubernetes' own preemption, for pods of the default scheduler: lower priorities on one node. */
function preemptPlain(session: Session): void {
  const { cluster } = session;
  const waiting: Job[] = [];
  for (const job of cluster.waiting)
    if (!job.isGroup && session.obstacles.get(job)?.type === "placement") waiting.push(job);
  const failed = new Set<string>();
  const losses = new Losses(cluster);
  const budget = new ActionBudget(cluster.settings.searchBudgets, "preempt");
  for (const job of sortedJobs(waiting)) {
    const [step] = nextSteps(job);
    const task = step?.tasks[0];
    if (step === undefined || task === undefined || task.pod.spec?.preemptionPolicy === "Never") continue;
    const signature = `${task.shape.id} ${job.priority}`;
    if (failed.has(signature) || isHopeless(session, step)) continue;
    const rules: VictimRules = {
      reason: reasonFor("preempt", job, `preempted by pod ${task.key} of higher priority (${job.priority})`),
      kind: `plain ${job.priority}`,
      isVictim: (victim) => !victim.isGroup && victim.priority < job.priority,
      overuseOf: () => 0,
      guarded: (tasks) => cluster.budgets.guarded(tasks),
      mayLoseCore: () => true,
      mayTake: () => true,
      isFair: () => true,
      replacesAll: false,
      mayMove: false,
      jobsMax: Number.POSITIVE_INFINITY,
    };
    const allowed = budget.beginJob();
    if (allowed === undefined) return;
    if (hasVictims(cluster, rules) && makeRoom(session, { job, step, losses }, rules, allowed)) {
      session.obstacles.delete(job);
      session.decided.set(job, "preempt");
    } else {
      failed.add(signature);
      noteArrivals(session, rules);
    }
  }
}

/** Whoever is on its way cannot be evicted; when it has arrived, the search is worth another try. */
function noteArrivals({ cluster }: Session, rules: VictimRules | undefined): void {
  if (cluster.awaitsArrivals || rules === undefined) return;
  for (const job of cluster.jobs.values()) {
    if (!rules.isVictim(job) || job.podSets.every((set) => set.countOf("binding") === 0)) continue;
    cluster.awaitsArrivals = true;
    return;
  }
}

/** Only groups are in queues; a pod without one is the business of the cluster's own scheduler. */
function isOfQueue(job: Job): boolean {
  return job.isGroup && job.queue !== undefined;
}

/** A job that runs already, and wants to grow, is not its own victim. */
function unlessItself(job: Job, kind: string): string {
  return job.allocatedCount > 0 ? `${kind} ${job.id}` : kind;
}

type RulesFor = (job: Job, step: Step) => VictimRules | undefined;

/** Tries every job that waits, in the order of fairness; who asks for no less than somebody who failed is not tried. */
function search(session: Session, action: EvictingAction, rulesFor: RulesFor): void {
  const { cluster, nowMs } = session;
  const counts = session.searchesOf(action);
  const budget = new ActionBudget(cluster.settings.searchBudgets, action);
  const jobs: Job[] = [];
  for (const [job, obstacle] of session.obstacles) {
    if (!job.isGroup || !mayBeCured(obstacle, action)) continue;
    if (job.preemptsFromMs > nowMs) {
      session.wakeAt(job.preemptsFromMs);
      if (obstacle.type === "placement") session.obstacles.set(job, { type: "delay", untilMs: job.preemptsFromMs });
      continue;
    }
    jobs.push(job);
  }
  if (jobs.length === 0) return;
  const failures: Failure[] = [];
  const losses = new Losses(cluster);
  const line = new JobLine(cluster, session.total, jobs, cluster.settings.queueDepth[action]);
  for (let job = line.pop(); job !== undefined; job = line.pop()) {
    const [step] = nextSteps(job);
    if (step === undefined) continue;
    const signature = signatureOf(job, step, action);
    const request = requestOf(cluster, step.tasks);
    if (cluster.settings.usesSignatures && failures.some((each) => isNoEasier(signature, request, step, each)))
      continue;
    if (isHopeless(session, step)) continue;
    const allowed = budget.beginJob();
    if (allowed === undefined) {
      // Whoever comes after it is looked at in another cycle.
      counts.ended("not_attempted", true);
      counts.isCutShort = true;
      return;
    }
    const rules = rulesFor(job, step);
    const isHelped = rules !== undefined && hasVictims(cluster, rules);
    if (isHelped && makeRoom(session, { job, step, losses }, rules, allowed)) {
      counts.ended("solved", allowed.isReduced);
      session.obstacles.delete(job);
      session.decided.set(job, action);
      if (nextSteps(job).length > 0) line.push(job);
      continue;
    }
    counts.ended(
      allowed.isSpent ? "deadline_exhausted" : isHelped ? "generators_exhausted" : "no_generator",
      allowed.isReduced,
    );
    noteArrivals(session, rules);
    // A search that was cut short says nothing about the next.
    if (!allowed.isSpent) failures.push({ signature, request, count: step.tasks.length });
  }
}

/** Who goes leaves room, and what it had no longer counts for the limits of its queues. Who is moved takes both along. */
function mayBeCured(obstacle: Obstacle, action: EvictingAction): boolean {
  if (obstacle.type === "placement") return true;
  return obstacle.type === "gate" && obstacle.refusal.reason === "OverLimit" && action !== "consolidation";
}

interface Failure {
  readonly signature: string;
  readonly request: Readonly<Vector>;
  readonly count: number;
}

/** What limits a job besides amounts. For consolidation it does not matter whose it is. */
function signatureOf(job: Job, step: Step, action: EvictingAction): string {
  const limits = [...new Set(step.tasks.map(({ shape }) => shape.limits))].sort();
  const structure = [job.spec.topologyConstraint, job.spec.subGroups, job.spec.minSubGroup];
  return JSON.stringify([
    limits,
    structure,
    job.priority,
    job.isPreemptible,
    action === "consolidation" ? "" : job.queueName,
  ]);
}

function isNoEasier(signature: string, request: Readonly<Vector>, step: Step, failure: Failure): boolean {
  return (
    signature === failure.signature &&
    step.tasks.length >= failure.count &&
    request.every((each, r) => each >= (failure.request[r] as number))
  );
}

function reclaimRules(session: Session, job: Job, step: Step): VictimRules | undefined {
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
    reason: reasonFor("reclaim", job, reclaimText(job, leaf)),
    kind: `${leaf.name} ${kindOf(rivals)}`,
    isVictim: (victim) => isOfQueue(victim) && victim.isPreemptible && rivalOf(victim)?.mayLose === true,
    overuseOf: (victim) => rivalOf(victim)?.overuse ?? 0,
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

/** Where two queues part: the one below, or at, the lowest that they have in common, on either side. */
interface Divergence {
  readonly ours: QueueState;
  readonly theirs: QueueState;
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

/** Who may lose, in which order. */
function kindOf(rivals: ReadonlyMap<QueueState, Rival>): string {
  const losers = [...rivals.values()].filter(({ mayLose }) => mayLose).sort((a, b) => b.overuse - a.overuse);
  return losers
    .map(({ queue, overuse }, at) => `${overuse === losers[at - 1]?.overuse ? "=" : ">"}${queue.name}`)
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

/** The two queues below the lowest common one, or at the top; undefined for one queue. */
function firstDifference(a: QueueState, b: QueueState): Divergence | undefined {
  const pathA = [...a.path()].reverse();
  const pathB = [...b.path()].reverse();
  for (const [at, ours] of pathA.entries()) {
    const theirs = pathB[at];
    if (theirs !== undefined && theirs !== ours) return { ours, theirs };
  }
  return undefined;
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

function reasonFor(action: EvictionReason["action"], evictor: Job, why: string): EvictionReason {
  return { action, evictor, why };
}

/** A job that has started not long ago keeps its core; what it can do without may go. */
function isProtected(session: Session, job: Job, minRuntimeMs: number): boolean {
  if (minRuntimeMs <= 0 || job.lastStartMs === undefined) return false;
  const untilMs = job.lastStartMs + minRuntimeMs;
  if (untilMs > session.nowMs) session.wakeAt(untilMs);
  return untilMs > session.nowMs;
}

function preemptMinRuntimeMs({ cluster }: Session, { queue }: Job): number {
  for (const each of queue?.path() ?? []) {
    if (each.preemptMinRuntimeMs !== undefined) return each.preemptMinRuntimeMs;
  }
  return cluster.settings.preemptMinRuntimeMs;
}

function reclaimMinRuntimeMs({ cluster }: Session, { queue }: Job, reclaimer: QueueState): number {
  const { settings } = cluster;
  if (queue === undefined) return settings.reclaimMinRuntimeMs;
  let from: QueueState = queue;
  if (settings.reclaimMinRuntimeMethod === "lca") {
    from = firstDifference(reclaimer, queue)?.theirs ?? queue;
    // Different trees have nothing in common: only the top queue of the victim has a say.
    if (from.parent === undefined) return from.reclaimMinRuntimeMs ?? settings.reclaimMinRuntimeMs;
  }
  for (const each of from.path()) if (each.reclaimMinRuntimeMs !== undefined) return each.reclaimMinRuntimeMs;
  return settings.reclaimMinRuntimeMs;
}

function freeGpuMilli({ cluster }: Session): number {
  let sumMilli = 0;
  for (const node of cluster.table.nodes) {
    if (!node.isHealthy) continue;
    sumMilli += Math.max(0, (cluster.table.later[gpuAt]?.[node.index] ?? 0) * 1000);
    for (const { laterMiB } of node.groups.values()) {
      sumMilli += Math.max(0, Math.floor(((node.gpuMemoryMiB - laterMiB) * 1000) / node.gpuMemoryMiB));
    }
  }
  return sumMilli;
}

/** Gangs that fell below their minimum and did not recover in time give back what they hold. */
export function evictStaleGangs(session: Session): void {
  const { cluster, nowMs, statement } = session;
  for (const job of [...cluster.unwell].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    if (session.decided.has(job)) continue;
    const graceMs = job.stalenessGraceMs ?? cluster.settings.stalenessGraceMs;
    if (graceMs < 0) continue;
    const sinceMs = job.staleSinceMs;
    // The moment at which it was first seen is noted on the group; until that is there, nothing happens.
    if (sinceMs === undefined) continue;
    if (nowMs < sinceMs + graceMs) {
      session.wakeAt(sinceMs + graceMs);
      continue;
    }
    const reason: EvictionReason = {
      action: "stalegangeviction",
      evictor: undefined,
      why: `group ${job.id} runs fewer pods than its minimum for more than ${Math.round(graceMs / 1000)} s`,
    };
    for (const task of job.tasks) {
      if (isAllocatedStatus[task.status] && task.holdings.length > 0) statement.evict(task, reason);
    }
  }
}

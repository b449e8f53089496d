import { standingText } from "./explain.ts";
import { nextSteps, type Step } from "./gang.ts";
import { gateRefusal, requestOf } from "./gates.ts";
import type { Job } from "./job.ts";
import { isHopeless, makeRoom, type VictimRules } from "./makeRoom.ts";
import { JobLine, sortedJobs } from "./order.ts";
import { allocatable, isWithin } from "./queueShares.ts";
import type { QueueState } from "./queueTree.ts";
import { sum, type Vector, zeroVector } from "./resources.ts";
import { ActionBudget, type EvictingAction } from "./searchBudget.ts";
import type { Session } from "./session.ts";
import type { EvictionReason } from "./statement.ts";
import { isAllocatedStatus } from "./task.ts";

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
      victims: victimJobs(session, (victim) => victim !== job && victim.isPreemptible),
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
      victims: victimJobs(
        session,
        (victim) =>
          victim !== job && victim.queue === job.queue && victim.isPreemptible && victim.priority < job.priority,
      ),
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
  const budget = new ActionBudget(cluster.settings.searchBudgets, "preempt");
  for (const job of sortedJobs(waiting)) {
    const [step] = nextSteps(job);
    const task = step?.tasks[0];
    if (step === undefined || task === undefined || task.pod.spec?.preemptionPolicy === "Never") continue;
    const signature = `${task.shape.id} ${job.priority}`;
    if (failed.has(signature) || isHopeless(session, step)) continue;
    const rules: VictimRules = {
      reason: reasonFor("preempt", job, `preempted by pod ${task.key} of higher priority (${job.priority})`),
      victims: plainVictims(session, job.priority),
      mayLoseCore: () => true,
      mayTake: () => true,
      isFair: () => true,
      replacesAll: false,
      mayMove: false,
      jobsMax: Number.POSITIVE_INFINITY,
    };
    const allowed = budget.beginJob();
    if (allowed === undefined) return;
    if (rules.victims.length > 0 && makeRoom(session, job, step, rules, allowed)) {
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
  cluster.awaitsArrivals = rules.victims.some(({ podSets }) => podSets.some((set) => set.countOf("binding") > 0));
}

function plainVictims({ cluster }: Session, below: number): Job[] {
  const jobs: Job[] = [];
  for (const job of cluster.jobs.values()) {
    if (!job.isGroup && job.priority < below && job.allocatedCount > 0) jobs.push(job);
  }
  return sortedJobs(jobs).reverse();
}

type RulesFor = (job: Job, step: Step) => VictimRules | undefined;

/** Tries every job that waits, in the order of fairness; who asks for no less than somebody who failed is not tried. */
function search(session: Session, action: EvictingAction, rulesFor: RulesFor): void {
  const { cluster, nowMs } = session;
  const counts = session.searchesOf(action);
  const budget = new ActionBudget(cluster.settings.searchBudgets, action);
  const jobs: Job[] = [];
  for (const [job, obstacle] of session.obstacles) {
    if (!job.isGroup || obstacle.type !== "placement") continue;
    if (job.preemptsFromMs > nowMs) {
      session.wakeAt(job.preemptsFromMs);
      session.obstacles.set(job, { type: "delay", untilMs: job.preemptsFromMs });
      continue;
    }
    jobs.push(job);
  }
  if (jobs.length === 0) return;
  const failures: Failure[] = [];
  const line = new JobLine(cluster, session.total, jobs, cluster.settings.queueDepth[action]);
  for (let job = line.pop(); job !== undefined; job = line.pop()) {
    const [step] = nextSteps(job);
    if (step === undefined) continue;
    const signature = signatureOf(job, step, action);
    const request = requestOf(cluster, step.tasks);
    if (cluster.settings.usesSignatures && failures.some((each) => isNoEasier(signature, request, step, each)))
      continue;
    if (isHopeless(session, step)) continue;
    if (job.queue !== undefined && gateRefusal(job.queue, job.isPreemptible, request) !== undefined) continue;
    const allowed = budget.beginJob();
    if (allowed === undefined) {
      // Whoever comes after it is looked at in another cycle.
      counts.ended("not_attempted", true);
      counts.isCutShort = true;
      return;
    }
    const rules = rulesFor(job, step);
    const isHelped = rules !== undefined && rules.victims.length > 0;
    if (isHelped && makeRoom(session, job, step, rules, allowed)) {
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

/** Running jobs that may lose pods, the first to lose first: the lowest priority, the youngest. */
function victimJobs({ cluster }: Session, isVictim: (job: Job) => boolean): Job[] {
  const jobs: Job[] = [];
  for (const job of cluster.jobs.values()) {
    if (job.isGroup && job.queue !== undefined && job.allocatedCount > 0 && isVictim(job)) jobs.push(job);
  }
  return sortedJobs(jobs).reverse();
}

function reclaimRules(session: Session, job: Job, step: Step): VictimRules | undefined {
  const leaf = job.queue;
  if (leaf === undefined) return undefined;
  const request = requestOf(session.cluster, step.tasks);
  // A queue takes back what is its own, never more than its fair share.
  if (!isWithin(sum(leaf.allocated, request), leaf.fairShare)) return undefined;
  const before = new Map<QueueState, Vector>();
  for (const queue of session.cluster.queues.byName.values()) before.set(queue, [...queue.allocated]);
  const pathOf = [...leaf.path()].reverse();
  const isInDeserved = new Map(pathOf.map((queue) => [queue, isWithin(sum(queue.allocated, request), queue.deserved)]));
  const divergence = new Map<QueueState, { ours: QueueState; theirs: QueueState } | undefined>();
  const diverge = (other: QueueState): { ours: QueueState; theirs: QueueState } | undefined => {
    if (!divergence.has(other)) divergence.set(other, firstDifference(leaf, other));
    return divergence.get(other);
  };
  const candidates = victimJobs(session, (victim) => {
    if (!victim.isPreemptible || victim.queue === undefined || victim.queue === leaf) return false;
    const levels = diverge(victim.queue);
    if (levels === undefined) return false;
    const { ours, theirs } = levels;
    if (isInDeserved.get(ours) === true) return isAtLeastDeserved(theirs, request);
    return exceeds(theirs.allocated, allocatable(theirs));
  });
  const victims = byOveruse(candidates, diverge, session.total);
  return {
    reason: reasonFor("reclaim", job, reclaimText(job, leaf)),
    victims,
    mayLoseCore: (victim) => !isProtected(session, victim, reclaimMinRuntimeMs(session, victim, leaf)),
    mayTake: (victim) => {
      const levels = victim.queue === undefined ? undefined : diverge(victim.queue);
      if (levels === undefined) return false;
      const { ours, theirs } = levels;
      if (exceeds(theirs.allocated, allocatable(theirs))) return true;
      return isInDeserved.get(ours) === true && exceeds(theirs.allocated, theirs.deserved);
    },
    isFair: () => isFairReclaim(session, leaf, request, before),
    replacesAll: false,
    mayMove: session.cluster.settings.reclaimMovesVictims,
    jobsMax: Number.POSITIVE_INFINITY,
  };
}

/** No sibling that lost something may end up relatively poorer than the one that took it. */
function isFairReclaim(
  session: Session,
  leaf: QueueState,
  request: Readonly<Vector>,
  before: ReadonlyMap<QueueState, Vector>,
): boolean {
  const { queues, settings } = session.cluster;
  for (const ours of leaf.path()) {
    const siblings = ours.parent === undefined ? queues.roots : ours.parent.children;
    for (const sibling of siblings) {
      if (sibling === ours) continue;
      const had = before.get(sibling) ?? zeroVector();
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
function firstDifference(a: QueueState, b: QueueState): { ours: QueueState; theirs: QueueState } | undefined {
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

/** The queue that has the most beyond its share loses first. */
function byOveruse(
  jobs: readonly Job[],
  diverge: (queue: QueueState) => { theirs: QueueState } | undefined,
  total: Readonly<Vector>,
): Job[] {
  const overuse = new Map<QueueState, number>();
  const of = (job: Job): number => {
    const theirs = job.queue === undefined ? undefined : diverge(job.queue)?.theirs;
    if (theirs === undefined) return 0;
    let most = overuse.get(theirs);
    if (most === undefined) {
      most = 0;
      const may = allocatable(theirs);
      for (let r = 0; r < 3; r++) {
        const bound = may[r] as number;
        if (bound >= 0 && total[r] !== 0)
          most = Math.max(most, ((theirs.allocated[r] as number) - bound) / (total[r] as number));
      }
      overuse.set(theirs, most);
    }
    return most;
  };
  return jobs
    .map((job, at) => ({ job, at, over: of(job) }))
    .sort((a, b) => b.over - a.over || a.at - b.at)
    .map(({ job }) => job);
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
    if (node.isHealthy) sumMilli += Math.max(0, (cluster.table.later[2]?.[node.index] ?? 0) * 1000);
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

import type { Job } from "../cluster/job.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { isAllocatedStatus } from "../cluster/task.ts";
import { allOf, fragmentsOf, nextSteps, type Step } from "../placement/gangSteps.ts";
import { requestOf } from "../queues/gates.ts";
import { isProtected, preemptMinRuntimeMs } from "../queues/minRuntime.ts";
import { JobLine, sortedJobs } from "../queues/order.ts";
import { reclaimRules } from "../queues/reclaimRules.ts";
import type { Obstacle, Session } from "../session.ts";
import type { EvictionReason } from "../statement.ts";
import { Attempt, FailedAttempts } from "./attempt.ts";
import { freeGpuMilli } from "./freeGpus.ts";
import { Losses } from "./losses.ts";
import { isHopeless, makeRoom } from "./makeRoom.ts";
import { QueueSearches } from "./queueSearches.ts";
import { Reclaimers } from "./reclaimers.ts";
import { ActionBudget, type EvictingAction } from "./searchBudget.ts";
import { VictimCandidates } from "./victimCandidates.ts";
import { isOfQueue, reasonFor, type VictimRules } from "./victimRules.ts";

/** Moves running pods so that a pending job fits; every moved pod has another node. */
export function consolidate(session: Session): void {
  const { actions } = session.cluster.settings;
  const isReclaimAhead = actions.indexOf("reclaim") > actions.indexOf("consolidation");
  const reclaimers = isReclaimAhead ? new Reclaimers(session) : undefined;
  const mayStart = (job: Job): boolean => {
    if (reclaimers?.mayTake(job) !== true) return true;
    session.postponed.add(job);
    return false;
  };
  consolidateFor(session, mayStart, () => true);
}

function consolidateFor(session: Session, mayStart: (job: Job) => boolean, isCandidate: (job: Job) => boolean): void {
  const { settings } = session.cluster;
  const { gpuStrategy, cpuStrategy, consolidationJobsMax } = settings;
  // With a spread strategy pods are not moved together.
  if (gpuStrategy === "spread" || cpuStrategy === "spread" || consolidationJobsMax === 0) return;
  const rulesFor: RulesFor = (job, step) => {
    if (!job.isPreemptible || !mayStart(job)) return undefined;
    const needed = requestOf(session.cluster, step.tasks)[0];
    if (needed > freeGpuMilli(session.cluster, session.cluster.table.nodes)) return undefined;
    return {
      reason: reasonFor("consolidation", job, (name) => `moved to make room for ${name}`),
      kind: unlessItself(job, ""),
      isVictim: (victim) => victim !== job && isOfQueue(victim) && victim.isPreemptible,
      compareQueues: () => 0,
      mayLoseCore: () => true,
      mayTake: () => true,
      // With the current usage of its queue.
      isFair: () => mayStart(job),
      replacesAll: true,
      mayMove: false,
      jobsMax: consolidationJobsMax < 0 ? Number.POSITIVE_INFINITY : consolidationJobsMax,
    };
  };
  search(session, "consolidation", rulesFor, isCandidate);
}

/** Queues below their fair share reclaim resources from queues beyond theirs. */
export function reclaim(session: Session): void {
  const { postponed } = session;
  search(session, "reclaim", (job, step) => reclaimRules(session, job, step));
  if (postponed.size === 0) return;
  const isPostponed = new Set(postponed);
  postponed.clear();
  consolidateFor(
    session,
    () => true,
    (job) => isPostponed.has(job),
  );
}

/** Within a queue, jobs of higher priority preempt those of lower priority. */
export function preempt(session: Session): void {
  search(session, "preempt", (job) => {
    if (!job.mayPreempt) return undefined;
    return {
      reason: reasonFor("preempt", job, (name) => `preempted by ${name} of higher priority (${job.priority})`),
      kind: unlessItself(job, `${job.queueName} ${job.priority}`),
      isVictim: (victim) =>
        victim !== job &&
        isOfQueue(victim) &&
        victim.queue === job.queue &&
        victim.isPreemptible &&
        victim.priority < job.priority,
      compareQueues: () => 0,
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
  // Obstacles are in the order in which jobs were tried.
  const waiting: Job[] = [];
  for (const [job, obstacle] of session.obstacles) {
    if (job.isGroup || obstacle.type !== "placement") continue;
    if (!session.guarded(job, true, () => isHopeless(session, obstacle.step))) waiting.push(job);
  }
  const failed = new Map<PodShape, Set<number>>();
  const candidates = new VictimCandidates(cluster);
  const losses = new Losses(cluster);
  const budget = new ActionBudget(cluster.settings.searchBudgets, "preempt");
  const searches = new QueueSearches(session);
  for (const job of sortedJobs(waiting)) {
    const [step] = nextSteps(job);
    const task = step?.tasks[0];
    if (step === undefined || task === undefined || failed.get(task.shape)?.has(job.priority) === true) continue;
    if (task.pod.spec?.preemptionPolicy === "Never" || isHopeless(session, step)) continue;
    if (!searches.mayBegin(job)) continue;
    const rules: VictimRules = {
      reason: reasonFor(
        "preempt",
        job,
        (name) => `preempted by ${name} of higher priority (${job.priority})`,
        `pod ${task.key}`,
      ),
      kind: `plain ${job.priority}`,
      isVictim: (victim) => !victim.isGroup && victim.priority < job.priority && !mayNotGo(session, victim),
      compareQueues: () => 0,
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
    const hasRoom = (): boolean => candidates.exist(rules) && makeRoom(session, { job, step, losses }, rules, allowed);
    if (session.guarded(job, false, hasRoom)) {
      candidates.clear();
      session.obstacles.delete(job);
      session.decided.set(job, "preempt");
    } else {
      searches.failed(job);
      const priorities = failed.get(task.shape) ?? new Set();
      failed.set(task.shape, priorities.add(job.priority));
      candidates.noteArrivals(rules);
    }
  }
}

/** A running job that grows is not its own victim. */
function unlessItself(job: Job, kind: string): string {
  return job.allocatedCount > 0 ? `${kind} ${job.id}` : kind;
}

type RulesFor = (job: Job, step: Step) => VictimRules | undefined;

/** Tries every pending job in the order of fairness, except jobs that request no less than one that failed. */
function search(
  session: Session,
  action: EvictingAction,
  rulesFor: RulesFor,
  isCandidate: (job: Job) => boolean = () => true,
): void {
  const { cluster, nowMs } = session;
  const counts = session.searchesOf(action);
  const depth = cluster.settings.queueDepth[action];
  const budget = new ActionBudget(cluster.settings.searchBudgets, action);
  const jobs: Job[] = [];
  const mayBegin = (job: Job, obstacle: Obstacle): boolean => {
    if (!mayBeCured(obstacle, action) || !isCandidate(job)) return false;
    // Within a limited depth such a job counts, as in KAI.
    if (depth === undefined && obstacle.type === "placement" && isHopeless(session, obstacle.step)) return false;
    if (job.preemptsFromMs <= nowMs) return true;
    session.wakeAt(job.preemptsFromMs);
    if (obstacle.type === "placement") session.obstacles.set(job, { type: "delay", untilMs: job.preemptsFromMs });
    return false;
  };
  for (const [job, obstacle] of session.obstacles) {
    if (job.isGroup && session.guarded(job, false, () => mayBegin(job, obstacle))) jobs.push(job);
  }
  if (jobs.length === 0) return;
  const failures = new FailedAttempts();
  const candidates = new VictimCandidates(cluster);
  const losses = new Losses(cluster);
  const searches = new QueueSearches(session);
  const line = new JobLine(cluster, session.total, jobs, depth);
  for (let job = line.pop(); job !== undefined; job = line.pop()) {
    const [step] = nextSteps(job);
    if (step === undefined || isVictimNow(session, job)) continue;
    const attempt = new Attempt(cluster, job, step, action);
    const isRuledOut = (): boolean =>
      (cluster.settings.usesSignatures && failures.cover(attempt)) || isHopeless(session, step);
    if (session.guarded(job, true, isRuledOut) || !searches.mayBegin(job)) continue;
    const allowed = budget.beginJob();
    if (allowed === undefined) {
      // The remaining jobs are tried in another cycle.
      counts.ended("not_attempted", true);
      counts.isCutShort = true;
      return;
    }
    const rules = session.guarded(job, undefined, () => sparingWinners(session, rulesFor(job, step)));
    const isHelped = rules !== undefined && candidates.exist(rules);
    const hasRoom = (): boolean => isHelped && makeRoom(session, { job, step, losses }, rules, allowed);
    if (session.guarded(job, false, hasRoom)) {
      candidates.clear();
      counts.ended("solved", allowed.isReduced);
      session.obstacles.delete(job);
      session.decided.set(job, action);
      if (nextSteps(job).length > 0) line.push(job);
      continue;
    }
    searches.failed(job);
    counts.ended(
      allowed.isSpent ? "deadline_exhausted" : isHelped ? "generators_exhausted" : "no_generator",
      allowed.isReduced,
    );
    if (rules !== undefined) candidates.noteArrivals(rules);
    // A search that exhausted its budget does not rule out other jobs, and neither does a job that waits for reclaim.
    if (!allowed.isSpent && !session.postponed.has(job) && (rules === undefined || attempt.appliesToOthers))
      failures.add(attempt);
  }
}

/** A preemptor of this cycle is no victim in the same cycle: its own victims would be evicted for nothing. */
function sparingWinners(session: Session, rules: VictimRules | undefined): VictimRules | undefined {
  if (rules === undefined) return undefined;
  const { decided } = session;
  const isWinner = (job: Job): boolean => (decided.get(job) ?? "allocate") !== "allocate";
  const isVictim = (job: Job): boolean => rules.isVictim(job) && !isWinner(job) && !mayNotGo(session, job);
  return { ...rules, isVictim: (job) => session.guarded(job, false, () => isVictim(job)) };
}

/** Whether the eviction of a pod of the job is in back-off, because the API refused it or the cycle failed on it. */
function mayNotGo(session: Session, job: Job): boolean {
  const { tasks } = job;
  const { backOffs, waitingJobs } = session.cluster;
  if (waitingJobs.isAside(job, session.nowMs)) return true;
  if (backOffs.size === 0) return false;
  for (const { uid } of tasks) {
    const untilMs = backOffs.get(uid)?.untilMs ?? 0;
    if (untilMs <= session.nowMs) continue;
    session.wakeAt(untilMs);
    return true;
  }
  return false;
}

/**
 * A job that loses pods in this cycle preempts none: without these pods it may not be able to use the freed resources.
 */
function isVictimNow({ statement }: Session, { tasks }: Job): boolean {
  for (const task of tasks) if (statement.evictionOf(task) !== undefined) return true;
  return false;
}

/** Whether an action can resolve the obstacle: a limit is resolved by evictions, but not by moving pods. */
function mayBeCured(obstacle: Obstacle, action: EvictingAction): boolean {
  if (obstacle.type === "placement") return true;
  return obstacle.type === "gate" && obstacle.refusal.reason === "OverLimit" && action !== "consolidation";
}

/**
 * Evicts gangs that run below their minimum for longer than the grace period, and subgroups beyond the required ones
 * that do.
 */
export function evictStaleGangs(session: Session): void {
  const { cluster, nowMs, statement } = session;
  const evictStale = (job: Job): void => {
    if (session.decided.has(job) || mayNotGo(session, job)) return;
    const graceMs = job.stalenessGraceMs ?? cluster.settings.stalenessGraceMs;
    if (graceMs < 0) return;
    for (const fragment of fragmentsOf(job.root)) {
      const isAll = fragment === job.root;
      const sinceMs = isAll ? job.staleSinceMs : job.staleSubGroupsSinceMs.get(fragment.name);
      // The time is in an annotation of the group; without it nothing is evicted.
      if (sinceMs === undefined) continue;
      if (nowMs < sinceMs + graceMs) {
        session.wakeAt(sinceMs + graceMs);
        continue;
      }
      const who = isAll ? `group ${job.id}` : `subgroup ${fragment.name} of group ${job.id}`;
      const reason: EvictionReason = {
        action: "stalegangeviction",
        evictor: undefined,
        why: `${who} runs fewer pods than its minimum for more than ${Math.round(graceMs / 1000)} s`,
      };
      for (const task of isAll ? job.tasks : allOf(fragment)) {
        if (isAllocatedStatus[task.status] && task.holdings.length > 0) statement.evict(task, reason);
      }
    }
  };
  for (const job of [...cluster.unwell].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    session.guarded(job, undefined, () => evictStale(job));
  }
}

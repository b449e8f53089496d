import type { Job } from "../cluster/job.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { isAllocatedStatus } from "../cluster/task.ts";
import { allOf, fragmentsOf, nextSteps, type Step } from "../placement/gang.ts";
import { requestOf } from "../queues/gates.ts";
import { isProtected, preemptMinRuntimeMs } from "../queues/minRuntime.ts";
import { JobLine, sortedJobs } from "../queues/order.ts";
import { reclaimRules } from "../queues/reclaimRules.ts";
import type { Obstacle, Session } from "../session.ts";
import type { EvictionReason } from "../statement.ts";
import { Attempt } from "./attempt.ts";
import { freeGpuMilli } from "./freeGpus.ts";
import { Losses } from "./losses.ts";
import { isHopeless, makeRoom } from "./makeRoom.ts";
import { Reclaimers } from "./reclaimers.ts";
import { ActionBudget, type EvictingAction } from "./searchBudget.ts";
import { hasVictims, isOfQueue, reasonFor, type VictimRules } from "./victimRules.ts";

/** Actions that evict: they differ in which pods may be victims, and in what is fair. */

/** Moves running pods together so that a job fits; every moved pod has a place to move to. */
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
  // A spread strategy does not want pods moved together.
  if (gpuStrategy === "spread" || cpuStrategy === "spread" || consolidationJobsMax === 0) return;
  const rulesFor: RulesFor = (job, step) => {
    if (!job.isPreemptible || !mayStart(job)) return undefined;
    const needed = requestOf(session.cluster, step.tasks)[0];
    if (needed > freeGpuMilli(session.cluster, session.cluster.table.nodes)) return undefined;
    return {
      reason: reasonFor("consolidation", job, `moved to make room for ${job.id}`),
      kind: unlessItself(job, ""),
      isVictim: (victim) => victim !== job && isOfQueue(victim) && victim.isPreemptible,
      compareQueues: () => 0,
      mayLoseCore: () => true,
      mayTake: () => true,
      // Now with what its queue has with it.
      isFair: () => mayStart(job),
      replacesAll: true,
      mayMove: false,
      jobsMax: consolidationJobsMax < 0 ? Number.POSITIVE_INFINITY : consolidationJobsMax,
    };
  };
  search(session, "consolidation", rulesFor, isCandidate);
}

/** Queues take back what is theirs from queues that have more than they should. */
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
  // Obstacles were found in the order of the line.
  const waiting: Job[] = [];
  for (const [job, obstacle] of session.obstacles) {
    if (job.isGroup || obstacle.type !== "placement" || isHopeless(session, obstacle.step)) continue;
    waiting.push(job);
  }
  const failed = new Map<PodShape, Set<number>>();
  const losses = new Losses(cluster);
  const budget = new ActionBudget(cluster.settings.searchBudgets, "preempt");
  for (const job of sortedJobs(waiting)) {
    const [step] = nextSteps(job);
    const task = step?.tasks[0];
    if (step === undefined || task === undefined || failed.get(task.shape)?.has(job.priority) === true) continue;
    if (task.pod.spec?.preemptionPolicy === "Never" || isHopeless(session, step)) continue;
    const rules: VictimRules = {
      reason: reasonFor("preempt", job, `preempted by pod ${task.key} of higher priority (${job.priority})`),
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
    if (hasVictims(cluster, rules) && makeRoom(session, { job, step, losses }, rules, allowed)) {
      session.obstacles.delete(job);
      session.decided.set(job, "preempt");
    } else {
      const priorities = failed.get(task.shape) ?? new Set();
      failed.set(task.shape, priorities.add(job.priority));
      noteArrivals(session, rules);
    }
  }
}

/** A pod that is being bound cannot be evicted; when it has arrived, the search is worth another try. */
function noteArrivals({ cluster }: Session, rules: VictimRules | undefined): void {
  if (cluster.awaitsArrivals || rules === undefined) return;
  for (const job of cluster.jobs.values()) {
    if (!rules.isVictim(job) || job.podSets.every((set) => set.countOf("binding") === 0)) continue;
    cluster.awaitsArrivals = true;
    return;
  }
}

/** A job that runs already, and wants to grow, is not its own victim. */
function unlessItself(job: Job, kind: string): string {
  return job.allocatedCount > 0 ? `${kind} ${job.id}` : kind;
}

type RulesFor = (job: Job, step: Step) => VictimRules | undefined;

/** Tries every waiting job in fair order; a job that asks for no less than one that failed is not tried. */
function search(
  session: Session,
  action: EvictingAction,
  rulesFor: RulesFor,
  isCandidate: (job: Job) => boolean = () => true,
): void {
  const { cluster, nowMs } = session;
  const counts = session.searchesOf(action);
  const budget = new ActionBudget(cluster.settings.searchBudgets, action);
  const jobs: Job[] = [];
  for (const [job, obstacle] of session.obstacles) {
    if (!job.isGroup || !mayBeCured(obstacle, action) || !isCandidate(job)) continue;
    if (job.preemptsFromMs > nowMs) {
      session.wakeAt(job.preemptsFromMs);
      if (obstacle.type === "placement") session.obstacles.set(job, { type: "delay", untilMs: job.preemptsFromMs });
      continue;
    }
    jobs.push(job);
  }
  if (jobs.length === 0) return;
  const failures: Attempt[] = [];
  const losses = new Losses(cluster);
  const line = new JobLine(cluster, session.total, jobs, cluster.settings.queueDepth[action]);
  for (let job = line.pop(); job !== undefined; job = line.pop()) {
    const [step] = nextSteps(job);
    if (step === undefined || isVictimNow(session, job)) continue;
    const attempt = new Attempt(cluster, job, step, action);
    if (cluster.settings.usesSignatures && failures.some((each) => attempt.isNoEasierThan(each))) continue;
    if (isHopeless(session, step)) continue;
    const allowed = budget.beginJob();
    if (allowed === undefined) {
      // Jobs after it are tried in another cycle.
      counts.ended("not_attempted", true);
      counts.isCutShort = true;
      return;
    }
    const rules = sparingWinners(session, rulesFor(job, step));
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
    // A search that was cut short says nothing about the next, and neither does a job that has to wait for reclaim.
    if (!allowed.isSpent && !session.postponed.has(job) && (rules === undefined || attempt.tellsOfOthers))
      failures.push(attempt);
  }
}

/** A preemptor of this cycle is no victim in it: its own victims would be evicted for nothing. */
function sparingWinners(session: Session, rules: VictimRules | undefined): VictimRules | undefined {
  if (rules === undefined) return undefined;
  const { decided } = session;
  const isWinner = (job: Job): boolean => (decided.get(job) ?? "allocate") !== "allocate";
  return { ...rules, isVictim: (job) => rules.isVictim(job) && !isWinner(job) && !mayNotGo(session, job) };
}

/** The API would not let a pod of it go, a moment ago: the plan would come to nothing again, and again. */
function mayNotGo(session: Session, { tasks }: Job): boolean {
  const { heldBack } = session.cluster;
  if (heldBack.size === 0) return false;
  for (const { uid } of tasks) {
    const untilMs = heldBack.get(uid)?.untilMs ?? 0;
    if (untilMs <= session.nowMs) continue;
    session.wakeAt(untilMs);
    return true;
  }
  return false;
}

/**
 * A job that loses pods in this cycle preempts none: until its own pods are back it may not be able to use the room.
 */
function isVictimNow({ statement }: Session, { tasks }: Job): boolean {
  for (const task of tasks) if (statement.evictionOf(task) !== undefined) return true;
  return false;
}

/** An evicted pod leaves room and no longer counts for the limits of its queues. A moved pod takes both along. */
function mayBeCured(obstacle: Obstacle, action: EvictingAction): boolean {
  if (obstacle.type === "placement") return true;
  return obstacle.type === "gate" && obstacle.refusal.reason === "OverLimit" && action !== "consolidation";
}

/**
 * Gangs that fell below their minimum and did not recover in time give back what they hold, and so do subgroups that
 * their job can do without.
 */
export function evictStaleGangs(session: Session): void {
  const { cluster, nowMs, statement } = session;
  for (const job of [...cluster.unwell].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    if (session.decided.has(job) || mayNotGo(session, job)) continue;
    const graceMs = job.stalenessGraceMs ?? cluster.settings.stalenessGraceMs;
    if (graceMs < 0) continue;
    for (const fragment of fragmentsOf(job.root)) {
      const isAll = fragment === job.root;
      const sinceMs = isAll ? job.staleSinceMs : job.staleSubGroupsSinceMs.get(fragment.name);
      // The moment at which it was first seen is noted on the group; until that is there, nothing happens.
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
  }
}

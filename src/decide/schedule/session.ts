import { isShared } from "../../model/scheduling/gpuRequest.ts";
import { type PodGroup, poolName, unschedulableOnNodePool } from "../../model/scheduling/podGroup.ts";
import type { Cluster } from "./cluster/cluster.ts";
import type { Job } from "./cluster/job.ts";
import type { PodShape } from "./cluster/podShape.ts";
import type { Vector } from "./cluster/resources.ts";
import type { Task } from "./cluster/task.ts";
import { isHopeless, isTooMuchForNodes } from "./eviction/makeRoom.ts";
import type { Generator } from "./eviction/searchBudget.ts";
import { SearchCounts } from "./eviction/searchCounts.ts";
import { isReady, nextSteps, type Step } from "./placement/gangSteps.ts";
import { placeStep } from "./placement/placeStep.ts";
import { placeTask } from "./placement/placeTask.ts";
import type { TopologyProblem } from "./placement/topologyDomains.ts";
import { type GateRefusal, gateRefusal, placedRefusal, requestOf } from "./queues/gates.ts";
import { shareOut } from "./queues/queueShares.ts";
import type { ActionName } from "./settings.ts";
import { Statement } from "./statement.ts";
import { about, JobFault } from "./waiting/jobFault.ts";
import type { FailedTry } from "./waiting/waitingJobs.ts";

/** Why a job was not placed. Messages are created from it later, on demand. */
export type Obstacle =
  | { readonly type: "gate"; readonly refusal: GateRefusal }
  | { readonly type: "queue"; readonly why: "missing" | "orphan" | "inner" }
  | { readonly type: "notReady" }
  | { readonly type: "stray"; readonly task: Task }
  | { readonly type: "attempted" }
  /** The cycle failed on the job. */
  | { readonly type: "fault" }
  | { readonly type: "backOff"; readonly untilMs: number; readonly why: string }
  | { readonly type: "delay"; readonly untilMs: number }
  | {
      readonly type: "placement";
      readonly step: Step;
      readonly placed: number;
      readonly failed: Task | undefined;
      readonly why: TopologyProblem | undefined;
    };

/** The number of failed binds after which the nominated node of a pod is no longer reserved. */
const nominationRetriesMax = 5;

/** Is called during a cycle, to measure it. */
export interface CycleObserver {
  /** A stage has ended; it began when the one before ended. */
  readonly stageEnded: (stage: ActionName | "open") => void;
  readonly searchStarted: () => void;
  readonly searchEnded: (action: ActionName, generator: Generator, isSolved: boolean) => void;
}

const noObserver: CycleObserver = { stageEnded: () => {}, searchStarted: () => {}, searchEnded: () => {} };

/** The state of one cycle: the cluster, the statement, decisions and obstacles. */
export class Session {
  readonly cluster: Cluster;
  readonly nowMs: number;
  readonly statement: Statement;
  readonly total: Vector;
  readonly obstacles = new Map<Job, Obstacle>();
  /** Jobs with a decision, and the action that took it. */
  readonly decided = new Map<Job, ActionName>();
  /** The jobs that this cycle tries. */
  readonly due: readonly Job[];
  /**
   * Jobs that no victims were searched for, because their queue has used up the failed searches that it may have in a
   * cycle.
   */
  readonly unsearched = new Set<Job>();
  /** Jobs whose reason was not worked out, because the cycle had explained enough. */
  readonly unexplained = new Set<Job>();
  /** Exceptions, by the job that they are about. */
  readonly faults = new Map<Job, JobFault>();
  /** Jobs that consolidation skips until reclaim has run: a job of another queue may reclaim their resources. */
  readonly postponed = new Set<Job>();
  /** What the search for victims did, by action. */
  readonly searches = new Map<ActionName, SearchCounts>();
  readonly observer: CycleObserver;
  /**
   * Shapes that fit nowhere in an action that only allocates: a later pod of such a shape does not fit either.
   * Allocation never makes room, so each waiting pod costs one look-up.
   */
  readonly unplaceable = new Set<PodShape>();
  /** The next time at which the passing of time alone may change the decision. */
  private nextMs = Number.POSITIVE_INFINITY;

  constructor(cluster: Cluster, nowMs: number, observer: CycleObserver = noObserver) {
    this.observer = observer;
    this.cluster = cluster;
    this.nowMs = nowMs;
    cluster.awaitsArrivals = false;
    cluster.refresh(nowMs);
    cluster.beginDevices(nowMs);
    this.statement = new Statement(cluster);
    this.total = cluster.total();
    const { kValue, retryLimits } = cluster.settings;
    shareOut(cluster.queues, this.total, cluster.waitingJobs.requests(cluster), kValue);
    this.due = cluster.waitingJobs.due(cluster, nowMs, retryLimits);
  }

  /**
   * Runs a part of the cycle that is about one job. After an exception the job is set aside and the cycle goes on; if
   * something was tried until then, the cycle has to begin again without the job, and the exception names it.
   */
  guarded<T>(job: Job, otherwise: T, run: () => T): T {
    const start = this.statement.checkpoint();
    try {
      return about(job, run);
    } catch (error) {
      if (!(error instanceof JobFault) || error.job !== job || this.statement.checkpoint() !== start) throw error;
      this.cluster.waitingJobs.setAside(job, this.nowMs);
      this.noteFault(error);
      return otherwise;
    }
  }

  noteFault(fault: JobFault): void {
    this.faults.set(fault.job, fault);
    if (this.cluster.waiting.has(fault.job)) this.obstacles.set(fault.job, { type: "fault" });
  }

  /** Remembers what was not placed; call it after the rollback. Returns when another cycle has to run. */
  close(): number | undefined {
    const { cluster, nowMs, wakeMs } = this;
    const failures: FailedTry[] = [];
    for (const [job, obstacle] of this.obstacles) {
      const failed = this.failedTry(job, obstacle);
      if (failed !== undefined) failures.push(failed);
    }
    const limits = cluster.settings.retryLimits;
    return cluster.waitingJobs.note(cluster, failures, { nowMs, wakeMs, limits });
  }

  /** Undefined for a job that every cycle has to look at. */
  private failedTry(job: Job, obstacle: Obstacle): FailedTry | undefined {
    if (obstacle.type === "backOff" || isBeingBound(job) || hasNomination(this.cluster, job)) return undefined;
    const step = obstacle.type === "placement" ? obstacle.step : undefined;
    return {
      job,
      step,
      gate: obstacle.type === "gate" ? obstacle.refusal : undefined,
      isHopeless: step?.tasks.some((task) => isTooMuchForNodes(this, task)) ?? false,
      isCutShort: this.unsearched.has(job) || this.unexplained.has(job),
      isFaulty: obstacle.type === "fault",
    };
  }

  searchesOf(action: ActionName): SearchCounts {
    let counts = this.searches.get(action);
    if (counts === undefined) {
      counts = new SearchCounts();
      this.searches.set(action, counts);
    }
    return counts;
  }

  /** Requests another cycle at a time. */
  wakeAt(ms: number): void {
    if (ms > this.nowMs) this.nextMs = Math.min(this.nextMs, ms);
  }

  get wakeMs(): number | undefined {
    return Number.isFinite(this.nextMs) ? this.nextMs : undefined;
  }

  /** Jobs of queues that may be tried, in no order; obstacles of the others are recorded. */
  candidates(): Job[] {
    const jobs: Job[] = [];
    for (const job of this.due) {
      if (job.isGroup && this.guarded(job, false, () => this.isCandidate(job))) jobs.push(job);
    }
    return jobs;
  }

  private isCandidate(job: Job): boolean {
    if (isBeingBound(job)) {
      this.reserveNominatedNodes(job);
      return false;
    }
    const obstacle = this.obstacleBefore(job);
    if (obstacle !== undefined) this.obstacles.set(job, obstacle);
    return obstacle === undefined;
  }

  /** A bind that keeps failing must not reserve resources for ever. */
  private mayHoldNomination({ tasks }: Step): boolean {
    return tasks.every(({ uid }) => (this.cluster.backOffs.get(uid)?.times ?? 0) <= nominationRetriesMax);
  }

  /**
   * Reserves the nominated nodes of a job while it waits for pods that are being bound, or for its back-off.
   */
  private reserveNominatedNodes(job: Job): void {
    const { cluster, statement } = this;
    for (const task of job.tasks) {
      const promised = cluster.table.get(task.pod.status?.nominatedNodeName ?? "");
      if (task.status !== "pending" || promised === undefined || promised.index < 0) continue;
      if (placeTask(cluster, statement, task, { nodes: [promised.index] })) statement.pipelineAll([task]);
    }
  }

  private obstacleBefore(job: Job): Obstacle | undefined {
    const { queues, settings } = this.cluster;
    if (job.queue === undefined) {
      return { type: "queue", why: queues.orphans.has(job.queueName) ? "orphan" : "missing" };
    }
    if (!job.queue.isLeaf) return { type: "queue", why: "inner" };
    const stray = strayOf(job);
    if (stray !== undefined && (job.pendingCount === 0 || !isReady(job.root))) return stray;
    if (!isReady(job.root)) return { type: "notReady" };
    return hadItsAttempt(job, settings.nodePool) ? { type: "attempted" } : undefined;
  }

  /** Tries to place the next step of a job with what is free. True when something was placed. */
  tryPlace(job: Job): boolean {
    const steps = nextSteps(job);
    // The job runs, and its pending pods are of incomplete subgroups.
    if (steps.length === 0 && job.pendingCount > 0) this.obstacles.set(job, strayOf(job) ?? { type: "notReady" });
    for (const step of steps) {
      const held = this.backOffs(step);
      if (held !== undefined) {
        this.obstacles.set(job, held);
        if (this.mayHoldNomination(step)) this.reserveNominatedNodes(job);
        continue;
      }
      const obstacle = this.tryStep(job, step);
      if (obstacle === undefined) return true;
      if (!this.obstacles.has(job)) this.obstacles.set(job, obstacle);
    }
    return false;
  }

  /** Records that no pod of this shape can be placed, where nothing but the shape decides. */
  private noteUnplaceable(task: Task): void {
    const { cluster } = this;
    const { shape, job } = task;
    // A pod that shares a GPU creates a group that other pods can join.
    if (!shape.isLocal || isShared(shape.gpu)) return;
    if (job?.queue !== undefined && cluster.queues.hasTypes) return;
    if (!cluster.terms.matchesOthersAntiAffinity(task)) this.unplaceable.add(shape);
  }

  /**
   * The back-off of a pod whose bind was refused: tried again at once, it would be first in every cycle, and other pods
   * would starve.
   */
  backOffs(step: Step): Obstacle | undefined {
    const { backOffs } = this.cluster;
    if (backOffs.size === 0) return undefined;
    for (const { uid } of step.tasks) {
      const held = backOffs.get(uid);
      if (held === undefined || held.untilMs <= this.nowMs) continue;
      this.wakeAt(held.untilMs);
      return { type: "backOff", ...held };
    }
    return undefined;
  }

  tryStep(job: Job, step: Step): Obstacle | undefined {
    const { cluster, statement } = this;
    if (job.queue !== undefined) {
      const refusal = gateRefusal(job.queue, job.isPreemptible, requestOf(cluster, step.tasks));
      if (refusal !== undefined) return { type: "gate", refusal };
    }
    const [first] = step.tasks;
    if (first !== undefined && isUnconstrained(job)) {
      const isKnown = this.unplaceable.has(first.shape) || (step.tasks.length === 1 && isHopeless(this, step));
      if (isKnown) return { type: "placement", step, placed: 0, failed: first, why: undefined };
    }
    const start = statement.checkpoint();
    const verdict = placeStep(cluster, statement, job, step);
    if (!verdict.ok) {
      if (verdict.placed === 0 && verdict.failed !== undefined && isUnconstrained(job))
        this.noteUnplaceable(verdict.failed);
      return { type: "placement", step, placed: verdict.placed, failed: verdict.failed, why: verdict.why };
    }
    if (job.queue !== undefined && step.tasks.some(({ shape }) => shape.gpu.type === "memory")) {
      const refusal = placedRefusal(job);
      if (refusal !== undefined) {
        statement.rollback(start);
        return { type: "gate", refusal };
      }
    }
    return undefined;
  }
}

/**
 * Whether pods of a gang are being bound. Nothing more is decided for the gang until they are bound or their requests
 * are deleted:
 *
 *   scheduler                          binder                   API
 *   t0  a and b get requests, one set
 *   t1  a's request cannot be written: b's is taken back
 *   t2  c would fit beside a and b                              b's request is still shown
 *   t3  c is bound                                              c runs alone
 */
export function isBeingBound(job: Job): boolean {
  if ((job.root.podSet?.min ?? 2) < 2) return false;
  return job.podSets.some((set) => set.countOf("binding") > 0);
}

function hasNomination({ nominated }: Cluster, { tasks }: Job): boolean {
  if (nominated.size === 0) return false;
  for (const task of tasks) if (nominated.has(task)) return true;
  return false;
}

function strayOf({ waitingStray: task }: Job): Obstacle | undefined {
  return task === undefined ? undefined : { type: "stray", task };
}

/** Whether neither a topology nor subgroups constrain the pods of the job. */
function isUnconstrained({ root: { podSet, topology } }: Job): boolean {
  return podSet !== undefined && topology === undefined;
}

/** A group with `schedulingBackoff: 1` had its attempt, and its condition still exists. */
function hadItsAttempt(job: Job, nodePool: string): boolean {
  if (job.spec.schedulingBackoff !== 1) return false;
  const conditions = (job.owner as PodGroup).status?.schedulingConditions ?? [];
  const last = conditions.at(-1);
  return last?.type === unschedulableOnNodePool && last.nodePool === poolName(nodePool);
}

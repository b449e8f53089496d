import { isSatisfied, type Step, spareUnitWith, surplusVictims } from "./gang.ts";
import { isShared } from "./gpuRequest.ts";
import type { Job } from "./job.ts";
import { mostOnOneNode } from "./largestNode.ts";
import type { NodeState } from "./nodeState.ts";
import { mustWaitTogether, placeStep } from "./placeGang.ts";
import { findSpot, placeTask, problemOf } from "./placeTask.ts";
import type { Generator, JobBudget } from "./searchBudget.ts";
import type { SearchCounts } from "./searchCounts.ts";
import type { Session } from "./session.ts";
import type { EvictionReason } from "./statement.ts";
import { isAllocatedStatus, type Task } from "./task.ts";

/** Whom a job may evict, and when that is fair. */
export interface VictimRules {
  readonly reason: EvictionReason;
  /** Jobs that may lose pods, the first to lose first. */
  readonly victims: readonly Job[];
  /** Whether the job may lose more than what it can do without. */
  readonly mayLoseCore: (job: Job) => boolean;
  /** Asked before each step, with everything taken so far already gone from the queues' accounts. */
  readonly mayTake: (job: Job) => boolean;
  /** Asked at the end, with the job placed. */
  readonly isFair: () => boolean;
  /** Every victim must find another place. */
  readonly replacesAll: boolean;
  /** Who may not be taken may be moved: it must find another place then. */
  readonly mayMove: boolean;
  readonly jobsMax: number;
}

/**
 * Makes room for the next step of a job by evicting others, and proves it: the job is placed on what they leave. Nothing is left changed
 * when it fails. First node by node with as little disturbance as possible, pod after pod; if that leads nowhere, everybody
 * who may go goes, the job is placed, and whoever was not in the way stays after all. If taking is not enough and moving is allowed, the same
 * again with those who may only be moved.
 */
export function makeRoom(session: Session, job: Job, step: Step, rules: VictimRules, budget: JobBudget): boolean {
  for (const moves of rules.mayMove ? [false, true] : [false]) {
    const search = new Search(session, job, step, rules, budget, moves);
    if (search.run("NodeLocalGreedy")) return true;
    if (!rules.replacesAll && search.run("MultiNodeGang")) return true;
  }
  return false;
}

class Search {
  private readonly session: Session;
  private readonly job: Job;
  private readonly step: Step;
  private readonly rules: VictimRules;
  private readonly budget: JobBudget;
  /** Whether pods that may not be taken are looked at too: they have to find another place. */
  private readonly moves: boolean;
  private readonly mustMove = new Set<Job>();
  private readonly rank: ReadonlyMap<Job, number>;
  private readonly start: number;

  constructor(session: Session, job: Job, step: Step, rules: VictimRules, budget: JobBudget, moves: boolean) {
    this.session = session;
    this.job = job;
    this.step = step;
    this.rules = rules;
    this.budget = budget;
    this.moves = moves;
    this.rank = new Map(rules.victims.map((each, at) => [each, at]));
    this.start = session.statement.checkpoint();
  }

  /** True when the job has its place. Otherwise nothing has changed. */
  run(generator: Generator): boolean {
    const { statement, watch } = this.session;
    this.mustMove.clear();
    watch.searching();
    const hasRoom = generator === "NodeLocalGreedy" ? this.nodeByNode() : this.everybody();
    const isSolved = hasRoom && this.isAcceptable();
    if (hasRoom && !isSolved) this.counts.scenarios[generator].rejected++;
    if (!isSolved) statement.rollback(this.start);
    watch.searched(this.rules.reason.action, generator, isSolved);
    return isSolved;
  }

  private get counts(): SearchCounts {
    return this.session.searchesOf(this.rules.reason.action);
  }

  /** Pod after pod: where it fits, or where the least has to go. */
  private nodeByNode(): boolean {
    const { cluster, statement } = this.session;
    if (hasTopology(this.job)) return false;
    for (const task of this.step.tasks) {
      if (placeTask(cluster, statement, task)) continue;
      if (!this.freeNodeFor(task)) return false;
    }
    this.waitTogether();
    return true;
  }

  /** All who may go, then who need not. */
  private everybody(): boolean {
    const { cluster, statement } = this.session;
    const counts = this.counts.scenarios.MultiNodeGang;
    counts.emitted++;
    if (!this.budget.takeFor("MultiNodeGang")) return false;
    counts.simulated++;
    for (const victim of this.rules.victims) {
      for (let unit = this.unitOf(victim); unit.length > 0; unit = this.unitOf(victim)) {
        if (!this.mayEvict(victim)) break;
        for (const task of unit) statement.evict(task, this.rules.reason);
      }
    }
    if (!placeStep(cluster, statement, this.job, this.step).ok) return false;
    this.spareTheRest();
    this.waitTogether();
    return true;
  }

  /** Whether it may be taken, or else moved. */
  private mayEvict(victim: Job): boolean {
    if (!this.mustMove.has(victim) && this.rules.mayTake(victim)) return true;
    if (!this.moves) return false;
    this.mustMove.add(victim);
    return true;
  }

  private isAcceptable(): boolean {
    const { statement } = this.session;
    if (this.moves && !this.moveVictims()) return false;
    const evicted = this.evicted();
    // Somebody else's release was enough: then there is nothing to evict for.
    if (evicted.length === 0) return true;
    if (new Set(evicted.map(({ job }) => job)).size > this.rules.jobsMax) return false;
    if (this.rules.replacesAll) {
      for (const task of evicted) {
        const spot = findSpot(this.session.cluster, task);
        if (spot === undefined) return false;
        statement.replace(task, spot.node, spot.groups);
      }
    }
    return this.rules.isFair();
  }

  /**
   * Gives victims another place, the most important first, all of a job or none of it. False when one is without a place that may not be taken. What
   * has a place counts for its queue as before.
   */
  private moveVictims(): boolean {
    const { cluster, statement } = this.session;
    for (const [victim, tasks] of this.evictedByJob()) {
      const before = statement.checkpoint();
      const isMoved = tasks.every((task) => {
        // Whether devices are free for a claim that has some already is known when it has let go of them.
        const spot = task.shape.hasDeviceClaims ? undefined : findSpot(cluster, task);
        if (spot === undefined) return false;
        statement.replace(task, spot.node, spot.groups);
        return true;
      });
      if (isMoved) continue;
      statement.rollback(before);
      if (this.mustMove.has(victim)) return false;
    }
    return true;
  }

  private evictedByJob(): [Job, Task[]][] {
    const byJob = new Map<Job, Task[]>();
    for (const task of this.evicted()) {
      if (task.job === undefined) continue;
      const known = byJob.get(task.job);
      if (known === undefined) byJob.set(task.job, [task]);
      else known.push(task);
    }
    return [...byJob].sort(([a], [b]) => (this.rank.get(b) ?? 0) - (this.rank.get(a) ?? 0));
  }

  private evicted(): Task[] {
    const { statement } = this.session;
    return statement.touchedSince(this.start).filter((task) => statement.evictionOf(task) !== undefined);
  }

  /** What goes first from a job: a pod beyond its minimum, a subgroup that it can do without, or all of it. */
  private unitOf(victim: Job): readonly Task[] {
    const surplus = surplusVictims(victim.root, isEvictable);
    if (surplus !== undefined) return surplus;
    if (!this.rules.mayLoseCore(victim)) return [];
    return [...victim.tasks].filter(isEvictable);
  }

  /** Tries the nodes on which the fewest pods have to go, until one works out. */
  private freeNodeFor(task: Task): boolean {
    const { cluster, statement } = this.session;
    const { counts } = this;
    const scenarios = counts.scenarios.NodeLocalGreedy;
    const options: { node: NodeState; units: readonly (readonly Task[])[]; pods: number; worst: number }[] = [];
    for (const node of cluster.table.nodes) {
      if (!cluster.fit.accepts(task.shape, node.index)) continue;
      const units = this.unitsOn(node, task);
      if (units === undefined) {
        counts.filtered++;
        continue;
      }
      let pods = 0;
      let worst = 0;
      for (const unit of units) {
        pods += unit.length;
        for (const { job } of unit) worst = Math.max(worst, job === undefined ? 0 : (this.rank.get(job) ?? 0));
      }
      options.push({ node, units, pods, worst });
    }
    options.sort((a, b) => a.pods - b.pods || a.worst - b.worst || a.node.index - b.node.index);
    for (const { node, units } of options) {
      scenarios.emitted++;
      if (!this.budget.takeFor("NodeLocalGreedy")) return false;
      scenarios.simulated++;
      const before = statement.checkpoint();
      if (this.freeNode(node, units, task)) return true;
      statement.rollback(before);
    }
    return false;
  }

  private freeNode(node: NodeState, units: readonly (readonly Task[])[], task: Task): boolean {
    const { cluster, statement } = this.session;
    const place = (): boolean => placeTask(cluster, statement, task, { nodes: [node.index] });
    if (!lacksMoreThanAmounts(task)) return this.evictUnits(units) && place();
    // How much is enough shows when it is: one after the other, until it fits.
    return units.some((unit) => this.evictUnits([unit]) && place());
  }

  private evictUnits(units: readonly (readonly Task[])[]): boolean {
    const { statement } = this.session;
    for (const unit of units) {
      const job = unit[0]?.job;
      if (job === undefined || !this.mayEvict(job)) return false;
      for (const task of unit) if (isEvictable(task)) statement.evict(task, this.rules.reason);
    }
    return true;
  }

  /** Whom a node would have to lose for the task to fit, the first to lose first; undefined when that is not enough. */
  private unitsOn(node: NodeState, task: Task): (readonly Task[])[] | undefined {
    const { cluster } = this.session;
    const { places, amounts } = task.shape;
    const lacking = places.map((place, k) => (amounts[k] ?? 0) - (cluster.table.later[place]?.[node.index] ?? 0));
    const onNode: Task[] = [];
    for (const { holder, state } of node.holdings) {
      const other = holder as Task;
      if (state === "used" && other.job !== undefined && this.rank.has(other.job) && isEvictable(other))
        onNode.push(other);
    }
    if (onNode.length === 0) return undefined;
    onNode.sort((a, b) => this.rankOf(a) - this.rankOf(b) || b.createdMs - a.createdMs || (a.uid > b.uid ? -1 : 1));
    const units: (readonly Task[])[] = [];
    const taken = new Set<Task>();
    const isOpen = lacksMoreThanAmounts(task);
    for (const other of onNode) {
      if (!isOpen && lacking.every((each) => each <= 0)) break;
      if (taken.has(other) || other.job === undefined) continue;
      const unit = this.unitWith(other, other.job, taken);
      if (unit === undefined) continue;
      units.push(unit);
      for (const each of unit) {
        taken.add(each);
        if (!each.holdings.some((holding) => holding.node === node)) continue;
        for (const [k, place] of places.entries()) {
          const at = each.shape.places.indexOf(place);
          if (at >= 0) lacking[k] = (lacking[k] ?? 0) - (each.shape.amounts[at] ?? 0);
          else if (place === 2 && each.holdings.some(({ groups }) => groups.length > 0))
            lacking[k] = (lacking[k] ?? 0) - 1;
        }
      }
    }
    return units.length > 0 && (isOpen || lacking.every((each) => each <= 0)) ? units : undefined;
  }

  /** As little as its job can do without, otherwise all of it. */
  private unitWith(task: Task, job: Job, taken: ReadonlySet<Task>): readonly Task[] | undefined {
    const spare = isSatisfied(job.root) ? spareUnitWith(job.root, task, isEvictable, taken) : undefined;
    if (spare !== undefined) return spare;
    return this.rules.mayLoseCore(job)
      ? [...job.tasks].filter((each) => isEvictable(each) && !taken.has(each))
      : undefined;
  }

  /** Whoever was evicted and is not in the way stays: the most important first, a gang as a whole. */
  private spareTheRest(): void {
    const { cluster, statement } = this.session;
    for (const [, tasks] of this.evictedByJob()) {
      const before = statement.checkpoint();
      const stays = tasks.every((task) => {
        const [holding] = task.holdings;
        // Its devices may have been found for somebody else by now.
        if (holding === undefined || task.shape.hasDeviceClaims) return false;
        const { node, groups } = holding;
        if (!cluster.fit.fitsLater(task.shape, node.index)) return false;
        if (groups.length > 0) {
          const wanted = findSpot(cluster, task, { nodes: [node.index] });
          if (wanted === undefined || !wanted.groups.every((group) => groups.includes(group))) return false;
        }
        statement.unevict(task);
        return true;
      });
      if (!stays) statement.rollback(before);
    }
  }

  /**
   * Nobody of the gang starts before all of it can, and nobody before those who go for it have gone: what is free now may be promised to
   * others, who count on what the victims leave.
   */
  private waitTogether(): void {
    const { statement } = this.session;
    const isWaiting = this.step.tasks.some(({ status }) => status === "pipelined");
    if (isWaiting || this.evicted().length > 0 || mustWaitTogether(this.job)) statement.pipelineAll(this.step.tasks);
  }

  private rankOf({ job }: Task): number {
    return job === undefined ? 0 : (this.rank.get(job) ?? 0);
  }
}

/** It has its node and keeps it. What is only on its way is not evicted: it would be bound after that. */
export function isEvictable(task: Task): boolean {
  return isAllocatedStatus[task.status] && (task.status === "running" || task.status === "bound");
}

/** What a share lacks is in its GPUs, and what claims lack in their devices: amounts do not tell whether it is enough. */
function lacksMoreThanAmounts({ shape }: Task): boolean {
  return isShared(shape.gpu) || shape.hasDeviceClaims;
}

/** What no eviction can cure: something is missing, or no node is large enough. */
export function isHopeless(session: Session, step: Step): boolean {
  const { cluster } = session;
  return step.tasks.some((task) => {
    if (problemOf(cluster, task) !== undefined) return true;
    const { places, amounts } = task.shape;
    return places.some((place, k) => mostOnOneNode(session, place, { isHealthy: true }) < (amounts[k] ?? 0));
  });
}

function hasTopology(job: Job): boolean {
  const { topologyConstraint, subGroups } = job.spec;
  return (
    topologyConstraint !== undefined ||
    (subGroups ?? []).some((each) => (each.topologyConstraint ?? undefined) !== undefined)
  );
}

import { isShared } from "../../../model/scheduling/gpuRequest.ts";
import type { Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { compareTasks, isEvictable, type Task } from "../cluster/task.ts";
import { standingText } from "../explain/explain.ts";
import { mostOnOneNode } from "../explain/largestNode.ts";
import { coreRank, isSatisfied, isStarting, type Step, surplusVictims } from "../placement/gangSteps.ts";
import { mustWaitTogether, placeStep, replaceAll } from "../placement/placeStep.ts";
import { placeTask, problemOf } from "../placement/placeTask.ts";
import { requiredDomains } from "../placement/topologyDomains.ts";
import { placedRefusal, requestOf } from "../queues/gates.ts";
import { sortedJobs } from "../queues/order.ts";
import type { Session } from "../session.ts";
import { freeGpuMilli } from "./freeGpus.ts";
import { compareLosses, evictableOf, type Loss, type Losses, lacksMoreThanAmounts } from "./losses.ts";
import type { Generator, JobBudget } from "./searchBudget.ts";
import type { SearchCounts } from "./searchCounts.ts";
import { Sparing } from "./sparing.ts";
import { compareVictims, type VictimRules, victimsUnder } from "./victimRules.ts";

/** The job that needs resources, and its next step. */
export interface RoomRequest {
  readonly job: Job;
  readonly step: Step;
  /** Shared by all searches of an action. */
  readonly losses: Losses;
}

/**
 * Evicts victims for the next step of a job, and places the job on the freed resources as a proof. Everything is rolled
 * back if it fails. First node by node with as little disruption as possible, pod after pod; if that fails, all
 * candidates are evicted, the job is placed, and unnecessary victims are kept. In both cases surplus pods are evicted
 * first, and a job ends only where they are not enough. If eviction is not enough and moving is allowed, the same is
 * tried with pods that may only be moved. Where every victim must be moved, a job with a topology tries one domain
 * after the other.
 */
export function makeRoom(session: Session, wish: RoomRequest, rules: VictimRules, budget: JobBudget): boolean {
  for (const moves of rules.mayMove ? [false, true] : [false]) {
    const search = new Search(session, wish, rules, budget, moves);
    if (search.run("NodeLocalGreedy")) {
      // Pod by pod, a first pod may have used the surplus that a later pod could have had without ending a job.
      if (wish.step.tasks.length === 1 || !search.endsJobs()) return true;
      return (
        search.instead(() => search.run("MultiNodeGang", true) || search.run("NodeLocalGreedy", true)) ||
        search.run("NodeLocalGreedy")
      );
    }
    if (rules.replacesAll && !hasTopology(wish.job)) continue;
    if (search.run("MultiNodeGang", true) || search.run("MultiNodeGang")) return true;
  }
  return false;
}

/** The number of alternatives that a gang tries before one of its victim jobs has to end. */
const detourAttemptsMax = 256;
/** Larger gangs do not try alternatives: for each of their pods all nodes are checked. */
const detourPodsMax = 64;

/** The number of topology domains that are tried for one job. */
const domainsMax = 64;

class Search {
  private readonly session: Session;
  private readonly job: Job;
  private readonly step: Step;
  private readonly losses: Losses;
  private readonly rules: VictimRules;
  private readonly budget: JobBudget;
  /** Whether pods that may only be moved are candidates too. */
  private readonly moves: boolean;
  private readonly mustMove = new Set<Job>();
  /** Whether each victim had its minimum before it lost pods. */
  private readonly ranks = new Map<Job, number>();
  private readonly start: number;
  private isRepeated = false;

  constructor(session: Session, wish: RoomRequest, rules: VictimRules, budget: JobBudget, moves: boolean) {
    this.session = session;
    this.job = wish.job;
    this.step = wish.step;
    this.losses = wish.losses;
    this.rules = rules;
    this.budget = budget;
    this.moves = moves;
    this.start = session.statement.checkpoint();
  }

  /** True if the job is placed. Otherwise everything is rolled back. */
  run(generator: Generator, surplusOnly = false): boolean {
    const { statement, observer } = this.session;
    if (surplusOnly && (this.rules.replacesAll || !this.losses.hasSurplus(this.rules))) return false;
    this.mustMove.clear();
    observer.searchStarted();
    const hasRoom = this.hasRoomBy(generator, surplusOnly);
    const isSolved = hasRoom && this.isAcceptable();
    if (hasRoom && !isSolved) this.counts.scenarios[generator].rejected++;
    if (!isSolved) statement.rollback(this.start);
    observer.searchEnded(this.rules.reason.action, generator, isSolved);
    return isSolved;
  }

  /** Whether a job loses more than its surplus, though other jobs have surplus. */
  endsJobs(): boolean {
    return this.losses.hasSurplus(this.rules) && this.evictedByJob().some(([job]) => !isSatisfied(job.root));
  }

  /** Rolls back and tries another search; if that fails, the former result is searched again without a budget. */
  instead(other: () => boolean): boolean {
    this.session.statement.rollback(this.start);
    if (other()) return true;
    this.isRepeated = true;
    return false;
  }

  private hasRoomBy(generator: Generator, surplusOnly: boolean): boolean {
    if (generator === "NodeLocalGreedy") return surplusOnly ? this.shrinkingOnly() : this.nodeByNode();
    return this.rules.replacesAll ? this.domainByDomain() : this.allVictims(surplusOnly);
  }

  /** Counts an attempt; false when none is left. */
  private mayTry(generator: Generator): boolean {
    const scenarios = this.counts.scenarios[generator];
    scenarios.emitted++;
    if (!this.isRepeated && !this.budget.takeFor(generator)) return false;
    scenarios.simulated++;
    return true;
  }

  private get counts(): SearchCounts {
    return this.session.searchesOf(this.rules.reason.action);
  }

  /** Places pod after pod, where it fits or where the fewest pods have to be evicted. */
  private nodeByNode(): boolean {
    const { cluster, statement } = this.session;
    if (hasTopology(this.job)) return false;
    for (const task of this.largestFirst()) {
      if (placeTask(cluster, statement, task)) continue;
      if (!this.freeNodeFor(task)) return false;
    }
    if (!this.rules.replacesAll) this.spareTheRest();
    this.waitTogether();
    return true;
  }

  /** Large pods first, because they fit fewer nodes. */
  private largestFirst(): readonly Task[] {
    const { cluster } = this.session;
    const { mostMiB } = cluster.gpuMemoryRange();
    const sizeOf = (task: Task): number => cluster.vectorOf(task, mostMiB)[0];
    return [...this.step.tasks].sort((a, b) => sizeOf(b) - sizeOf(a));
  }

  /**
   * Pod after pod without ending a job. The surplus that the first pods use decides whether it is enough for the last,
   * so other nodes and jobs are tried, for some attempts.
   */
  private shrinkingOnly(): boolean {
    const tasks = this.largestFirst();
    if (tasks.length > detourPodsMax) return false;
    let attemptsLeft = 2 * tasks.length + detourAttemptsMax;
    const { cluster, statement } = this.session;
    const place = (at: number): boolean => {
      const task = tasks[at];
      if (task === undefined) return true;
      const before = statement.checkpoint();
      if (placeTask(cluster, statement, task) && place(at + 1)) return true;
      statement.rollback(before);
      const losses = [...this.losses.forTask(task, this.rules)]
        .filter((each) => each !== "not enough")
        .filter(({ cores }) => cores === 0)
        .sort((a, b) => compareLosses(this.rules, a, b));
      for (const loss of losses) {
        for (const { units } of [loss, this.losses.lossOfRichest(loss.node, task, this.rules) ?? loss]) {
          if (--attemptsLeft < 0 || !this.mayTry("NodeLocalGreedy")) return false;
          if (this.freeNode(loss.node, units, task) && place(at + 1)) return true;
          statement.rollback(before);
        }
      }
      return false;
    };
    if (!place(0)) return false;
    this.spareTheRest();
    this.waitTogether();
    return true;
  }

  /** Evicts all candidates, then keeps those that are not necessary. */
  private allVictims(surplusOnly: boolean): boolean {
    const { cluster, statement } = this.session;
    if (!this.mayTry("MultiNodeGang")) return false;
    const victims = victimsUnder(cluster, this.rules);
    for (const victim of victims) this.evictWhile(victim, (each) => surplusVictims(each.root, isEvictable) ?? []);
    if (!surplusOnly) for (const victim of victims) this.evictWhile(victim, (each) => this.coreOf(each));
    if (!placeStep(cluster, statement, this.job, this.step).ok) return false;
    this.spareTheRest();
    this.waitTogether();
    return true;
  }

  /**
   * Moves pods out of one topology domain after the other, in the order of victims, until the job fits there. A job
   * that fits no other node stays, and the domain is tried without it.
   */
  private domainByDomain(): boolean {
    const { statement } = this.session;
    for (const { nodes, victims } of this.domains()) {
      const immovable = new Set<Job>();
      for (;;) {
        if (!this.mayTry("MultiNodeGang")) return false;
        const before = statement.checkpoint();
        const stuck = this.freeDomain(
          nodes,
          victims.filter((job) => !immovable.has(job)),
        );
        if (stuck === undefined) {
          this.waitTogether();
          return true;
        }
        statement.rollback(before);
        if (stuck === "not enough") break;
        immovable.add(stuck);
      }
    }
    return false;
  }

  /** The domains that could hold the job, in the order of their victims. */
  private domains(): { nodes: readonly number[]; victims: readonly Job[] }[] {
    const { cluster } = this.session;
    const all = [...cluster.table.nodes.keys()];
    const domains = (requiredDomains(cluster, this.job.root.topology) ?? [all]).map((nodes) => ({
      nodes,
      victims: this.victimsIn(nodes),
    }));
    return domains
      .filter(({ victims }) => victims.length > 0)
      .sort((a, b) => compareVictims(this.rules, a.victims[0] as Job, b.victims[0] as Job, coreRank))
      .slice(0, domainsMax);
  }

  private victimsIn(nodes: readonly number[]): readonly Job[] {
    const jobs = new Set<Job>();
    for (const at of nodes) {
      for (const { holder } of this.session.cluster.table.nodes[at]?.holdings ?? []) {
        const { job } = holder as Task;
        if (job !== undefined && isEvictable(holder as Task) && this.rules.isVictim(job)) jobs.add(job);
      }
    }
    return [...jobs].sort((a, b) => compareVictims(this.rules, a, b, coreRank));
  }

  /** Undefined if the job and every victim are placed; otherwise the victim that fits no other node. */
  private freeDomain(nodes: readonly number[], victims: readonly Job[]): Job | "not enough" | undefined {
    const { cluster, statement } = this.session;
    const before = statement.checkpoint();
    const [needed] = requestOf(cluster, this.step.tasks);
    const states = nodes.map((at) => cluster.table.nodes[at] as NodeState);
    // Placing a gang costs more than counting the free resources.
    const place = (): boolean =>
      freeGpuMilli(cluster, states) >= needed && placeStep(cluster, statement, this.job, this.step, { nodes }).ok;
    const isPlaced = victims.slice(0, this.rules.jobsMax).some((victim) => {
      for (const task of this.coreOf(victim)) this.evict(task, victim);
      return place();
    });
    if (!isPlaced) return "not enough";
    this.spareTheRest();
    return this.stuckSince(before);
  }

  private evictWhile(victim: Job, unitOf: (victim: Job) => readonly Task[]): void {
    for (let unit = unitOf(victim); unit.length > 0; unit = unitOf(victim)) {
      if (!this.mayEvict(victim)) return;
      for (const task of unit) this.evict(task, victim);
    }
  }

  private evict(task: Task, victim: Job): void {
    if (!this.ranks.has(victim)) this.ranks.set(victim, coreRank(victim));
    const { standings } = this.rules.reason;
    // Recorded at the first eviction from this queue.
    if (victim.queue !== undefined && standings?.has(victim.queue) === false) {
      standings.set(victim.queue, standingText(victim.queue));
    }
    this.session.statement.evict(task, this.rules.reason);
  }

  /** Whether the job may be evicted, or else moved. */
  private mayEvict(victim: Job): boolean {
    if (!this.mustMove.has(victim) && this.rules.mayTake(victim)) return true;
    if (!this.moves) return false;
    this.mustMove.add(victim);
    return true;
  }

  private isAcceptable(): boolean {
    if (this.moves && !this.moveVictims()) return false;
    // The victims no longer count for the bounds of the queues that they share with the job.
    if (placedRefusal(this.job) !== undefined) return false;
    const evicted = this.evicted();
    // Terminating pods may release enough: then no eviction is necessary.
    if (evicted.length > 0) {
      if (new Set(evicted.map(({ job }) => job)).size > this.rules.jobsMax) return false;
      if (!this.rules.isFair()) return false;
    }
    return this.isKeepable();
  }

  /**
   * A pod is nominated to a node, not to a GPU. Whether GPU shares fit after the evictions depends on how they are
   * packed then, so it is tried, with all pods that are nominated to the same nodes, in the order in which they will be
   * placed. Otherwise a plan that fails would be made again and again, and victims would be evicted for nothing each
   * time.
   */
  private isKeepable(): boolean {
    const { cluster, statement } = this.session;
    const { going, promised } = this.onItsNodes();
    const all = [...going, ...promised];
    if (!all.some(({ shape }) => isShared(shape.gpu)) || all.some(({ shape }) => shape.hasDeviceClaims)) return true;
    const before = statement.checkpoint();
    const nodesOf = new Map(promised.map((task) => [task, task.holdings.map(({ node }) => node.index)]));
    for (const task of going) statement.removeForTrial(task);
    for (const task of promised) statement.unplace(task);
    const tasksOf = byJob(promised);
    const isKept = sortedJobs([...tasksOf.keys()])
      .flatMap((job) => tasksOf.get(job)?.sort(compareTasks) ?? [])
      .every((task) => placeTask(cluster, statement, task, { nodes: nodesOf.get(task) ?? [] }));
    statement.rollback(before);
    return isKept;
  }

  /** Victims on the nodes to which the job was nominated, and pods that were nominated there. */
  private onItsNodes(): { going: Task[]; promised: Task[] } {
    const { statement } = this.session;
    const going = new Set(this.evicted());
    const promised = new Set(this.step.tasks);
    for (const node of new Set(this.step.tasks.flatMap(({ holdings }) => holdings.map((each) => each.node)))) {
      for (const { holder } of node.holdings) {
        const task = holder as Task;
        if (task.isReservation) continue;
        if (task.status === "releasing" || statement.evictionOf(task) !== undefined) going.add(task);
        else if (task.status === "pipelined") promised.add(task);
      }
    }
    return { going: [...going], promised: [...promised] };
  }

  /**
   * Places victims on other nodes, the most important first, all pods of a job or none. False if a victim that may only
   * be moved fits no node. A moved victim counts for its queue as before.
   */
  private moveVictims(): boolean {
    const { cluster, statement } = this.session;
    for (const [victim, tasks] of this.evictedByJob()) {
      if (replaceAll(cluster, statement, victim, tasks)) continue;
      if (this.mustMove.has(victim)) return false;
    }
    return true;
  }

  private evictedByJob(): [Job, Task[]][] {
    const rankOf = (job: Job): number => this.ranks.get(job) ?? coreRank(job);
    return [...byJob(this.evicted())].sort(([a], [b]) => compareVictims(this.rules, b, a, rankOf));
  }

  /** Pods that a PodDisruptionBudget protects first, then the most important. */
  private inOrderOfSparing(): (readonly Task[])[] {
    const all = this.evictedByJob().map(([, tasks]) => tasks);
    const guarded = this.rules.guarded?.(all.flat());
    if (guarded === undefined || guarded.size === 0) return all;
    const isGuarded = (tasks: readonly Task[]): boolean => tasks.some((task) => guarded.has(task));
    return [...all.filter(isGuarded), ...all.filter((tasks) => !isGuarded(tasks))];
  }

  private evicted(): Task[] {
    return this.evictedSince(this.start);
  }

  private evictedSince(checkpoint: number): Task[] {
    const { statement } = this.session;
    return statement.touchedSince(checkpoint).filter((task) => statement.evictionOf(task) !== undefined);
  }

  /** The remaining pods of a job; none while it is being bound. */
  private coreOf(victim: Job): readonly Task[] {
    if (!this.rules.mayLoseCore(victim) || isStarting(victim.root)) return [];
    return evictableOf(victim);
  }

  /** Tries the nodes with the fewest victims first, until the task fits one. */
  private freeNodeFor(task: Task): boolean {
    const { statement } = this.session;
    const { counts } = this;
    counts.filtered += this.losses.refusedFor(task, this.rules);
    for (const loss of this.losses.inOrder(task, this.rules)) {
      const immovable = new Set<Job>();
      for (let tried: Loss | undefined = loss; tried !== undefined; ) {
        if (!this.mayTry("NodeLocalGreedy")) return false;
        const before = statement.checkpoint();
        const isFreed = this.freeNode(tried.node, tried.units, task);
        const stuck = isFreed && this.rules.replacesAll ? this.stuckSince(before) : undefined;
        if (isFreed && stuck === undefined) return true;
        statement.rollback(before);
        if (stuck === undefined) break;
        // Another pod of the node may fit elsewhere.
        immovable.add(stuck);
        tried = this.losses.lossOf(loss.node, task, this.rules, immovable);
      }
    }
    return false;
  }

  /** Places every victim on another node; returns the first that fits none. */
  private stuckSince(checkpoint: number): Job | undefined {
    const { cluster, statement } = this.session;
    for (const [victim, tasks] of byJob(this.evictedSince(checkpoint))) {
      if (!replaceAll(cluster, statement, victim, tasks)) return victim;
    }
    return undefined;
  }

  private freeNode(node: NodeState, units: readonly (readonly Task[])[], task: Task): boolean {
    const { cluster, statement } = this.session;
    const place = (): boolean => placeTask(cluster, statement, task, { nodes: [node.index] });
    if (!lacksMoreThanAmounts(task)) return this.evictUnits(units) && place();
    // One unit after the other is evicted until the task fits.
    return units.some((unit) => this.evictUnits([unit]) && place());
  }

  private evictUnits(units: readonly (readonly Task[])[]): boolean {
    for (const unit of units) {
      const job = unit[0]?.job;
      if (job === undefined || !this.mayEvict(job)) return false;
      for (const task of unit) if (isEvictable(task)) this.evict(task, job);
    }
    return true;
  }

  /** Keeps victims that are not necessary. */
  private spareTheRest(): void {
    const sparing = new Sparing(this.session, this.job, this.step, hasTopology(this.job));
    sparing.spare(
      this.inOrderOfSparing().map((tasks) => {
        const job = tasks[0]?.job as Job;
        return { job, tasks, wasIncomplete: this.ranks.get(job) === 0 };
      }),
    );
  }

  /**
   * No pod of the gang starts before all can, and none before the victims have terminated: resources that are free now
   * may be nominated to other pods, which rely on the resources of the victims.
   */
  private waitTogether(): void {
    const { statement } = this.session;
    const isWaiting = this.step.tasks.some(({ status }) => status === "pipelined");
    if (isWaiting || this.evicted().length > 0 || mustWaitTogether(this.job)) statement.pipelineAll(this.step.tasks);
  }
}

function byJob(tasks: readonly Task[]): Map<Job, Task[]> {
  const found = new Map<Job, Task[]>();
  for (const task of tasks) {
    if (task.job === undefined) continue;
    const known = found.get(task.job);
    if (known === undefined) found.set(task.job, [task]);
    else known.push(task);
  }
  return found;
}

/** Whether no eviction can help: an object does not exist, or no node is accepted or large enough. */
export function isHopeless(session: Session, step: Step): boolean {
  return step.tasks.some((task) => isHopelessTask(session, task));
}

/** By cycle and shape: pods of one shape name the same volumes and ConfigMaps. */
const hopeless = new WeakMap<Session, Map<PodShape, boolean>>();
/** By cycle and shape. */
const tooMuch = new WeakMap<Session, Map<PodShape, boolean>>();

function isHopelessTask(session: Session, task: Task): boolean {
  return task.shape.hasDeviceClaims ? findHopeless(session, task) : ofShape(hopeless, session, task, findHopeless);
}

function findHopeless(session: Session, task: Task): boolean {
  return problemOf(session.cluster, task) !== undefined || isTooMuchForNodes(session, task);
}

/** Whether no node could run the pod if it were empty: only other labels, taints or capacities can help. */
export function isTooMuchForNodes(session: Session, task: Task): boolean {
  return ofShape(tooMuch, session, task, findTooMuch);
}

function findTooMuch(session: Session, { shape }: Task): boolean {
  if (!session.cluster.fit.acceptsSome(shape)) return true;
  return shape.places.some(
    (place, k) => mostOnOneNode(session, place, { isHealthy: true }) < (shape.amounts[k] as number),
  );
}

function ofShape(
  kept: WeakMap<Session, Map<PodShape, boolean>>,
  session: Session,
  task: Task,
  find: (session: Session, task: Task) => boolean,
): boolean {
  const { shape } = task;
  let byShape = kept.get(session);
  if (byShape === undefined) {
    byShape = new Map();
    kept.set(session, byShape);
  }
  let known = byShape.get(shape);
  if (known === undefined) {
    known = find(session, task);
    byShape.set(shape, known);
  }
  return known;
}

function hasTopology(job: Job): boolean {
  const { topologyConstraint, subGroups } = job.spec;
  return (
    topologyConstraint !== undefined ||
    (subGroups ?? []).some((each) => (each.topologyConstraint ?? undefined) !== undefined)
  );
}

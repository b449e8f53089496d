import { isShared } from "../../../model/scheduling/gpuRequest.ts";
import { Heap } from "../../../snapshot/heap.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { Holding, NodeState } from "../cluster/nodeState.ts";
import { gpuAt } from "../cluster/resources.ts";
import { compareTasks, isEvictable, type Task } from "../cluster/task.ts";
import { coreRank, elasticRank, isSatisfied, isStarting, spareUnitWith, surplusCount } from "../placement/gangSteps.ts";
import { compareVictims, type VictimRules } from "./victimRules.ts";

const nobody: ReadonlySet<Task> = new Set();
const noJob: ReadonlySet<Job> = new Set();

/** The victims on a node that would let a pod fit there. */
export interface Loss {
  readonly node: NodeState;
  /** Pods that are evicted together, in the order of eviction. */
  readonly units: readonly (readonly Task[])[];
  readonly pods: number;
  /** The number of jobs that lose more than their surplus. */
  readonly cores: number;
  /** The number of victims that a PodDisruptionBudget protects. */
  readonly guarded: number;
  /** The most important job that loses pods, and its rank before that. */
  readonly worst: Job;
  readonly worstRank: number;
}

/** Losses for one shape of pod under one kind of rules, by the index of the node. */
interface Known {
  readonly losses: (Loss | "not enough" | undefined)[];
  /** In ascending order; may contain outdated entries. */
  readonly inOrder: Heap<Loss>;
  /** Nodes that have to be evaluated again. */
  readonly stale: Set<number>;
  /** The number of nodes that would not have enough. */
  refused: number;
  /** The position in the change log of nodes. */
  cursor: number;
}

/**
 * The losses of nodes, in one action of one cycle. They are computed once for a node and a shape of pod, and again only
 * for nodes that have changed: many searches look at the same nodes.
 */
export class Losses {
  private readonly cluster: Cluster;
  private readonly known = new Map<string, Known>();
  private elastic: readonly Job[] | undefined;

  constructor(cluster: Cluster) {
    this.cluster = cluster;
  }

  /**
   * Whether a victim has pods beyond its minimum. During an action only jobs that grow by it can get such pods, and
   * those are no victims.
   */
  hasSurplus(rules: VictimRules): boolean {
    this.elastic ??= [...this.cluster.jobs.values()].filter((job) => elasticRank(job) === 2);
    return this.elastic.some((job) => rules.isVictim(job));
  }

  /** The loss of every node that accepts the task. */
  *forTask(task: Task, rules: VictimRules): Iterable<Loss | "not enough"> {
    const { losses } = this.current(task, rules);
    for (const { index } of this.cluster.table.nodes) {
      const loss = losses[index];
      if (loss !== undefined) yield loss;
    }
  }

  /** The number of nodes that accept the task and would not have enough even without all their victims. */
  refusedFor(task: Task, rules: VictimRules): number {
    return this.current(task, rules).refused;
  }

  /**
   * In ascending order. Taking the first costs as much as the changed nodes, and not all nodes. Only one iteration may
   * be active at a time.
   */
  *inOrder(task: Task, rules: VictimRules): Iterable<Loss> {
    const { losses, inOrder } = this.current(task, rules);
    const seen: Loss[] = [];
    try {
      for (let loss = inOrder.pop(); loss !== undefined; loss = inOrder.pop()) {
        if (losses[loss.node.index] !== loss) continue;
        seen.push(loss);
        yield loss;
      }
    } finally {
      for (const loss of seen) inOrder.push(loss);
    }
  }

  /** The losses, with those of changed nodes computed again. */
  private current(task: Task, rules: VictimRules): Known {
    const { fit, table } = this.cluster;
    const known = this.invalidated(`${task.shape.id} ${rules.kind}`, rules);
    for (const index of known.stale) {
      if (known.losses[index] === "not enough") known.refused--;
      const node = table.nodes[index] as NodeState;
      const loss = fit.accepts(task.shape, index) ? (this.lossOf(node, task, rules) ?? "not enough") : undefined;
      known.losses[index] = loss;
      if (loss === "not enough") known.refused++;
      else if (loss !== undefined) known.inOrder.push(loss);
    }
    known.stale.clear();
    return known;
  }

  /** Marks the losses of changed nodes as stale. */
  private invalidated(key: string, rules: VictimRules): Known {
    const { table } = this.cluster;
    let known = this.known.get(key);
    const changed = known === undefined ? undefined : table.log.since(known.cursor);
    if (known === undefined || changed === undefined) {
      known = {
        losses: [],
        inOrder: new Heap<Loss>((a, b) => compareLosses(rules, a, b)),
        stale: new Set(table.nodes.keys()),
        refused: 0,
        cursor: table.log.end,
      };
      this.known.set(key, known);
      return known;
    }
    known.cursor = table.log.end;
    for (const index of new Set(changed)) {
      known.stale.add(index);
      // A victim that lost a pod here can spare fewer pods on other nodes.
      for (const { holder } of table.nodes[index]?.holdings ?? []) {
        const { job } = holder as Task;
        if (job === undefined || !rules.isVictim(job)) continue;
        for (const { holdings } of job.tasks) {
          for (const { node } of holdings) if (node.index >= 0) known.stale.add(node.index);
        }
      }
    }
    return known;
  }

  /**
   * The victims on a node that let the task fit; undefined if evicting all of them is not enough. Surplus pods are
   * evicted before pods that a job needs: an elastic job shrinks before any job ends.
   */
  lossOf(node: NodeState, task: Task, rules: VictimRules, spared: ReadonlySet<Job> = noJob): Loss | undefined {
    const victims = victimsOn(node, rules).filter(({ job }) => !spared.has(job));
    const loss = this.lossAmong(victims, node, task, rules);
    if (loss === undefined || loss.cores === 0 || loss.cores === loss.units.length) return loss;
    // A job may have a surplus of one pod, and a small and a large pod here: the large one may be enough.
    const lack = new Lack(this.cluster, node, task);
    const largest = [...victims].sort((a, b) => lack.partOf(b.other) - lack.partOf(a.other));
    const other = this.lossAmong(largest, node, task, rules);
    return other !== undefined && other.cores < loss.cores ? other : loss;
  }

  /** The same without ending a job, from the jobs with the most surplus first. */
  lossOfRichest(node: NodeState, task: Task, rules: VictimRules): Loss | undefined {
    const surpluses = new Map<Job, number>();
    const surplusOf = (job: Job): number => {
      let surplus = surpluses.get(job);
      if (surplus === undefined) {
        surplus = surplusCount(job);
        surpluses.set(job, surplus);
      }
      return surplus;
    };
    const richest = victimsOn(node, rules).sort((a, b) => surplusOf(b.job) - surplusOf(a.job));
    const loss = this.lossAmong(richest, node, task, rules);
    return loss?.cores === 0 ? loss : undefined;
  }

  private lossAmong(victims: readonly Victim[], node: NodeState, task: Task, rules: VictimRules): Loss | undefined {
    const isOpen = lacksMoreThanAmounts(task);
    const lack = new Lack(this.cluster, node, task);
    const units: Unit[] = [];
    const taken = new Set<Task>();
    const guarded = rules.guarded?.(victims.map(({ other }) => other).reverse()) ?? nobody;
    const take = (of: readonly Victim[], unitWith: UnitWith): void => {
      for (const { other, job } of of) {
        if (!isOpen && lack.isEmpty) return;
        if (taken.has(other)) continue;
        const tasks = unitWith(other, job, taken, rules);
        if (tasks === undefined || tasks.length === 0) continue;
        for (const each of tasks) taken.add(each);
        units.push({ job, tasks, isCore: unitWith === coreWith, freed: lack.without(tasks) });
      }
    };
    for (const of of [
      victims.filter(({ other }) => !guarded.has(other)),
      victims.filter(({ other }) => guarded.has(other)),
    ]) {
      // If every victim is moved, no job ends, and one job is moved rather than two.
      if (rules.replacesAll) take(of, smallestWith);
      else {
        take(of, spareWith);
        const isInOrder = units.length === 0 && of.every(({ job }) => job.root.podSet !== undefined);
        take(isInOrder ? of : byCore(of, rules), coreWith);
      }
    }
    if (units.length === 0 || !(isOpen || lack.isEmpty)) return undefined;
    const needed = isOpen ? units : lack.needed(units);
    const pods = needed.flatMap(({ tasks }) => tasks);
    let worst = needed[0]?.job as Job;
    for (const { job } of needed) if (compareVictims(rules, worst, job) < 0) worst = job;
    return {
      node,
      units: needed.map(({ tasks }) => tasks),
      pods: pods.length,
      cores: needed.filter(({ isCore }) => isCore).length,
      guarded: pods.filter((each) => guarded.has(each)).length,
      worst,
      worstRank: elasticRank(worst),
    };
  }
}

/** The fewest pods, and of ended jobs the fewest; then the order of victims. */
export function compareLosses(rules: VictimRules, a: Loss, b: Loss): number {
  const rankOf = (job: Job): number => (job === a.worst ? a.worstRank : b.worstRank);
  return (
    a.guarded - b.guarded ||
    (rules.replacesAll ? 0 : a.cores - b.cores) ||
    a.pods - b.pods ||
    compareVictims(rules, a.worst, b.worst, rankOf) ||
    // Of one job the last pod is evicted first.
    compareTasks(b.units[0]?.[0] as Task, a.units[0]?.[0] as Task) ||
    a.node.index - b.node.index
  );
}

/** Pods of a job that are evicted together. */
interface Unit {
  readonly job: Job;
  readonly tasks: readonly Task[];
  readonly isCore: boolean;
  /** The lacking amounts that they free; undefined where that depends on other pods that share their GPU. */
  readonly freed: readonly number[] | undefined;
}

/** The amounts that a task lacks on a node, and those that it still lacks after evictions. */
class Lack {
  private readonly node: NodeState;
  private readonly places: readonly number[];
  private readonly lacking: number[];
  private readonly sharers: Map<string, number>;

  constructor({ table: { later } }: Cluster, node: NodeState, { shape: { places, amounts } }: Task) {
    this.node = node;
    this.places = places;
    this.lacking = places.map((place, k) => (amounts[k] ?? 0) - (later[place]?.[node.index] ?? 0));
    this.sharers = new Map([...node.groups.values()].map(({ id, laterHolders }) => [id, laterHolders]));
  }

  get isEmpty(): boolean {
    return this.lacking.every((each) => each <= 0);
  }

  /** The amounts that these pods free, by place. */
  without(tasks: readonly Task[]): readonly number[] | undefined {
    const freed = this.places.map(() => 0);
    let isShare = false;
    for (const { holdings, shape } of tasks) {
      const holding = holdings.find(({ node }) => node === this.node);
      if (holding === undefined) continue;
      if (holding.groups.length > 0) isShare = true;
      const gpus = freedGpus(holding, this.sharers);
      for (const [k, place] of this.places.entries()) {
        const at = shape.places.indexOf(place);
        freed[k] = (freed[k] ?? 0) + (at >= 0 ? (shape.amounts[at] ?? 0) : place === gpuAt ? gpus : 0);
      }
    }
    for (const [k, each] of freed.entries()) this.lacking[k] = (this.lacking[k] ?? 0) - each;
    return isShare ? undefined : freed;
  }

  /** The portion of the lacking amounts that a pod holds, summed over resources. */
  partOf({ shape }: Task): number {
    let part = 0;
    for (const [k, place] of this.places.entries()) {
      const at = shape.places.indexOf(place);
      const lacking = this.lacking[k] ?? 0;
      if (at >= 0 && lacking > 0) part += Math.min(1, (shape.amounts[at] ?? 0) / lacking);
    }
    return part;
  }

  /**
   * Removes units that the others make unnecessary: the last in the order of eviction first, and required pods before
   * surplus. Of one job only the last unit can be removed, because the units before it are needed less.
   */
  needed(units: readonly Unit[]): readonly Unit[] {
    if (units.length === 1) return units;
    const kept = new Set(units);
    for (const isCore of [true, false]) {
      const goes = new Set<Job>();
      for (const unit of [...units].reverse()) {
        if (!kept.has(unit)) continue;
        const { freed, job } = unit;
        const isNeeded = freed === undefined || freed.some((each, k) => (this.lacking[k] ?? 0) + each > 0);
        if (isNeeded || unit.isCore !== isCore || goes.has(job)) {
          goes.add(job);
          continue;
        }
        kept.delete(unit);
        for (const [k, each] of freed.entries()) this.lacking[k] = (this.lacking[k] ?? 0) + each;
      }
    }
    return units.filter((unit) => kept.has(unit));
  }
}

/** A shared GPU is free when the last pod that shares it is evicted. */
function freedGpus({ groups }: Holding, sharers: Map<string, number>): number {
  let freed = 0;
  for (const id of groups) {
    const left = (sharers.get(id) ?? 0) - 1;
    sharers.set(id, left);
    if (left === 0) freed++;
  }
  return freed;
}

interface Victim {
  readonly other: Task;
  readonly job: Job;
}

/** Pods of victims on a node, in the order of eviction; of one job the youngest first. */
function victimsOn(node: NodeState, rules: VictimRules): Victim[] {
  const found: Victim[] = [];
  for (const { holder, state } of node.holdings) {
    const other = holder as Task;
    const { job } = other;
    if (state === "used" && job !== undefined && isEvictable(other) && rules.isVictim(job)) found.push({ other, job });
  }
  return found.sort(
    (a, b) =>
      compareVictims(rules, a.job, b.job) ||
      b.other.createdMs - a.other.createdMs ||
      (a.other.uid > b.other.uid ? -1 : 1),
  );
}

/** Without its surplus a job ranks as any other of its priority. */
function byCore(victims: readonly Victim[], rules: VictimRules): readonly Victim[] {
  return [...victims].sort((a, b) => compareVictims(rules, a.job, b.job, coreRank));
}

/** The pods that are evicted with a pod; undefined if the job may not lose them, or is still being bound. */
type UnitWith = (task: Task, job: Job, taken: ReadonlySet<Task>, rules: VictimRules) => readonly Task[] | undefined;

/** As little of its surplus as possible. */
const spareWith: UnitWith = (task, job, taken) =>
  isSatisfied(job.root) ? spareUnitWith(job.root, task, isEvictable, taken) : undefined;

/** All remaining pods of the job. */
const coreWith: UnitWith = (task, job, taken, rules) => {
  if (spareWith(task, job, taken, rules) !== undefined) return undefined;
  return rules.mayLoseCore(job) && !isStarting(job.root)
    ? evictableOf(job).filter((each) => !taken.has(each))
    : undefined;
};

const smallestWith: UnitWith = (task, job, taken, rules) =>
  spareWith(task, job, taken, rules) ?? coreWith(task, job, taken, rules);

/** The evictable pods of a job, in an order that does not depend on the order of events. */
export function evictableOf({ tasks }: Job): Task[] {
  return [...tasks].filter(isEvictable).sort(compareTasks);
}

/**
 * Whether amounts alone do not show that a task fits: a GPU share depends on single GPUs, and a claim on devices.
 */
export function lacksMoreThanAmounts({ shape }: Task): boolean {
  return isShared(shape.gpu) || shape.hasDeviceClaims;
}

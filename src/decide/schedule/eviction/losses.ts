import { isShared } from "../../../model/scheduling/gpuRequest.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { Holding, NodeState } from "../cluster/nodeState.ts";
import { gpuAt } from "../cluster/resources.ts";
import { compareTasks, isEvictable, type Task } from "../cluster/task.ts";
import { isSatisfied, isStarting, spareUnitWith } from "../placement/gang.ts";
import { compareVictims, type VictimRules } from "./victimRules.ts";

const nobody: ReadonlySet<Task> = new Set();

/** What a node would lose for a pod to fit there. */
export interface Loss {
  readonly node: NodeState;
  /** Pods that go together, the first to lose first. */
  readonly units: readonly (readonly Task[])[];
  readonly pods: number;
  /** How many of them a budget of theirs would not let go. */
  readonly guarded: number;
  /** The most important of those that lose something. */
  readonly worst: Job;
}

/** Losses for one kind of pod under one kind of rules, by the index of the node. */
interface Known {
  readonly losses: (Loss | "not enough" | undefined)[];
  /** How far the changes of the nodes are heeded. */
  cursor: number;
}

/**
 * What nodes would lose, in one action of one cycle. It is worked out once for a node and a kind of pod, and again only
 * where something has changed: many searches for room look at the same nodes.
 */
export class Losses {
  private readonly cluster: Cluster;
  private readonly known = new Map<string, Known>();

  constructor(cluster: Cluster) {
    this.cluster = cluster;
  }

  /** For every node that would accept the task. */
  *forTask(task: Task, rules: VictimRules): Iterable<Loss | "not enough"> {
    const { fit, table } = this.cluster;
    const { losses } = this.current(`${task.shape.id} ${rules.kind}`);
    for (const node of table.nodes) {
      if (!fit.accepts(task.shape, node.index)) continue;
      losses[node.index] ??= this.lossOf(node, task, rules) ?? "not enough";
      yield losses[node.index] as Loss | "not enough";
    }
  }

  /** What is known, without what is so no longer. */
  private current(key: string): Known {
    const { table } = this.cluster;
    let known = this.known.get(key);
    const changed = known === undefined ? undefined : table.log.since(known.cursor);
    if (known === undefined || changed === undefined) {
      known = { losses: [], cursor: table.log.end };
      this.known.set(key, known);
      return known;
    }
    known.cursor = table.log.end;
    for (const index of new Set(changed)) {
      known.losses[index] = undefined;
      // A job that lost a pod here can spare fewer pods on other nodes.
      for (const { holder } of table.nodes[index]?.holdings ?? []) {
        for (const { holdings } of (holder as Task).job?.tasks ?? []) {
          for (const { node } of holdings) known.losses[node.index] = undefined;
        }
      }
    }
    return known;
  }

  /** The victims on a node that let the task fit; undefined when evicting all of them is not enough. */
  private lossOf(node: NodeState, task: Task, rules: VictimRules): Loss | undefined {
    const { places, amounts } = task.shape;
    const { later } = this.cluster.table;
    const lacking = places.map((place, k) => (amounts[k] ?? 0) - (later[place]?.[node.index] ?? 0));
    const hasEnough = (): boolean => lacking.every((each) => each <= 0);
    const isOpen = lacksMoreThanAmounts(task);
    const units: (readonly Task[])[] = [];
    const taken = new Set<Task>();
    const sharers = new Map([...node.groups.values()].map(({ id, laterHolders }) => [id, laterHolders]));
    const victims = victimsOn(node, rules);
    const guarded = rules.guarded?.(victims.map(({ other }) => other).reverse()) ?? nobody;
    const inOrder = [
      ...victims.filter(({ other }) => !guarded.has(other)),
      ...victims.filter(({ other }) => guarded.has(other)),
    ];
    let worst: Job | undefined;
    for (const { other, job } of inOrder) {
      if (!isOpen && hasEnough()) break;
      if (taken.has(other)) continue;
      const unit = unitWith(other, job, taken, rules);
      if (unit === undefined) continue;
      units.push(unit);
      if (worst === undefined || compareVictims(rules, worst, job) < 0) worst = job;
      for (const each of unit) {
        taken.add(each);
        const holding = each.holdings.find((one) => one.node === node);
        if (holding === undefined) continue;
        const freed = freedGpus(holding, sharers);
        for (const [k, place] of places.entries()) {
          const at = each.shape.places.indexOf(place);
          const had = at >= 0 ? (each.shape.amounts[at] ?? 0) : place === gpuAt ? freed : 0;
          lacking[k] = (lacking[k] ?? 0) - had;
        }
      }
    }
    if (worst === undefined || !(isOpen || hasEnough())) return undefined;
    return { node, units, pods: taken.size, guarded: [...taken].filter((each) => guarded.has(each)).length, worst };
  }
}

/** A shared GPU is free when the last pod that shares it is gone. */
function freedGpus({ groups }: Holding, sharers: Map<string, number>): number {
  let freed = 0;
  for (const id of groups) {
    const left = (sharers.get(id) ?? 0) - 1;
    sharers.set(id, left);
    if (left === 0) freed++;
  }
  return freed;
}

/** Pods of victims on a node, the first to lose first; of one job the youngest. */
function victimsOn(node: NodeState, rules: VictimRules): { other: Task; job: Job }[] {
  const found: { other: Task; job: Job }[] = [];
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

/**
 * As little as its job can do without, otherwise all of it; undefined when it may not lose that, or has to arrive
 * first.
 */
function unitWith(task: Task, job: Job, taken: ReadonlySet<Task>, rules: VictimRules): readonly Task[] | undefined {
  const spare = isSatisfied(job.root) ? spareUnitWith(job.root, task, isEvictable, taken) : undefined;
  if (spare !== undefined) return spare.length > 0 ? spare : undefined;
  return rules.mayLoseCore(job) && !isStarting(job.root)
    ? evictableOf(job).filter((each) => !taken.has(each))
    : undefined;
}

/** What a job has to lose, in an order that does not depend on how it came to be known. */
export function evictableOf({ tasks }: Job): Task[] {
  return [...tasks].filter(isEvictable).sort(compareTasks);
}

/**
 * What a share lacks is in its GPUs, and what claims lack in their devices: amounts do not tell whether it is enough.
 */
export function lacksMoreThanAmounts({ shape }: Task): boolean {
  return isShared(shape.gpu) || shape.hasDeviceClaims;
}

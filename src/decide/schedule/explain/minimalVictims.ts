import type { NodeState } from "../cluster/nodeState.ts";
import type { Task } from "../cluster/task.ts";
import { type Candidates, findSpot } from "../placement/placeTask.ts";
import type { Session } from "../session.ts";
import { removalCost, type TrialBudget } from "./trialBudget.ts";
import { nodesOf } from "./trialNodes.ts";

/** The number of nodes that are tried, and of pods on each: the victims are listed in one sentence of a message. */
const nodesMax = 8;
const goersMax = 32;
/** Comparing the anti-affinity of two pods costs as much as checking this many nodes. */
const termCost = 5;

export interface Trial {
  /** Nodes with grants, whose holders are counted as deleted already. */
  readonly freed: ReadonlySet<NodeState>;
  /** The candidate nodes. */
  readonly within: Candidates;
}

/**
 * The fewest pods without which a task would fit a node; undefined if there are none on the nodes that were tried.
 */
export function minimalVictims(
  session: Session,
  task: Task,
  { freed, within }: Trial,
  budget: TrialBudget,
): readonly Task[] | undefined {
  const { fit } = session.cluster;
  const nodes = nodesOf(session.cluster, within);
  if (!budget.spend(nodes.length)) return undefined;
  const open = nodes.filter((node) => node.node !== undefined && fit.accepts(task.shape, node.index));
  const conflicts = conflictsOf(session, task, budget);
  const near = open
    .filter((node) => !freed.has(node) && isLargeEnough(node, task))
    .sort((a, b) => a.holdings.size - b.holdings.size || a.index - b.index)
    .slice(0, nodesMax);
  const isOther = (other: Task): boolean =>
    !other.isReservation &&
    (other.job === undefined || other.job !== task.job) &&
    other.holdings.every((each) => each.node.node !== undefined && !freed.has(each.node));
  for (const node of near) {
    // In a fixed order, so that the same objects give the same sentence.
    const inWay = conflicts
      .filter(({ isNear }) => isNear(node))
      .map((each) => each.task)
      .sort(byUid);
    const here = [...node.holdings].map(({ holder }) => holder as Task).sort(byUid);
    for (const goers of [inWay, [...new Set([...inWay, ...here])]]) {
      const found = fewest(session, task, node, goers.filter(isOther), budget);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

function byUid(a: Task, b: Task): number {
  return a.uid < b.uid ? -1 : 1;
}

function isLargeEnough({ capacity }: NodeState, { shape }: Task): boolean {
  return shape.places.every((place, k) => (capacity[place] ?? 0) >= (shape.amounts[k] ?? 0));
}

/** Removes every victim from a sufficient set that is not necessary. */
function fewest(
  { cluster, statement }: Session,
  task: Task,
  node: NodeState,
  goers: readonly Task[],
  budget: TrialBudget,
): readonly Task[] | undefined {
  if (goers.length === 0 || goers.length > goersMax) return undefined;
  const fitsWithout = (gone: readonly Task[]): boolean => {
    if (!budget.spend(removalCost * (gone.length + 1))) return false;
    const start = statement.checkpoint();
    for (const each of gone) statement.removeForTrial(each);
    const spot = findSpot(cluster, task, { nodes: [node.index] });
    statement.rollback(start);
    return spot !== undefined;
  };
  if (!fitsWithout(goers)) return undefined;
  let needed = goers;
  for (const each of goers) {
    const rest = needed.filter((other) => other !== each);
    if (fitsWithout(rest)) needed = rest;
  }
  return needed;
}

interface Conflict {
  readonly task: Task;
  readonly isNear: (node: NodeState) => boolean;
}

/** Pods whose anti-affinity conflicts with the task, or that its own anti-affinity matches. */
function conflictsOf({ cluster }: Session, task: Task, budget: TrialBudget): Conflict[] {
  const { terms } = cluster;
  const isKeptApart = task.shape.antiAffinity.length > 0 || terms.matchesOthersAntiAffinity(task);
  if (!isKeptApart || !budget.spend(termCost * cluster.tasks.size)) return [];
  const own = task.shape.antiAffinity.map((each) => ({
    term: terms.ofAffinity(each, task),
    topologyKey: each.topologyKey,
  }));
  const conflicts: Conflict[] = [];
  for (const other of cluster.tasks.values()) {
    if (other.holdings.length === 0 || other === task) continue;
    const keys = own.filter(({ term }) => terms.isMatch(term, other)).map(({ topologyKey }) => topologyKey);
    for (const each of other.shape.antiAffinity) {
      if (terms.isMatch(terms.ofAffinity(each, other), task)) keys.push(each.topologyKey);
    }
    if (keys.length === 0) continue;
    const isNear = (node: NodeState): boolean =>
      keys.some((key) => other.holdings.some((holding) => isSameDomain(holding.node, node, key)));
    conflicts.push({ task: other, isNear });
  }
  return conflicts;
}

function isSameDomain(a: NodeState, b: NodeState, key: string): boolean {
  return a.labels[key] !== undefined && a.labels[key] === b.labels[key];
}

import { type GroupNode, type Job, PodSet, podSetsOf } from "../cluster/job.ts";
import type { Task } from "../cluster/task.ts";

/** Pods to place in one step, all or none, by the pod set they belong to. */
export interface Step {
  readonly tasks: readonly Task[];
  readonly bySet: ReadonlyMap<PodSet, readonly Task[]>;
  /** The job is below its minimum: without this step it does not run at all. */
  readonly isGang: boolean;
}

export function isSatisfied(node: GroupNode): boolean {
  if (node.podSet !== undefined) return node.podSet.allocated >= node.podSet.min;
  return countWhere(node.children, isSatisfied) >= node.minChildren;
}

/** Enough pods exist and are not gated. */
export function isReady(node: GroupNode): boolean {
  if (node.podSet !== undefined) return node.podSet.ready >= node.podSet.min;
  return countWhere(node.children, isReady) >= node.minChildren;
}

/** Some pod set of what must run has fewer pods than it needs. Subgroups beyond the required number do not count. */
export function isBelowMinimum(node: GroupNode): boolean {
  if (node.podSet !== undefined) return node.podSet.used < node.podSet.min;
  return countWhere(node.children, (child) => !isBelowMinimum(child)) < node.minChildren;
}

/**
 * The job, or subgroups beyond the required ones, that run below their minimum. Pods that are being bound do not run
 * yet: a set of BindRequests that stays incomplete is deleted, and its pods stay pending. A job whose remaining pods
 * are all terminating has none.
 */
export function fragmentsOf(node: GroupNode): readonly GroupNode[] {
  if (!isBelowMinimum(node)) return node.children.flatMap(fragmentsOf);
  return podSetsOf(node).some((set) => set.allocated > set.countOf("binding")) ? [node] : [];
}

/**
 * The job has its minimum only with pods that are still being bound. Evicting the others would leave those alone.
 */
export function isStarting(node: GroupNode): boolean {
  return isSatisfied(node) && !hasArrived(node);
}

function hasArrived(node: GroupNode): boolean {
  const { podSet } = node;
  if (podSet !== undefined) return podSet.allocated - podSet.countOf("binding") >= podSet.min;
  return countWhere(node.children, hasArrived) >= node.minChildren;
}

/** Below its minimum, exactly at it, or above: jobs of one priority are placed in this order. */
export function elasticRank(job: Job): number {
  if (!isSatisfied(job.root)) return 0;
  return surplusOf(job.root) > 0 ? 2 : 1;
}

/** The same without its surplus. */
export function coreRank(job: Job): number {
  return Math.min(1, elasticRank(job));
}

/** The surplus of a running job: the number of pods and subgroups above its minimum. */
export function surplusCount({ root }: Job): number {
  return isSatisfied(root) ? surplusOf(root) : 0;
}

function surplusOf(node: GroupNode): number {
  if (node.podSet !== undefined) return node.podSet.allocated - node.podSet.min;
  const satisfied = node.children.filter(isSatisfied);
  let surplus = Math.max(0, satisfied.length - node.minChildren);
  for (const child of node.children) surplus += Math.max(0, isSatisfied(child) ? surplusOf(child) : 0);
  return surplus;
}

/** The steps to try next, best first. A job below its minimum has one step; an elastic job may grow in several ways. */
export function nextSteps(job: Job): readonly Step[] {
  const alone = stepAlone(job);
  if (alone !== undefined) return [alone];
  if (!isSatisfied(job.root)) {
    const tasks = missing(job.root);
    return tasks === undefined || tasks.length === 0 ? [] : [stepOf(tasks, true)];
  }
  return growths(job.root).map((tasks) => stepOf(tasks, false));
}

/** Most jobs have one pod: their only step is created once. */
function stepAlone({ root: { podSet } }: Job): Step | undefined {
  if (podSet === undefined || podSet.min !== 1 || podSet.pending !== 1 || podSet.tasks.size !== 1) return undefined;
  if (podSet.stepAlone === undefined) {
    const tasks = [...podSet.tasks];
    podSet.stepAlone = { tasks, bySet: new Map([[podSet, tasks]]), isGang: true };
  }
  return podSet.stepAlone;
}

export function stepOf(tasks: readonly Task[], isGang: boolean): Step {
  const bySet = new Map<PodSet, Task[]>();
  for (const task of tasks) {
    const set = task.podSet ?? new PodSet("", 0);
    const list = bySet.get(set);
    if (list === undefined) bySet.set(set, [task]);
    else list.push(task);
  }
  return { tasks, bySet, isGang };
}

/** The pods that bring a node to its minimum; undefined when there are not enough. */
function missing(node: GroupNode): Task[] | undefined {
  if (node.podSet !== undefined) {
    const { podSet } = node;
    const wanted = podSet.min - podSet.allocated;
    if (wanted <= 0) return [];
    const pending = pendingOf(podSet, wanted);
    return pending.length < wanted ? undefined : pending;
  }
  let wanted = node.minChildren - countWhere(node.children, isSatisfied);
  const tasks: Task[] = [];
  for (const child of node.children.filter((each) => !isSatisfied(each)).sort(byProgress)) {
    if (wanted <= 0) break;
    const needed = missing(child);
    if (needed === undefined) continue;
    tasks.push(...needed);
    wanted--;
  }
  return wanted > 0 ? undefined : tasks;
}

/** One more pod of a pod set, or one more subgroup with its whole minimum. */
function growths(node: GroupNode): Task[][] {
  if (node.podSet !== undefined) {
    const pending = pendingOf(node.podSet, 1);
    return pending.length > 0 ? [pending] : [];
  }
  const ways: Task[][] = [];
  for (const child of [...node.children].sort(bySubGroupOrder)) {
    if (isSatisfied(child)) {
      ways.push(...growths(child));
      continue;
    }
    const tasks = missing(child);
    if (tasks !== undefined && tasks.length > 0) ways.push(tasks);
  }
  return ways;
}

function pendingOf(set: PodSet, count: number): Task[] {
  if (set.pending === 0) return [];
  if (set.tasks.size === 1) return [...set.tasks];
  const promised: Task[] = [];
  const others: Task[] = [];
  for (const task of set.inOrder()) {
    if (task.status !== "pending") continue;
    // Nominated pods first: another pod of the group must not use their resources.
    if (task.pod.status?.nominatedNodeName !== undefined) promised.push(task);
    else others.push(task);
  }
  return [...promised, ...others].slice(0, count);
}

/** Subgroups that have begun to run first. */
function byProgress(a: GroupNode, b: GroupNode): number {
  return allocatedOf(b) - allocatedOf(a);
}

/**
 * Unsatisfied before satisfied, required before optional, then the one that has less of what it needs, then the name.
 */
export function bySubGroupOrder(a: GroupNode, b: GroupNode): number {
  const [doneA, doneB] = [isSatisfied(a), isSatisfied(b)];
  if (doneA !== doneB) return doneA ? 1 : -1;
  if (!doneA) return 0;
  const [needA, needB] = [thresholdOf(a), thresholdOf(b)];
  if (needA > 0 !== needB > 0) return needA > 0 ? -1 : 1;
  const [haveA, haveB] = [progressOf(a), progressOf(b)];
  const byRatio = needA > 0 ? haveA * needB - haveB * needA : haveA - haveB;
  return byRatio !== 0 ? byRatio : a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

function thresholdOf(node: GroupNode): number {
  return node.podSet !== undefined ? node.podSet.min : node.minChildren;
}

function progressOf(node: GroupNode): number {
  return node.podSet !== undefined ? node.podSet.allocated : countWhere(node.children, isSatisfied);
}

function allocatedOf(node: GroupNode): number {
  if (node.podSet !== undefined) return node.podSet.allocated;
  let sum = 0;
  for (const child of node.children) sum += allocatedOf(child);
  return sum;
}

/**
 * The next surplus to evict from a running job: one pod beyond a minimum, else a subgroup that is not required. Empty
 * if that subgroup is still being bound; undefined if there is no surplus.
 */
export function surplusVictims(node: GroupNode, isVictim: (task: Task) => boolean): readonly Task[] | undefined {
  if (node.podSet !== undefined) {
    const { podSet } = node;
    if (podSet.allocated <= podSet.min) return undefined;
    const last = podSet.inOrder().findLast((task) => isVictim(task));
    return last === undefined ? undefined : [last];
  }
  const children = [...node.children].sort(bySubGroupOrder).reverse();
  for (const child of children) {
    if (!isSatisfied(child)) continue;
    const below = surplusVictims(child, isVictim);
    if (below !== undefined) return below;
  }
  if (countWhere(node.children, isSatisfied) <= node.minChildren) return undefined;
  const spare = children.filter(isSatisfied);
  for (const child of spare) {
    if (isStarting(child)) continue;
    const tasks = allOf(child).filter(isVictim);
    if (tasks.length > 0) return tasks;
  }
  return spare.some(isStarting) ? [] : undefined;
}

/**
 * The pods that are evicted together with a pod, so that its job loses as little as possible: the pod alone, a subgroup
 * that is not required, none while that is still being bound, or undefined if the job needs the pod. `taken` are
 * victims already.
 */
export function spareUnitWith(
  node: GroupNode,
  task: Task,
  isVictim: (task: Task) => boolean,
  taken: ReadonlySet<Task>,
): readonly Task[] | undefined {
  if (node.podSet !== undefined) return hasSpare(node.podSet, taken) ? [task] : undefined;
  const isKept = (child: GroupNode): boolean => isSatisfied(child) && !allOf(child).some((each) => taken.has(each));
  const child = node.children.find((each) => allOf(each).includes(task));
  if (child === undefined) return undefined;
  const below = spareUnitWith(child, task, isVictim, taken);
  if (below !== undefined) return below;
  // One that has lost pods already is none of those that the job needs.
  const others = countWhere(node.children, (each) => each !== child && isKept(each));
  if (others < node.minChildren) return undefined;
  return isStarting(child) ? [] : allOf(child).filter((each) => isVictim(each) && !taken.has(each));
}

function hasSpare(set: PodSet, taken: ReadonlySet<Task>): boolean {
  let left = set.allocated;
  for (const task of taken) if (task.podSet === set) left--;
  return left > set.min;
}

export function allOf(node: GroupNode): Task[] {
  return node.podSet !== undefined ? [...node.podSet.inOrder()] : node.children.flatMap(allOf);
}

function countWhere(nodes: readonly GroupNode[], holds: (node: GroupNode) => boolean): number {
  let count = 0;
  for (const node of nodes) if (holds(node)) count++;
  return count;
}

import type { Cluster } from "../cluster/cluster.ts";
import type { GroupNode, Job } from "../cluster/job.ts";
import { isAllocatedStatus, type Task } from "../cluster/task.ts";
import type { Statement } from "../statement.ts";
import type { Step } from "./gangSteps.ts";
import { allOf, stepOf } from "./gangSteps.ts";
import { anywhere, type Candidates, findSpot, placeTask } from "./placeTask.ts";
import { candidateSets, type TopologyProblem } from "./topologyDomains.ts";

export type GangVerdict =
  | { readonly ok: true; readonly isPipelined: boolean }
  | {
      readonly ok: false;
      /** The number of pods that were placed before the first that failed. */
      readonly placed: number;
      readonly failed: Task | undefined;
      readonly why: TopologyProblem | undefined;
    };

/**
 * Places all pods of a step or none of them. If one of them has to wait for resources to be released, all wait: no pod
 * starts before the whole gang can.
 */
export function placeStep(
  cluster: Cluster,
  statement: Statement,
  job: Job,
  step: Step,
  candidates: Candidates = anywhere,
): GangVerdict {
  const start = statement.checkpoint();
  const failure: Failure = { order: inPlacingOrder(job, step), placed: 0, failed: undefined, why: undefined };
  const place: Placing = (task, set) => placeTask(cluster, statement, task, set);
  if (!placeNode(cluster, statement, job.root, step, candidates, failure, place)) {
    statement.rollback(start);
    const { placed, failed, why } = failure;
    return { ok: false, placed, failed, why };
  }
  const isPipelined = step.tasks.some(({ status }) => status === "pipelined");
  // A pod that fits now waits too, if pods of its gang that were placed earlier have to wait.
  if (mustWaitTogether(job)) statement.pipelineAll(step.tasks);
  return { ok: true, isPipelined };
}

/**
 * Places evicted pods of a job on other nodes, all or none, where their replacements may run too. With a topology that
 * is the domain of the remaining pods, or any domain for all of them if none remains.
 */
export function replaceAll(cluster: Cluster, statement: Statement, job: Job, tasks: readonly Task[]): boolean {
  for (const { shape, podSet } of tasks) {
    // Whether devices are free for a claim that is allocated already is known only after its deallocation. And a pod in
    // no subgroup is never placed.
    if (shape.hasDeviceClaims || podSet === undefined) return false;
  }
  const start = statement.checkpoint();
  const step = stepOf(tasks, false);
  const failure: Failure = { order: tasks, placed: 0, failed: undefined, why: undefined };
  const place: Placing = (task, set) => {
    const spot = findSpot(cluster, task, set);
    if (spot !== undefined) statement.replace(task, spot.node, spot.groups);
    return spot !== undefined;
  };
  if (placeNode(cluster, statement, job.root, step, anywhere, failure, place)) return true;
  statement.rollback(start);
  return false;
}

/** Finds a node among the candidates and places the task on it. */
type Placing = (task: Task, set: Candidates) => boolean;

/** The failure of the attempt that placed the most pods. */
interface Failure {
  readonly order: readonly Task[];
  placed: number;
  failed: Task | undefined;
  why: TopologyProblem | undefined;
}

/** The pods of a step in the order in which they are placed: subgroup after subgroup. */
export function inPlacingOrder({ root }: Job, step: Step): readonly Task[] {
  return membersOf(root, step);
}

function placeNode(
  cluster: Cluster,
  statement: Statement,
  node: GroupNode,
  step: Step,
  within: Candidates,
  failure: Failure,
  place: Placing,
): boolean {
  const ours = membersOf(node, step);
  if (ours.length === 0) return true;
  const running = node.topology === undefined ? [] : allOf(node).filter(({ status }) => isAllocatedStatus[status]);
  const choice = candidateSets(cluster, node.topology, within, ours, running);
  if (!choice.ok) {
    failure.why ??= choice.why;
    if (failure.failed === undefined && ours[0] !== undefined) {
      failure.failed = ours[0];
      failure.placed = failure.order.indexOf(ours[0]);
    }
    return false;
  }
  for (const set of choice.sets) {
    const before = statement.checkpoint();
    if (placeIn(cluster, statement, node, step, ours, set, failure, place)) return true;
    statement.rollback(before);
  }
  return false;
}

function membersOf(node: GroupNode, step: Step): readonly Task[] {
  if (node.podSet !== undefined) return step.bySet.get(node.podSet) ?? [];
  return node.children.flatMap((child) => membersOf(child, step));
}

function placeIn(
  cluster: Cluster,
  statement: Statement,
  node: GroupNode,
  step: Step,
  ours: readonly Task[],
  set: Candidates,
  failure: Failure,
  place: Placing,
): boolean {
  if (node.podSet === undefined) {
    return node.children.every((child) => placeNode(cluster, statement, child, step, set, failure, place));
  }
  for (const task of ours) {
    if (place(task, set)) continue;
    const placed = failure.order.indexOf(task);
    if (failure.failed === undefined || placed > failure.placed) {
      failure.failed = task;
      failure.placed = placed;
    }
    return false;
  }
  return true;
}

/** A pod set would start with fewer pods than its minimum. */
export function mustWaitTogether(job: Job): boolean {
  return job.podSets.some((set) => set.countOf("pipelined") > 0 && set.allocated - set.countOf("pipelined") < set.min);
}

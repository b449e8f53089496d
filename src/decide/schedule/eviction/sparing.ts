import { shareMemoryMiB } from "../../../model/scheduling/gpuRequest.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { GroupNode, Job } from "../cluster/job.ts";
import type { Holding } from "../cluster/nodeState.ts";
import { gpuAt } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import { nowhere } from "../placement/fit.ts";
import { bySubGroupOrder, isSatisfied, type Step, stepOf } from "../placement/gangSteps.ts";
import { placeStep } from "../placement/placeStep.ts";
import { placedRefusal } from "../queues/gates.ts";
import type { Session } from "../session.ts";

/** The number of failed attempts to place a pod of a preemptor with a topology elsewhere: each checks all nodes. */
const failedDetoursMax = 64;

/** A job that loses pods, and its state before that. */
export interface VictimJob {
  readonly job: Job;
  readonly tasks: readonly Task[];
  /** It ran below its minimum: it keeps all its pods or none. */
  readonly wasIncomplete: boolean;
}

/**
 * Keeps victims that the preemptor does not need evicted, the most important first. All jobs get their minimum back
 * before one gets more, so that only surplus pods are evicted in the end where that is possible.
 */
export class Sparing {
  private readonly session: Session;
  private readonly job: Job;
  private readonly step: Step;
  private readonly hasTopology: boolean;
  private readonly ours: ReadonlySet<Task>;
  /** Whether pods of the preemptor may take another place so that a victim can stay. */
  private mayDetour = false;
  private failedDetours = 0;

  constructor(session: Session, job: Job, step: Step, hasTopology: boolean) {
    this.session = session;
    this.job = job;
    this.step = step;
    this.hasTopology = hasTopology;
    this.ours = new Set(step.tasks);
  }

  /** First victims that can stay at once, then those for which the preemptor can be placed elsewhere. */
  spare(victimJobs: readonly VictimJob[]): void {
    for (const mayDetour of [false, true]) {
      this.mayDetour = mayDetour;
      // Devices that were allocated to the preemptor are not released before the rollback.
      if (mayDetour && this.step.tasks.some(({ shape }) => shape.hasDeviceClaims)) return;
      for (const { job, tasks, wasIncomplete } of victimJobs) {
        if (wasIncomplete) this.attempt(() => tasks.every((task) => !this.isVictim(task) || this.stays(task)));
        else this.attempt(() => this.complete(job.root));
      }
      for (const { job, wasIncomplete } of victimJobs) {
        if (wasIncomplete || !isSatisfied(job.root)) continue;
        this.grow(job.root);
        for (const task of job.strays) if (this.isVictim(task)) this.attempt(() => this.stays(task));
      }
    }
  }

  private attempt(spares: () => boolean): boolean {
    const { statement } = this.session;
    const before = statement.checkpoint();
    if (spares() && placedRefusal(this.job) === undefined) return true;
    statement.rollback(before);
    return false;
  }

  /** Gives a job or subgroup its minimum back. */
  private complete(node: GroupNode): boolean {
    if (isSatisfied(node)) return true;
    const { podSet } = node;
    if (podSet === undefined) {
      for (const child of [...node.children].sort(bySubGroupOrder)) {
        if (isSatisfied(node)) break;
        this.attempt(() => this.complete(child));
      }
      return isSatisfied(node);
    }
    for (const task of podSet.inOrder()) {
      if (podSet.allocated >= podSet.min) break;
      if (this.isVictim(task)) this.attempt(() => this.stays(task));
    }
    return isSatisfied(node);
  }

  /** Gives it its surplus back, pod by pod and subgroup by subgroup. */
  private grow(node: GroupNode): void {
    for (const child of [...node.children].sort(bySubGroupOrder)) {
      if (isSatisfied(child) || this.attempt(() => this.complete(child))) this.grow(child);
    }
    for (const task of node.podSet?.inOrder() ?? []) {
      if (this.isVictim(task)) this.attempt(() => this.stays(task));
    }
  }

  private isVictim(task: Task): boolean {
    return this.session.statement.evictionOf(task) !== undefined;
  }

  private stays(task: Task): boolean {
    const { cluster, statement } = this.session;
    const [holding] = task.holdings;
    // Its devices may be allocated to another pod.
    if (holding === undefined || task.shape.hasDeviceClaims) return false;
    const moved: Task[] = [];
    if (!canStay(cluster, task, holding)) {
      if (!this.mayDetour) return false;
      const ours = [...holding.node.holdings].map(({ holder }) => holder as Task).filter((each) => this.ours.has(each));
      if (!ours.some((each) => this.mayFitElsewhere(each))) return false;
      for (const each of ours.reverse()) {
        statement.unplace(each);
        moved.push(each);
        if (canStay(cluster, task, holding)) break;
      }
      if (!canStay(cluster, task, holding)) return false;
    }
    statement.unevict(task);
    if (moved.length === 0 || placeStep(cluster, statement, this.job, stepOf(moved, this.step.isGang)).ok) return true;
    this.failedDetours++;
    return false;
  }

  /** A quick check: whether any node has resources for one more pod of its shape. */
  private mayFitElsewhere({ shape }: Task): boolean {
    if (this.hasTopology) return this.failedDetours < failedDetoursMax;
    return !shape.isLocal || this.session.cluster.fit.best(shape) !== nowhere;
  }
}

/** Whether the former resources of the task are neither in use nor nominated. */
function canStay({ fit, table }: Cluster, { shape }: Task, { node, groups }: Holding): boolean {
  if (groups.length === 0) return fit.fitsLater(shape, node.index);
  const memory = shareMemoryMiB(shape.gpu, node.gpuMemoryMiB);
  let devices = 0;
  for (const id of groups) {
    const group = node.groups.get(id);
    if (group === undefined || group.laterMiB + memory > node.gpuMemoryMiB) return false;
    if (group.laterHolders === 0) devices++;
  }
  if ((table.later[gpuAt]?.[node.index] ?? 0) < devices) return false;
  return shape.places.every(
    (place, k) => place === gpuAt || (table.later[place]?.[node.index] ?? 0) >= (shape.amounts[k] ?? 0),
  );
}

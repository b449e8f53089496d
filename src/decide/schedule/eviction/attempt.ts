import type { GpuRequest } from "../../../model/scheduling/gpuRequest.ts";
import type { PodGroupSpec } from "../../../model/scheduling/podGroup.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job, PodSet } from "../cluster/job.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { sum } from "../cluster/resources.ts";
import type { Step } from "../placement/gang.ts";
import { requestOf } from "../queues/gates.ts";
import { isWithin } from "../queues/queueShares.ts";
import type { EvictingAction } from "./searchBudget.ts";

/**
 * What a job was tried with. After it has failed, a job that could only succeed where this one would have succeeded is
 * not tried.
 */
export class Attempt {
  private readonly cluster: Cluster;
  private readonly job: Job;
  private readonly step: Step;
  private readonly action: EvictingAction;
  private readonly structure: string;
  /** The one shape of its pods; undefined where they differ. */
  private readonly shape: PodShape | undefined;
  /**
   * Whether others are as hopeless as it is. A job that runs in part may be bound to where it runs, and for itself it
   * is not moved: for others that is different.
   */
  readonly tellsOfOthers: boolean;
  private knownReach: string | undefined;

  constructor(cluster: Cluster, job: Job, step: Step, action: EvictingAction) {
    this.cluster = cluster;
    this.job = job;
    this.step = step;
    this.action = action;
    this.structure = structureOf(job.spec);
    const [first] = step.tasks;
    this.shape = step.tasks.every(({ shape }) => shape === first?.shape) ? first?.shape : undefined;
    this.tellsOfOthers = job.allocatedCount === 0 || (this.structure === "" && action !== "consolidation");
  }

  /** Every pod of the other has one here, of the same subgroup, that asks for no less: where these fit, those fit. */
  isNoEasierThan(failure: Attempt): boolean {
    const { job, step, shape } = this;
    if (job.priority !== failure.job.priority || job.isPreemptible !== failure.job.isPreemptible) return false;
    if (job.mayPreempt !== failure.job.mayPreempt || step.tasks.length < failure.step.tasks.length) return false;
    // For consolidation the queue does not matter.
    if (this.action !== "consolidation" && job.queueName !== failure.job.queueName) return false;
    if (this.structure !== failure.structure) return false;
    // What claims count for may differ from pod to pod, but those have shapes of their own.
    const isSame = shape !== undefined && shape === failure.shape;
    if (this.structure === "") {
      if (isSame) return true;
      if (shape !== undefined && failure.shape !== undefined) {
        return asksForNoLess(shape, failure.shape) && this.reach === failure.reach;
      }
    }
    for (const [set, tasks] of failure.step.bySet) {
      const ours = this.shapesOf(set);
      if (ours.length < tasks.length) return false;
      const theirs = tasks.map((task) => task.shape);
      if (!isSame && !covers(ours, theirs)) return false;
    }
    return isSame || this.reach === failure.reach;
  }

  private shapesOf({ name }: PodSet): PodShape[] {
    for (const [set, tasks] of this.step.bySet) if (set.name === name) return tasks.map(({ shape }) => shape);
    return [];
  }

  /**
   * Whose pods reclaim may take depends on what is asked for at all, and on whether the queues would stay within their
   * quotas.
   */
  private get reach(): string {
    if (this.action !== "reclaim") return "";
    if (this.knownReach === undefined) {
      const request = requestOf(this.cluster, this.step.tasks);
      const levels = [...(this.job.queue?.path() ?? [])];
      this.knownReach = JSON.stringify([
        request.map((each) => each > 0),
        levels.map(({ allocated, deserved }) => isWithin(sum(allocated, request), deserved)),
      ]);
    }
    return this.knownReach;
  }
}

/**
 * Whether each of the smaller has one of the larger for itself: its like, or any. Where it matters which, the answer is
 * no.
 */
function covers(larger: readonly PodShape[], smaller: readonly PodShape[]): boolean {
  const spare = new Map<PodShape, number>();
  for (const shape of larger) spare.set(shape, (spare.get(shape) ?? 0) + 1);
  const rest = new Set<PodShape>();
  for (const shape of smaller) {
    const count = spare.get(shape) ?? 0;
    if (count === 0) rest.add(shape);
    else if (count === 1) spare.delete(shape);
    else spare.set(shape, count - 1);
  }
  // Every one that is left is no smaller than any, so that any assignment will do; there are enough.
  for (const small of rest) for (const large of spare.keys()) if (!asksForNoLess(large, small)) return false;
  return true;
}

function asksForNoLess(large: PodShape, small: PodShape): boolean {
  if (large === small) return true;
  if (large.limits !== small.limits || large.gpuMakers !== small.gpuMakers) return false;
  if (large.asksForMig !== small.asksForMig) return false;
  // Others look at the labels of such a pod, and it looks at them itself.
  if (!large.isLocal || !small.isLocal || !hasNoLessGpu(large.gpu, small.gpu)) return false;
  return small.places.every((place, k) => {
    const at = large.places.indexOf(place);
    return at >= 0 && (large.amounts[at] as number) >= (small.amounts[k] as number);
  });
}

/** Parts of GPUs, whole ones and none are found in different ways: they say nothing about each other. */
function hasNoLessGpu(large: GpuRequest, small: GpuRequest): boolean {
  if (large.type === "none" && small.type === "none") return true;
  if (large.type === "fraction" && small.type === "fraction") {
    return large.devices >= small.devices && large.shareMilli >= small.shareMilli;
  }
  if (large.type === "memory" && small.type === "memory") {
    return large.devices >= small.devices && large.memoryMiB >= small.memoryMiB;
  }
  return large.type === "whole" && small.type === "whole" && large.devices >= small.devices;
}

const structures = new WeakMap<PodGroupSpec, string>();

function structureOf(spec: PodGroupSpec): string {
  const { topologyConstraint, subGroups, minSubGroup } = spec;
  if (topologyConstraint === undefined && subGroups === undefined && minSubGroup === undefined) return "";
  let known = structures.get(spec);
  if (known === undefined) {
    known = JSON.stringify([topologyConstraint, subGroups, minSubGroup]);
    structures.set(spec, known);
  }
  return known;
}

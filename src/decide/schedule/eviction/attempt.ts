import type { GpuRequest } from "../../../model/scheduling/gpuRequest.ts";
import type { PodGroupSpec } from "../../../model/scheduling/podGroup.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job, PodSet } from "../cluster/job.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { sum } from "../cluster/resources.ts";
import type { Step } from "../placement/gangSteps.ts";
import { requestOf } from "../queues/gates.ts";
import { isWithin } from "../queues/queueShares.ts";
import type { EvictingAction } from "./searchBudget.ts";

/**
 * The requests of a job whose victim search failed. A job that could only succeed where this one would have succeeded
 * is not tried.
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
   * Whether the failure holds for other jobs. A job that runs already may be pinned to its topology domain, and its own
   * pods are not moved for it; for other jobs that differs.
   */
  readonly appliesToOthers: boolean;
  private knownReach: string | undefined;

  constructor(cluster: Cluster, job: Job, step: Step, action: EvictingAction) {
    this.cluster = cluster;
    this.job = job;
    this.step = step;
    this.action = action;
    this.structure = structureOf(job.spec);
    const [first] = step.tasks;
    this.shape = step.tasks.every(({ shape }) => shape === first?.shape) ? first?.shape : undefined;
    this.appliesToOthers = job.allocatedCount === 0 || (this.structure === "" && action !== "consolidation");
  }

  /** Attempts with different keys are never compared. */
  get kind(): string {
    const { priority, isPreemptible, mayPreempt, queueName } = this.job;
    return `${priority} ${isPreemptible} ${mayPreempt} ${this.action === "consolidation" ? "" : queueName}`;
  }

  /** What the shapes of its pods require of nodes, in order: a shape is compared with those that require the same. */
  get limits(): readonly string[] {
    if (this.shape !== undefined) return [this.shape.limits];
    return [...new Set(this.step.tasks.map(({ shape }) => shape.limits))].sort();
  }

  /** Whether every pod of the failed job has a counterpart here, of the same subgroup, that requests no less. */
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
   * The victims of reclaim depend on the requested resources, and on whether the queues would stay within their quotas.
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
 * The failures of one action, by what must be equal in order that one covers a job: jobs of many different shapes cost
 * one look-up each. A failure is kept under the first of its limits, which a job that it covers has too.
 */
export class FailedAttempts {
  private readonly byLimits = new Map<string, Map<string, Attempt[]>>();

  add(failure: Attempt): void {
    const [first = ""] = failure.limits;
    let byKind = this.byLimits.get(first);
    if (byKind === undefined) {
      byKind = new Map();
      this.byLimits.set(first, byKind);
    }
    const others = byKind.get(failure.kind) ?? [];
    // What those would cover, this one covers.
    const kept = others.filter((other) => !other.isNoEasierThan(failure));
    byKind.set(failure.kind, [...kept, failure]);
  }

  /** Whether the job could only succeed where one that failed would have succeeded. */
  cover(attempt: Attempt): boolean {
    const { kind } = attempt;
    return attempt.limits.some((each) =>
      this.byLimits
        .get(each)
        ?.get(kind)
        ?.some((failure) => attempt.isNoEasierThan(failure)),
    );
  }
}

/**
 * Whether each of the smaller shapes can be assigned one of the larger shapes for itself. If the assignment is
 * ambiguous, the answer is no.
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
  // Each of the remaining larger shapes is no smaller than any smaller one, so any assignment is valid.
  for (const small of rest) for (const large of spare.keys()) if (!asksForNoLess(large, small)) return false;
  return true;
}

function asksForNoLess(large: PodShape, small: PodShape): boolean {
  if (large === small) return true;
  if (large.limits !== small.limits || large.gpuMakers !== small.gpuMakers) return false;
  if (large.asksForMig !== small.asksForMig) return false;
  // Terms of other pods, and its own, match the labels of such a pod.
  if (!large.isLocal || !small.isLocal || !hasNoLessGpu(large.gpu, small.gpu)) return false;
  return small.places.every((place, k) => {
    const at = large.places.indexOf(place);
    return at >= 0 && (large.amounts[at] as number) >= (small.amounts[k] as number);
  });
}

/** GPU shares, whole GPUs and none are placed in different ways, and cannot be compared. */
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

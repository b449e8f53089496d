import { gpuMilliOf } from "../../../model/scheduling/gpuRequest.ts";
import { unlimited } from "../../../model/scheduling/queue.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import { addTo, type Vector, zeroVector } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import { firstBeyond } from "./queueShares.ts";
import type { QueueState } from "./queueTree.ts";

export type GateRefusal = {
  readonly reason: "OverLimit" | "NonPreemptibleOverQuota";
  readonly queue: QueueState;
  /** Which of gpu, cpu, memory. */
  readonly resource: number;
  readonly requested: Readonly<Vector>;
};

/** Checks limits, and quotas for non-preemptible jobs, of the queue and all its ancestors. */
export function gateRefusal(
  queue: QueueState,
  isPreemptible: boolean,
  requested: Readonly<Vector>,
): GateRefusal | undefined {
  for (const each of queue.path()) {
    const overLimit = firstBeyond(each.allocated, requested, each.limit);
    if (overLimit !== undefined) return { reason: "OverLimit", queue: each, resource: overLimit, requested };
    if (isPreemptible) continue;
    const overQuota = firstBeyond(each.allocatedNonPreemptible, requested, each.deserved);
    if (overQuota !== undefined)
      return { reason: "NonPreemptibleOverQuota", queue: each, resource: overQuota, requested };
  }
  return undefined;
}

/**
 * The request before placement: GPU memory counts as a portion of the largest GPU, which is the smallest portion.
 */
export function requestOf(cluster: Cluster, tasks: readonly Task[]): Vector {
  const { mostMiB } = cluster.gpuMemoryRange();
  const vector = zeroVector();
  for (const task of tasks) addTo(vector, cluster.vectorOf(task, mostMiB));
  return vector;
}

/**
 * The queue whose bounds the task would exceed on a node: the same memory is a larger portion of a smaller GPU.
 * Undefined if the task requests no GPU memory, or no queue is bounded.
 */
export function memoryGate({ job, shape }: Task): ((node: NodeState) => QueueState | undefined) | undefined {
  if (shape.gpu.type !== "memory" || job?.queue === undefined) return undefined;
  const { gpu } = shape;
  const { isPreemptible, queue: leaf } = job;
  const bounds: { queue: QueueState; leftMilli: number }[] = [];
  for (const queue of leaf.path()) {
    const [limit, deserved] = [queue.limit[0], queue.deserved[0]];
    if (limit !== unlimited) bounds.push({ queue, leftMilli: limit - queue.allocated[0] });
    if (!isPreemptible && deserved !== unlimited) {
      bounds.push({ queue, leftMilli: deserved - queue.allocatedNonPreemptible[0] });
    }
  }
  if (bounds.length === 0) return undefined;
  return ({ gpuMemoryMiB }) => {
    const milli = gpuMilliOf(gpu, gpuMemoryMiB);
    return bounds.find(({ leftMilli }) => milli > leftMilli)?.queue;
  };
}

/** The check after placement, where GPU memory counts as a portion of the GPUs of the chosen nodes. */
export function placedRefusal(job: Job): GateRefusal | undefined {
  const nothing = zeroVector();
  for (const queue of job.queue?.path() ?? []) {
    for (let r = 0; r < 3; r++) {
      const limit = queue.limit[r] as number;
      if (limit !== unlimited && (queue.allocated[r] as number) > limit && (job.allocated[r] as number) > 0) {
        return { reason: "OverLimit", queue, resource: r, requested: nothing };
      }
      const deserved = queue.deserved[r] as number;
      const isOver = deserved !== unlimited && (queue.allocatedNonPreemptible[r] as number) > deserved;
      if (!job.isPreemptible && isOver && (job.allocated[r] as number) > 0) {
        return { reason: "NonPreemptibleOverQuota", queue, resource: r, requested: nothing };
      }
    }
  }
  return undefined;
}

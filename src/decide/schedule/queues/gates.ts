import { gpuMilliOf } from "../../../model/scheduling/gpuRequest.ts";
import { unlimited } from "../../../model/scheduling/queue.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import { addTo, type Vector, zeroVector } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import { firstBeyond } from "./queueShares.ts";
import type { QueueState } from "./queueTree.ts";

/** What a queue allows: never beyond a limit, and work that cannot be evicted never beyond the quota. */

export type GateRefusal = {
  readonly reason: "OverLimit" | "NonPreemptibleOverQuota";
  readonly queue: QueueState;
  /** Which of gpu, cpu, memory. */
  readonly resource: number;
  readonly requested: Readonly<Vector>;
};

/** Checked at the leaf and at every queue above it. */
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
 * Before placement: a request for GPU memory is taken as the part of the largest GPU that it would be, which is the
 * most lenient.
 */
export function requestOf(cluster: Cluster, tasks: readonly Task[]): Vector {
  const { mostMiB } = cluster.gpuMemoryRange();
  const vector = zeroVector();
  for (const task of tasks) addTo(vector, cluster.vectorOf(task, mostMiB));
  return vector;
}

/**
 * Which queue a node would take beyond its bounds: the same memory is a larger part of a smaller GPU. Undefined for
 * every node when the task asks for no memory of GPUs, or nothing bounds it.
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

/** After placement, where requests for GPU memory have become parts of the GPUs of their nodes. */
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

import { assert } from "../../../model/assert.ts";
import type { Job } from "../cluster/job.ts";
import { addTo, type Vector } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";

/**
 * Replaces the amounts that queues count for a task, in the job's queue and all its ancestors, in total and by type of
 * GPU. Returns the new amounts.
 */
export function recharge(task: Task, vector: Vector | undefined): Vector | undefined {
  const { job, counted } = task;
  if (job === undefined) return undefined;
  if (counted !== undefined) {
    addTo(job.allocated, counted, -1);
    job.queue?.charge(counted, job.isPreemptible, -1);
    chargeType(job, task.countedType, -counted[0]);
  }
  if (vector !== undefined) {
    addTo(job.allocated, vector);
    job.queue?.charge(vector, job.isPreemptible, 1);
    task.countedType = task.holdings.at(-1)?.node.gpuType ?? "";
    chargeType(job, task.countedType, vector[0]);
  }
  assert(isNotNegative(job.allocated), () => `job ${job.id} has ${job.allocated.join()}`);
  return vector;
}

/** Portions of a GPU's memory are not exact, so tiny negative sums are possible. */
function isNotNegative(amounts: Readonly<Vector>): boolean {
  return amounts.every((amount) => amount > -0.5);
}

function chargeType(job: Job, type: string, gpuMilli: number): void {
  if (gpuMilli === 0) return;
  job.allocatedByType.set(type, (job.allocatedByType.get(type) ?? 0) + gpuMilli);
  job.queue?.chargeType(type, gpuMilli, job.isPreemptible, 1);
}

/** Adds the allocated resources of a job to its queue, or removes them. */
export function chargeJob(job: Job, times: number): void {
  job.queue?.charge(job.allocated, job.isPreemptible, times);
  for (const [type, gpuMilli] of job.allocatedByType) job.queue?.chargeType(type, gpuMilli, job.isPreemptible, times);
}

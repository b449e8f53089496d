import type { PodGroupResourcesStatus } from "../../../model/scheduling/podGroup.ts";
import type { QueueStatus } from "../../../model/scheduling/queue.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import { addTo, sum, type Vector, zeroVector } from "../cluster/resources.ts";
import { amountsOf } from "../explain/amountWords.ts";
import { ClassAmounts } from "./classAmounts.ts";
import type { QueueState } from "./queueTree.ts";

const gpuMemoryName = "run.ai/gpu.memory";

export function groupResources(cluster: Cluster, job: Job): PodGroupResourcesStatus {
  let memoryMiB = 0;
  for (const { status, shape } of job.tasks) {
    const isOver = status === "succeeded" || status === "failed";
    if (!isOver && shape.gpu.type === "memory") memoryMiB += shape.gpu.memoryMiB * shape.gpu.devices;
  }
  const classes = new ClassAmounts();
  for (const task of job.tasks) if (task.shape.hasDeviceClaims) classes.add(cluster, task);
  const requested = shown(sum(job.allocated, cluster.pendingVector(job)), classes.requested);
  if (memoryMiB > 0) requested[gpuMemoryName] = `${memoryMiB}Mi`;
  return {
    requested,
    allocated: shown(job.allocated, classes.allocated),
    allocatedNonPreemptible: job.isPreemptible ? {} : shown(job.allocated, classes.allocated),
  };
}

/** The requested resources of every queue: allocated, and pending in it or its descendants. */
export function queueRequests(cluster: Cluster): Map<QueueState, Vector> {
  const requests = new Map<QueueState, Vector>();
  for (const queue of cluster.queues.byName.values()) requests.set(queue, [...queue.allocated]);
  for (const { queue: leaf, vector } of cluster.waitingJobs.requests(cluster)) {
    for (const queue of leaf.path()) addTo(requests.get(queue) ?? zeroVector(), vector);
  }
  return requests;
}

export function queueStatus(
  queue: QueueState,
  requested: Readonly<Vector>,
  classes: ClassAmounts = new ClassAmounts(),
): QueueStatus {
  const children = queue.children.map(({ name }) => name).sort();
  return {
    ...(children.length > 0 && { childQueues: children }),
    allocated: shown(queue.allocated, classes.allocated),
    allocatedNonPreemptible: shown(queue.allocatedNonPreemptible, classes.allocatedNonPreemptible),
    requested: shown(requested, classes.requested),
  };
}

/** Non-zero amounts. GPUs of claims are listed under the names of their device classes only. */
function shown(vector: Readonly<Vector>, classes: ReadonlyMap<string, number>): Record<string, string> {
  const [gpuMilli, ...others] = vector;
  let claimed = 0;
  for (const gpus of classes.values()) claimed += gpus;
  const amounts = amountsOf([Math.max(0, gpuMilli - claimed * 1000), ...others]);
  for (const [name, gpus] of [...classes].sort(([a], [b]) => (a < b ? -1 : 1))) amounts[name] = String(gpus);
  return Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount !== "0"));
}

import type { Cluster } from "../cluster/cluster.ts";
import { isAllocatedStatus, type Task } from "../cluster/task.ts";
import type { QueueState } from "./queueTree.ts";

/**
 * Allocated and requested GPUs of claims by device class, as KAI shows them in the status of queues and groups.
 */
export class ClassAmounts {
  readonly allocated = new Map<string, number>();
  readonly allocatedNonPreemptible = new Map<string, number>();
  readonly requested = new Map<string, number>();

  add(cluster: Cluster, task: Task): void {
    const isAllocated = isAllocatedStatus[task.status];
    if (!isAllocated && task.status !== "pending") return;
    for (const [name, gpus] of cluster.devices.gpuClassesOf(task)) {
      addTo(this.requested, name, gpus);
      if (!isAllocated) continue;
      addTo(this.allocated, name, gpus);
      if (task.job?.isPreemptible === false) addTo(this.allocatedNonPreemptible, name, gpus);
    }
  }
}

/** The amounts of every queue with its descendants. Queues without claims are not included. */
export function classesOfQueues(cluster: Cluster): ReadonlyMap<QueueState, ClassAmounts> {
  const byQueue = new Map<QueueState, ClassAmounts>();
  if (!cluster.shapes.haveClaims) return byQueue;
  for (const task of cluster.tasks.values()) {
    if (!task.shape.hasDeviceClaims) continue;
    for (const queue of task.job?.queue?.path() ?? []) {
      const known = byQueue.get(queue) ?? new ClassAmounts();
      byQueue.set(queue, known);
      known.add(cluster, task);
    }
  }
  return byQueue;
}

function addTo(amounts: Map<string, number>, name: string, by: number): void {
  amounts.set(name, (amounts.get(name) ?? 0) + by);
}

import type { Cluster } from "../cluster/cluster.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import { gpuAt } from "../cluster/resources.ts";

/**
 * Free GPUs of healthy nodes after terminating pods have released theirs, including free portions of shared GPUs, in
 * thousandths.
 */
export function freeGpuMilli({ table }: Cluster, nodes: Iterable<NodeState>): number {
  let sumMilli = 0;
  for (const node of nodes) {
    if (!node.isHealthy) continue;
    sumMilli += Math.max(0, (table.later[gpuAt]?.[node.index] ?? 0) * 1000);
    for (const { laterMiB } of node.groups.values()) {
      sumMilli += Math.max(0, Math.floor(((node.gpuMemoryMiB - laterMiB) * 1000) / node.gpuMemoryMiB));
    }
  }
  return sumMilli;
}

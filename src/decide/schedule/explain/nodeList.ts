import { labelKeys } from "../../../model/scheduling/keys.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { gpuAt } from "../cluster/resources.ts";
import { isAllocatedStatus } from "../cluster/task.ts";
import { gpuText } from "./amountWords.ts";

/** One node with its GPUs. */
export interface NodeLine {
  readonly name: string;
  readonly type: string;
  readonly state: "Ready" | "NotReady" | "Cordoned";
  /** GPUs that the node reports, healthy or not. */
  readonly gpus: number;
  readonly free: number;
  /** GPUs that cannot be allocated. */
  readonly unhealthy: number;
  /** Pods with GPUs on the node. */
  readonly pods: readonly { readonly name: string; readonly gpus: string }[];
}

/** The nodes with GPUs, by name; with `isAll` also those without. */
export function nodeList(cluster: Cluster, nowMs: number, isAll = false): NodeLine[] {
  cluster.refresh(nowMs);
  cluster.beginDevices(nowMs);
  const podsOf = new Map<string, { name: string; gpus: string }[]>();
  const { leastMiB } = cluster.gpuMemoryRange();
  for (const task of cluster.tasks.values()) {
    if (!isAllocatedStatus[task.status] || task.isReservation) continue;
    const milli = cluster.vectorOf(task, leastMiB)[0];
    const name = task.holdings[0]?.node.name;
    if (milli === 0 || name === undefined) continue;
    podsOf.set(name, [...(podsOf.get(name) ?? []), { name: task.key, gpus: gpuText(milli) }]);
  }
  const lines: NodeLine[] = [];
  for (const { node, labels, capacity, index, isHealthy } of cluster.table.nodes) {
    if (node === undefined) continue;
    const usable = capacity[gpuAt] ?? 0;
    const reported = Number(node.status?.capacity?.["nvidia.com/gpu"] ?? 0);
    const gpus = Math.max(usable, Number.isFinite(reported) ? reported : 0);
    if (gpus === 0 && !isAll) continue;
    const isCordoned = node.spec?.unschedulable === true;
    const { name } = node.metadata;
    lines.push({
      name,
      type: labels[labelKeys.gpuProduct] ?? (gpus > 0 ? "GPU" : "-"),
      state: isCordoned ? "Cordoned" : isHealthy ? "Ready" : "NotReady",
      gpus,
      free: isCordoned || !isHealthy ? 0 : Math.max(0, cluster.table.idle[gpuAt]?.[index] ?? 0),
      unhealthy: isHealthy ? gpus - usable : gpus,
      pods: (podsOf.get(name) ?? []).sort((a, b) => (a.name < b.name ? -1 : 1)),
    });
  }
  const order = new Intl.Collator("en", { numeric: true });
  return lines.sort((a, b) => order.compare(a.name, b.name));
}

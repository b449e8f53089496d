import type { QueueRow, QueuesPart } from "../../model/window/parts.ts";
import type { Cluster } from "../schedule/cluster/cluster.ts";
import { orphanText } from "../schedule/explain/explainQueue.ts";
import { QueueState } from "../schedule/queues/queueTree.ts";

/** The tree of queues with their GPUs, parents before children, as the last cycle left it. */
export function queuesOf(clusters: readonly Cluster[]): QueuesPart {
  const rows = clusters.flatMap(rowsOf);
  const total = clusters.reduce((sum, cluster) => sum + totalOf(cluster), 0);
  return { queues: [...new Map(rows.map((row) => [row.name, row])).values()], total };
}

/** Of a cluster whose nodes were never counted nothing can be divided. */
function totalOf(cluster: Cluster): number {
  return cluster.table.nodes.length === 0 ? 0 : cluster.total()[0];
}

function rowsOf(cluster: Cluster): QueueRow[] {
  const pending = new Map<string, number>();
  for (const job of cluster.waiting) {
    for (const { name } of job.queue?.path() ?? []) pending.set(name, (pending.get(name) ?? 0) + 1);
  }
  const rows: QueueRow[] = [];
  const walk = (queues: readonly QueueState[], depth: number): void => {
    for (const queue of [...queues].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      rows.push(rowOf(queue, { depth, pending: pending.get(queue.name) ?? 0, note: "" }));
      walk(queue.children, depth + 1);
    }
  };
  walk(cluster.queues.roots, 0);
  for (const [name, { queue }] of [...cluster.queues.orphans].sort(([a], [b]) => (a < b ? -1 : 1))) {
    rows.push(rowOf(new QueueState(queue), { depth: 0, pending: 0, note: orphanText(cluster, name) }));
  }
  return rows;
}

function rowOf(queue: QueueState, at: Pick<QueueRow, "depth" | "pending" | "note">): QueueRow {
  return {
    name: queue.name,
    parent: queue.parent?.name ?? "",
    priority: queue.priority,
    weight: queue.weight[0],
    quota: queue.deserved[0],
    limit: queue.limit[0],
    fairShare: Math.round(queue.fairShare[0]),
    allocated: Math.round(queue.allocated[0]),
    allocatedNonPreemptible: Math.round(queue.allocatedNonPreemptible[0]),
    requested: Math.round(queue.request[0]),
    isLeaf: queue.isLeaf,
    ...at,
  };
}

import { unlimited } from "../../../model/scheduling/queue.ts";
import { addTo, type Vector, zeroVector } from "../cluster/resources.ts";
import { divide } from "./fairShare.ts";
import type { QueueState, QueueTree } from "./queueTree.ts";

/** Surplus is distributed in whole GPUs, thousandths of a core and bytes. */
const units: Readonly<Vector> = [1000, 1, 1];

/** Computes the fair share of every queue from the top down: children divide the fair share of their parent. */
export function shareOut(
  tree: QueueTree,
  total: Readonly<Vector>,
  pending: Iterable<{ queue: QueueState; vector: Readonly<Vector> }>,
  kValue: number,
): void {
  for (const queue of tree.byName.values()) queue.request = [...queue.allocated];
  for (const { queue, vector } of pending) for (const each of queue.path()) addTo(each.request, vector);
  shareLevel(tree.roots, total, kValue);
}

function shareLevel(queues: readonly QueueState[], total: Readonly<Vector>, kValue: number): void {
  if (queues.length === 0) return;
  for (let r = 0; r < 3; r++) {
    const shares = divide(
      total[r] as number,
      queues.map((queue) => ({
        uid: queue.uid,
        createdMs: queue.createdMs,
        priority: queue.priority,
        deserved: queue.deserved[r] as number,
        limit: queue.limit[r] as number,
        weight: queue.weight[r] as number,
        request: queue.request[r] as number,
        usage: queue.usage[r] as number,
      })),
      { unit: units[r] as number, kValue },
    );
    for (const [at, queue] of queues.entries()) queue.fairShare[r] = shares[at] ?? 0;
  }
  for (const queue of queues) shareLevel(queue.children, queue.fairShare, kValue);
}

/** The larger of quota and fair share, up to the limit; -1 is unlimited. */
export function allocatable(queue: QueueState): Vector {
  const shares = zeroVector();
  for (let r = 0; r < 3; r++) {
    const limit = queue.limit[r] as number;
    const deserved = queue.deserved[r] as number;
    if (deserved === unlimited) {
      shares[r] = limit;
      continue;
    }
    const share = Math.max(deserved, queue.fairShare[r] as number);
    shares[r] = limit === unlimited ? share : Math.min(limit, share);
  }
  return shares;
}

/** The dominant resource share: the largest ratio of allocated to allocatable resources. */
export function dominantShare(queue: QueueState, allocated: Readonly<Vector>, total: Readonly<Vector>): number {
  const bounds = allocatable(queue);
  let most = 0;
  for (let r = 0; r < 3; r++) {
    const has = allocated[r] as number;
    const of = bounds[r] as number;
    const share =
      of === unlimited ? (total[r] === 0 ? 0 : has / (total[r] as number)) : of === 0 ? has * 1000 : has / of;
    most = Math.max(most, share);
  }
  return most;
}

/** Whether no resource exceeds the bound; -1 is unlimited. */
export function isWithin(amounts: Readonly<Vector>, bound: Readonly<Vector>): boolean {
  for (let r = 0; r < 3; r++) {
    if (bound[r] !== unlimited && (amounts[r] as number) > (bound[r] as number)) return false;
  }
  return true;
}

/** The first requested resource that would exceed the bound. */
export function firstBeyond(
  has: Readonly<Vector>,
  requested: Readonly<Vector>,
  bound: Readonly<Vector>,
): number | undefined {
  for (let r = 0; r < 3; r++) {
    const more = requested[r] as number;
    if (more > 0 && bound[r] !== unlimited && (has[r] as number) + more > (bound[r] as number)) return r;
  }
  return undefined;
}

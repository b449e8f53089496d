import { unlimited } from "../../../model/scheduling/queue.ts";

/**
 * A queue in the division of a resource among siblings: first the quota of each, then the surplus by weight, priority
 * after priority. Whole units are distributed first; the rest of the rounding goes to the largest remainders.
 */
export interface Share {
  readonly uid: string;
  readonly createdMs: number;
  readonly priority: number;
  /** -1 is unlimited, as is a limit of -1. */
  readonly deserved: number;
  readonly limit: number;
  readonly weight: number;
  readonly request: number;
  /** Historical usage as a portion of the cluster, 0 to 1. */
  readonly usage: number;
}

export interface DivideOptions {
  /** The unit in which surplus is distributed: a whole GPU is 1000 thousandths. */
  readonly unit: number;
  readonly kValue: number;
}

/**
 * The fair shares, in the order of the queues. Deserved amounts are not scaled down: their sum may exceed the total.
 */
export function divide(total: number, queues: readonly Share[], { unit, kValue }: DivideOptions): number[] {
  const shares = queues.map((queue) => {
    const deserved = queue.deserved === unlimited ? total : queue.deserved;
    return Math.min(deserved, requestable(queue));
  });
  let left = total;
  for (const share of shares) left -= share;
  if (left <= 0) return shares;
  const priorities = [...new Set(queues.map(({ priority }) => priority))].sort((a, b) => b - a);
  const remainders = new Map<number, number>();
  // In order of UID, so that the queue that gets the last unit does not depend on the order of input.
  const order = [...queues.keys()].sort((a, b) => compareText(queues[a]?.uid, queues[b]?.uid));
  for (const priority of priorities) {
    const ours = order.filter((at) => queues[at]?.priority === priority);
    left = surplus(left, queues, shares, ours, remainders, { unit, kValue });
  }
  for (const priority of priorities) {
    const waiting = order.filter((at) => queues[at]?.priority === priority && (remainders.get(at) ?? 0) > 0);
    waiting.sort((a, b) => (remainders.get(b) ?? 0) - (remainders.get(a) ?? 0) || older(queues[a], queues[b]));
    for (const at of waiting) {
      const amount = Math.min(unit, left);
      if (amount <= 0) return shares;
      shares[at] = (shares[at] ?? 0) + amount;
      left -= amount;
    }
  }
  return shares;
}

/** Distributes surplus among the queues of one priority, in rounds; returns the remaining amount. */
function surplus(
  total: number,
  queues: readonly Share[],
  shares: number[],
  ours: readonly number[],
  remainders: Map<number, number>,
  { unit, kValue }: DivideOptions,
): number {
  let left = total;
  for (;;) {
    const hungry = ours.filter((at) => {
      const queue = queues[at] as Share;
      const share = shares[at] ?? 0;
      return queue.request > share && (queue.limit === unlimited || queue.limit > share);
    });
    let weightSum = 0;
    for (const at of hungry) weightSum += (queues[at] as Share).weight;
    if (weightSum <= 0 || left <= 0) return left;
    const weights = hungry.map((at) => {
      const { weight, usage } = queues[at] as Share;
      const normal = weight / weightSum;
      // A queue whose historical usage exceeds its weight gets less of the surplus, but not less than 0.
      return weight === 0 ? 0 : Math.max(0, normal + Math.max(0, kValue) * (normal - usage));
    });
    const sum = weights.reduce((a, b) => a + b, 0);
    if (sum <= 0) return left;
    const amount = left;
    let wantsLess = false;
    for (const [index, at] of hungry.entries()) {
      const weight = weights[index] ?? 0;
      if (weight === 0) continue;
      const share = (amount * weight) / sum;
      const wanted = requestable(queues[at] as Share) - (shares[at] ?? 0);
      if (wanted <= share) {
        const given = Math.min(wanted, left);
        shares[at] = (shares[at] ?? 0) + given;
        left -= given;
        remainders.delete(at);
        wantsLess ||= wanted < share;
        continue;
      }
      // Rounding errors of the division must not cost a whole unit.
      const whole = Math.floor(share / unit + 1e-9) * unit;
      const given = Math.min(whole, left);
      shares[at] = (shares[at] ?? 0) + given;
      left -= given;
      remainders.set(at, Math.max(0, share - whole));
    }
    if (!wantsLess || left <= 0) return left;
  }
}

function requestable({ limit, request }: Share): number {
  return limit === unlimited ? request : Math.min(limit, request);
}

function older(a: Share | undefined, b: Share | undefined): number {
  return (a?.createdMs ?? 0) - (b?.createdMs ?? 0) || compareText(a?.uid, b?.uid);
}

function compareText(a = "", b = ""): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

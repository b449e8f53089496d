import type { GpuCell, Sums } from "./parts.ts";

export const whole = 1000;

/** Adds up the cells. An over-allocated GPU makes the sums differ, so that it is noticed. */
export function sumsOf(gpus: Iterable<GpuCell>): Sums {
  const sums = { total: 0, used: 0, leaving: 0, free: 0, freeInShares: 0, cordoned: 0, unknown: 0, broken: 0 };
  for (const [state, holds = []] of gpus) {
    sums.total += whole;
    if (state === "?") sums.unknown += whole;
    else if (state === "x") sums.broken += whole;
    else if (state === "f") sums.free += whole;
    else if (state === "c" && holds.length === 0) sums.cordoned += whole;
    else {
      let rest = whole;
      for (const [, , milli, isLeaving] of holds) {
        if (isLeaving === 1) sums.leaving += milli;
        else sums.used += milli;
        rest -= milli;
      }
      if (state === "c") sums.cordoned += Math.max(0, rest);
      else sums.freeInShares += Math.max(0, rest);
    }
  }
  return sums;
}

/** The sum of all fields but `total`. */
export function rightSide(sums: Sums): number {
  const { used, leaving, free, freeInShares, cordoned, unknown, broken } = sums;
  return used + leaving + free + freeInShares + cordoned + unknown + broken;
}

/** Whether the sums add up and agree with the GPUs. */
export function isClosed(sums: Sums, gpus: Iterable<GpuCell>): boolean {
  if (rightSide(sums) !== sums.total) return false;
  const own = sumsOf(gpus);
  return (Object.keys(own) as (keyof Sums)[]).every((name) => own[name] === sums[name]);
}

/** The last minutes in bins of five seconds: pods placed, pods that began to terminate, and faults. */
import type { Delta } from "../model/window/delta.ts";
import type { GpuCell, ReadModel } from "../model/window/parts.ts";

/** Start of the bin, first revision in it, pods placed, pods that began to terminate, GPUs or nodes that failed. */
export type RibbonBin = readonly [number, number, number, number, number];

export const binMs = 5_000;
const binsMax = 180;

interface Bin {
  readonly startMs: number;
  readonly rev: number;
  binds: number;
  evictions: number;
  faults: number;
}

export class Ribbon {
  private readonly bins: Bin[] = [];

  add(before: ReadModel, after: ReadModel, { ops }: Delta, nowMs: number): void {
    const startMs = Math.floor(nowMs / binMs) * binMs;
    let bin = this.bins.at(-1);
    if (bin?.startMs !== startMs) {
      bin = { startMs, rev: after.rev, binds: 0, evictions: 0, faults: 0 };
      this.bins.push(bin);
      while (this.bins.length > binsMax || (this.bins[0]?.startMs ?? startMs) < startMs - binsMax * binMs)
        this.bins.shift();
    }
    if (ops.wall === undefined || ops.wall.whole !== undefined) return;
    const changed = ops.wall.gpus ?? [];
    const pods = (cells: Iterable<GpuCell | undefined>, isLeaving: 0 | 1): Set<number> => {
      const found = new Set<number>();
      for (const [, holds = []] of [...cells].filter((cell) => cell !== undefined))
        for (const [, pod, , leaves] of holds) if (leaves === isLeaving) found.add(pod);
      return found;
    };
    const was = changed.map(([at]) => before.wall.gpus[at]);
    const is = changed.map(([, cell]) => cell);
    const placedBefore = new Set([...pods(was, 0), ...pods(was, 1)]);
    for (const pod of pods(is, 0)) if (!placedBefore.has(pod)) bin.binds++;
    const leftBefore = pods(was, 1);
    for (const pod of pods(is, 1)) if (!leftBefore.has(pod)) bin.evictions++;
    for (const [at, cell] of changed) if (cell[0] === "x" && before.wall.gpus[at]?.[0] !== "x") bin.faults++;
    for (const [at, node] of ops.wall.nodes ?? []) {
      if (node[3] === "unknown" && before.wall.nodes[at]?.[3] !== "unknown") bin.faults++;
    }
  }

  list(): readonly RibbonBin[] {
    return this.bins.map(({ startMs, rev, binds, evictions, faults }) => [startMs, rev, binds, evictions, faults]);
  }
}

import { totalmem } from "node:os";
import { constants, PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";
import type { Memory } from "../ports/memory.ts";

/** Above this fraction of the old generation, GC may take most of the time, and the process may run out of memory. */
const scarceFrom = 0.8;
/** Node's default for the semi-spaces of the young generation, of which there are three. */
const semiSpaceMiB = 16;

/** Reading the RSS takes as long as a write does. */
const readRssEveryMs = 50;

/** Looks at the heap after each major GC, when only live objects are left in it. */
export function heapMemory(execArgv: readonly string[] = process.execArgv): Memory {
  const named = execArgv.map((flag) => /^--max[-_]semi[-_]space[-_]size=(\d+)$/.exec(flag)?.[1]).find(Boolean);
  const youngBytes = 3 * 1024 * 1024 * Number(named ?? semiSpaceMiB);
  const oldBytesMax = getHeapStatistics().heap_size_limit - youngBytes;
  let isScarce = false;
  const look = (): void => {
    let bytes = 0;
    for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
      if (!space_name.startsWith("new")) bytes += space_used_size;
    }
    isScarce = bytes > scarceFrom * oldBytesMax;
  };
  const observer = new PerformanceObserver((list) => {
    const isFull = (entry: unknown): boolean =>
      (entry as { detail?: { kind?: number } }).detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
    if (list.getEntries().some(isFull)) look();
  });
  observer.observe({ entryTypes: ["gc"] });
  // Large objects are in buffers outside of the heap.
  const constrained = process.constrainedMemory() ?? 0;
  const bytesMax = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  let readMs = Number.NEGATIVE_INFINITY;
  let isLarge = false;
  return {
    isScarce() {
      const nowMs = performance.now();
      if (nowMs - readMs >= readRssEveryMs) {
        readMs = nowMs;
        isLarge = process.memoryUsage.rss() > scarceFrom * bytesMax;
      }
      return isScarce || isLarge;
    },
  };
}

import type { Random } from "./random.ts";

/** The delay after a number of failures in a row. */
export interface Backoff {
  readonly baseMs: number;
  readonly maxMs: number;
}

/**
 * Doubles with every failure, plus jitter of up to as much again, so that keys that failed together do not retry
 * together.
 */
export function backoffMs({ baseMs, maxMs }: Backoff, failures: number, random: Random): number {
  return spread(exponentialMs({ baseMs, maxMs }, failures), 1, random);
}

/** The same without jitter. The delay after the first failure is the base. */
export function exponentialMs({ baseMs, maxMs }: Backoff, failures: number): number {
  // 2^40 base units are far beyond any maximum; the bound keeps the shift exact.
  return Math.min(maxMs, baseMs * 2 ** Math.min(40, Math.max(0, failures - 1)));
}

/** A random value between the delay and the delay plus a fraction of it, in whole milliseconds. */
export function spread(ms: number, share: number, random: Random): number {
  return Math.floor(ms + (ms * share * random.uint32()) / 2 ** 32);
}

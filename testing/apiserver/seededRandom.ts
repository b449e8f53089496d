import type { Random } from "../../src/ports/random.ts";

/** A seeded pseudo-random generator for tests (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return {
    uint32() {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return (mixed ^ (mixed >>> 14)) >>> 0;
    },
  };
}

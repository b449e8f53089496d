import { randomFillSync } from "node:crypto";
import type { Random } from "../ports/random.ts";

/**
 * The system's random generator, suitable for unguessable names and serial numbers. Drawn in blocks: a system call per
 * number costs a microsecond.
 */
export function systemRandom(): Random {
  const block = new Uint32Array(256);
  let next = block.length;
  return {
    uint32() {
      if (next === block.length) {
        randomFillSync(block);
        next = 0;
      }
      const drawn = block[next] ?? 0;
      block[next] = 0; // a number that was handed out must not be found in memory later
      next++;
      return drawn;
    },
  };
}

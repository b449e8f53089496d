import type { Clock } from "../ports/clock.ts";

/** A timer of Node cannot wait longer than this; a longer delay fires at once, so it is cut into pieces. */
const timerMsMax = 2 ** 31 - 1;

/** The time of this machine. */
export function systemClock(): Clock {
  return { nowMs: () => Date.now(), monotonicMs: () => performance.now(), after };
}

function after(delayMs: number, run: () => void): () => void {
  let leftMs = Math.max(0, delayMs);
  let timer: NodeJS.Timeout;
  const wait = (): void => {
    const stepMs = Math.min(leftMs, timerMsMax);
    leftMs -= stepMs;
    timer = setTimeout(leftMs > 0 ? wait : run, stepMs);
  };
  wait();
  return () => clearTimeout(timer);
}

import type { Clock } from "../ports/clock.ts";

/** The longest delay of a Node timer; a longer one would fire at once, so it is split. */
const timerMsMax = 2 ** 31 - 1;

/** The clock of this machine. */
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

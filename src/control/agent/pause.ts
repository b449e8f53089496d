import type { Clock } from "../../ports/clock.ts";

/** Waits for the delay, or less when the program is stopped. Whether it was stopped. */
export function pause(clock: Clock, delayMs: number, stopped: Promise<true>): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.after(delayMs, () => resolve(false));
    void stopped.then(() => {
      cancel();
      resolve(true);
    });
  });
}

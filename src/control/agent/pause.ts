import type { Clock } from "../../ports/clock.ts";

/** Waits for the delay, or until the program is stopped. Returns whether it was stopped. */
export function pause(clock: Clock, delayMs: number, stopped: Promise<true>): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.after(delayMs, () => resolve(false));
    void stopped.then(() => {
      cancel();
      resolve(true);
    });
  });
}

/** What all parts of one run share. */
import type { ApiServer } from "../../src/apiserver/startApiServer.ts";
import type { HttpCaller } from "../httpCaller.ts";

export interface Run {
  readonly server: ApiServer;
  readonly caller: HttpCaller;
  readonly below: (bound: number) => number;
  /** Set when the writers are done: readers finish what they have begun. */
  finished: boolean;
  /** Writes that were answered; chaos and readers keep step with it. */
  answered: number;
  /** Wakes those who wait for the next answer. */
  readonly onAnswer: Set<() => void>;
}

export function pick<T>(run: Pick<Run, "below">, from: readonly T[]): T {
  return from[run.below(from.length)] as T;
}

/** Resolves after so many more answers, or when the run ends. */
export function afterAnswers(run: Run, count: number): Promise<void> {
  const due = run.answered + count;
  return new Promise((resolve) => {
    const look = (): void => {
      if (run.answered < due && !run.finished) return;
      run.onAnswer.delete(look);
      resolve();
    };
    run.onAnswer.add(look);
    look();
  });
}

export function generator(seed: number): (bound: number) => number {
  let state = seed >>> 0;
  return (bound) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  };
}

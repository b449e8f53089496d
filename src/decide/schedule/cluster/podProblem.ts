import type { RefusalReason } from "../../devices/refusalReason.ts";

/** A problem of a pod that no node and no eviction can solve, and how to correct it. */
export interface PodProblem {
  readonly message: string;
  readonly cure: string;
  /** Why its claims get no devices, if that is the problem. */
  readonly refusal?: RefusalReason;
}

export function doesNotExist(object: string): PodProblem {
  return { message: `${object} does not exist`, cure: `create ${object}` };
}

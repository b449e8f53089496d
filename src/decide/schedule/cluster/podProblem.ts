/** A problem of a pod that no node and no eviction can solve, and how to correct it. */
export interface PodProblem {
  readonly message: string;
  readonly cure: string;
}

export function doesNotExist(object: string): PodProblem {
  return { message: `${object} does not exist`, cure: `create ${object}` };
}

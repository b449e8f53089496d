/**
 * What one cycle spends on jobs of one queue that could not be placed before. New and changed jobs, and jobs that fit
 * on a node that has gained room since, are tried at once and do not count.
 */
export interface RetryLimits {
  /** Jobs that are tried again, and victim searches without a result. */
  readonly jobsMax: number;
  /** The shortest time between two slices of a queue with more of them. */
  readonly pauseMs: number;
}

/** Of a running scheduler. A decision about a saved cluster has no limits: it is taken once. */
export const liveRetryLimits: RetryLimits = { jobsMax: 16, pauseMs: 50 };

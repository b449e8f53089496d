import type { Job } from "../cluster/job.ts";

/** An exception while a cycle handled one job. */
export class JobFault extends Error {
  readonly job: Job;

  constructor(job: Job, cause: unknown) {
    super(`a scheduling cycle failed on ${job.id}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
    this.job = job;
  }
}

/** Runs a part of a cycle that is about one job. An exception names the job; of nested parts, the innermost. */
export function about<T>(job: Job, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof JobFault ? error : new JobFault(job, error);
  }
}

/**
 * Counting the pods of a Job, each exactly once. A pod holds the tracking finalizer until it is counted:
 *
 * 1. the pod has finished: its UID is added to status.uncountedTerminatedPods (or its index to completedIndexes); 2.
 * that status is stored: the finalizer is removed from the pod; 3. the pod is observed without the finalizer, or
 * deleted: its UID is removed from the list and the counter incremented, in one write.
 *
 * A controller that crashes between two steps finds, after its restart, the pod in exactly one of them.
 */
import type { Job, JobStatus, Pod } from "../../../model/kubernetes.generated.ts";
import { compareRevisions, type Revision } from "../../../model/revision.ts";
import { failureAction, hasFailed } from "./jobFailure.ts";
import { countOf, failureCountKey, type IndexSet, indexOf, isIndexed, parseIndexes } from "./jobIndexes.ts";

export const trackingFinalizer = "batch.kubernetes.io/job-tracking";
/** The largest length of the lists in the status; the rest waits for the next reconcile. */
const uncountedMax = 500;

export interface Tally {
  /** For the next status. */
  readonly succeeded: number;
  readonly failed: number;
  readonly uncounted: { readonly succeeded: readonly string[]; readonly failed: readonly string[] };
  readonly completedIndexes: IndexSet;
  readonly failedIndexes: IndexSet;
  /** With everything that has ended, counted or not. */
  readonly succeededTotal: number;
  readonly failedTotal: number;
  /** Pods whose finalizer may be removed. */
  readonly release: readonly Pod[];
  /** The newest failed pod of each index that is to be tried again: its annotation says how often it failed. */
  readonly retries: ReadonlyMap<number, Pod>;
  /** Whether every pod that has ended is counted. */
  readonly isSettled: boolean;
  /** Some pods are missing from a cache that is older than the Job: a consistent read is needed. */
  readonly isStale: boolean;
}

export function isTracked({ metadata }: Pod): boolean {
  return metadata.finalizers?.includes(trackingFinalizer) === true;
}

export interface TallyOptions {
  /** The stored outcome of the Job. After a success, deleted pods do not count as failed. */
  readonly verdict: "SuccessCriteriaMet" | "FailureTarget" | undefined;
  readonly podsRevision: Revision | undefined;
}

export function tallyPods(job: Job, pods: readonly Pod[], options: TallyOptions): Tally {
  const status = job.status ?? {};
  const byUid = new Map(pods.map((pod) => [pod.metadata.uid, pod]));
  const release: Pod[] = [];
  const before = status.uncountedTerminatedPods ?? {};
  let isStale = false;
  const settle = (uids: readonly string[] | undefined): { kept: string[]; counted: number } => {
    const kept: string[] = [];
    let counted = 0;
    for (const uid of uids ?? []) {
      const pod = byUid.get(uid);
      if (pod === undefined && isOlder(options.podsRevision, job)) {
        isStale = true;
        kept.push(uid);
      } else if (pod !== undefined && isTracked(pod)) {
        kept.push(uid);
        release.push(pod);
      } else counted++;
    }
    return { kept, counted };
  };
  const succeeded = settle(before.succeeded);
  const failed = settle(before.failed);
  const known = new Set([...(before.succeeded ?? []), ...(before.failed ?? [])]);
  const ended = sortEnded(job, pods, known, options.verdict);
  release.push(...ended.release);
  const room = uncountedMax - succeeded.kept.length - failed.kept.length;
  const newSucceeded = ended.succeeded.slice(0, Math.max(0, room));
  const newFailed = ended.failed.slice(0, Math.max(0, room - newSucceeded.length));
  const failedCounted = (status.failed ?? 0) + failed.counted;
  const indexed = isIndexed(job);
  const succeededCounted = indexed ? ended.completed.size : (status.succeeded ?? 0) + succeeded.counted;
  const uncounted = {
    succeeded: [...succeeded.kept, ...newSucceeded],
    failed: [...failed.kept, ...newFailed],
  };
  return {
    succeeded: succeededCounted,
    failed: failedCounted,
    uncounted,
    completedIndexes: ended.completed,
    failedIndexes: ended.failedIndexes,
    succeededTotal: indexed ? ended.completed.size : succeededCounted + succeeded.kept.length + ended.succeeded.length,
    failedTotal: failedCounted + failed.kept.length + ended.failed.length + ended.delayed,
    release,
    retries: ended.retries,
    isSettled: uncounted.succeeded.length === 0 && uncounted.failed.length === 0 && release.length === 0,
    isStale,
  };
}

function isOlder(podsRevision: Revision | undefined, { metadata }: Job): boolean {
  return podsRevision !== undefined && compareRevisions(podsRevision, metadata.resourceVersion) < 0;
}

interface Ended {
  readonly succeeded: string[];
  readonly failed: string[];
  readonly completed: IndexSet;
  readonly failedIndexes: IndexSet;
  readonly release: Pod[];
  readonly retries: Map<number, Pod>;
  delayed: number;
}

function sortEnded(
  job: Job,
  pods: readonly Pod[],
  known: ReadonlySet<string>,
  verdict: TallyOptions["verdict"],
): Ended {
  const { status = {}, spec } = job;
  const end = spec?.completions ?? 0;
  const stored = parseIndexes(status.completedIndexes, end);
  const ended: Ended = {
    succeeded: [],
    failed: [],
    completed: stored.copy(),
    failedIndexes: parseIndexes(status.failedIndexes, end),
    release: [],
    retries: new Map(),
    delayed: 0,
  };
  const failedPods: Pod[] = [];
  for (const pod of pods) {
    if (!isTracked(pod)) continue;
    const isKnown = known.has(pod.metadata.uid);
    if (pod.status?.phase === "Succeeded") {
      if (isKnown) continue;
      if (!isIndexed(job)) {
        ended.succeeded.push(pod.metadata.uid);
        continue;
      }
      const index = indexOf(job, pod);
      if (index === undefined || stored.has(index)) ended.release.push(pod);
      else ended.completed.add(index);
    } else if (hasFailed(job, pod)) failedPods.push(pod);
  }
  if (spec?.backoffLimitPerIndex !== undefined)
    judgeIndexes(job, failedPods, ended, parseIndexes(status.failedIndexes, end));
  const retried = new Set([...ended.retries.values()].map(({ metadata }) => metadata.uid));
  const running = new Map<number, number>();
  for (const pod of pods) {
    const index = indexOf(job, pod);
    if (index !== undefined) running.set(index, Math.max(running.get(index) ?? -1, countOf(pod, failureCountKey)));
  }
  for (const pod of failedPods) {
    if (known.has(pod.metadata.uid)) continue;
    const index = indexOf(job, pod);
    // The pod is the only record of the failure count until its replacement has it.
    const isLast = index !== undefined && (running.get(index) ?? -1) <= countOf(pod, failureCountKey);
    if (
      retried.has(pod.metadata.uid) &&
      isLast &&
      verdict === undefined &&
      failureAction(job, pod).action !== "Ignore"
    ) {
      ended.delayed++;
    } else if (failureAction(job, pod).action === "Ignore" || (isIndexed(job) && index === undefined))
      ended.release.push(pod);
    else if (verdict === "SuccessCriteriaMet" && pod.status?.phase !== "Failed") ended.release.push(pod);
    else ended.failed.push(pod.metadata.uid);
  }
  return ended;
}

/** An index has failed for good when it has failed too often, or by the policy. */
function judgeIndexes(job: Job, failedPods: readonly Pod[], ended: Ended, stored: IndexSet): void {
  const limit = job.spec?.backoffLimitPerIndex ?? 0;
  for (const pod of failedPods) {
    const index = indexOf(job, pod);
    if (index === undefined || ended.completed.has(index) || stored.has(index)) continue;
    const { action } = failureAction(job, pod);
    const failures = countOf(pod, failureCountKey) + (action === "Ignore" ? 0 : 1);
    if (action === "FailIndex" || failures > limit) ended.failedIndexes.add(index);
    const newest = ended.retries.get(index);
    if (newest === undefined || countOf(newest, failureCountKey) <= countOf(pod, failureCountKey)) {
      ended.retries.set(index, pod);
    }
  }
  for (const index of [...ended.retries.keys()]) {
    if (ended.failedIndexes.has(index) || ended.completed.has(index)) ended.retries.delete(index);
  }
}

/** The counters of the next status. */
export function tallyStatus(tally: Tally): Partial<JobStatus> {
  const { uncounted } = tally;
  return {
    succeeded: tally.succeeded,
    failed: tally.failed,
    uncountedTerminatedPods: {
      ...(uncounted.succeeded.length > 0 && { succeeded: [...uncounted.succeeded] }),
      ...(uncounted.failed.length > 0 && { failed: [...uncounted.failed] }),
    },
  };
}

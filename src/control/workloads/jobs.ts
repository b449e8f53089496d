import { decideJob, decideOrphanedJobPod } from "../../decide/workloads/jobs/job.ts";
import { isTracked } from "../../decide/workloads/jobs/jobTally.ts";
import { lookAgain, lookAgainAtAll } from "../../intents/lookAgain.ts";
import { keyOf } from "../../model/intent.ts";
import type { Job, JobCondition, Pod } from "../../model/kubernetes.generated.ts";
import { isTrue } from "../../model/objects/condition.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import { isFinished } from "../../model/objects/podFacts.ts";
import { isAtLeast, laterOf, type Revision } from "../../model/revision.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import type { Author, Committed } from "../runtime/inFlightWrites.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { forObject, kindSource } from "../runtime/sources.ts";
import { jobKind, podKind } from "./kinds.ts";
import { LimitEvents } from "./limitEvents.ts";
import { addOwnerController, pace, type ReportedDecision, resultOf } from "./ownerReconciler.ts";
import { dependentSource, normal, recordPodEvents, warning } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

/** Pods of a consistent read, for a Job whose status is newer than the observed pods. */
interface FreshPods {
  readonly revision: Revision;
  readonly pods: readonly Pod[];
}

type JobReconcile = ReconcileContext & { readonly author: Author };

/** Runs the pods of Jobs and counts each of them once. */
export function addJobs(controllers: Controllers, caches: WorkloadCaches): void {
  const { inFlight, pods, jobs } = caches;
  const { kube, ports } = controllers;
  const recorder = caches.recorder("job-controller");
  const limits = new LimitEvents(recorder, jobs.cache);
  /** Pods with the tracking finalizer, by the key of their Job, also when the Job is deleted. */
  const tracked = pods.cache.index((object) => {
    const owner = controllerOf(object.metadata);
    if (owner?.kind !== "Job" || !isTracked(object)) return [];
    return [keyOf(object.metadata.namespace, owner.name)];
  });
  const fresh = new Map<string, FreshPods>();

  const decide = (job: Job, nowMs: number): ReportedDecision => {
    const { uid } = job.metadata;
    const read = fresh.get(uid);
    const isNewer = read !== undefined && !isAtLeast(pods.cache.revision, read.revision);
    if (!isNewer) fresh.delete(uid);
    const decision = decideJob(
      {
        revision: caches.revisionOf([podKind]),
        job,
        pods: isNewer ? read.pods : pods.candidatesOf(job),
        podsRevision: isNewer ? read.revision : pods.cache.revision,
        isTaken: (name) =>
          caches.podNames.has(job, name) || (isNewer && read.pods.some((pod) => pod.metadata.name === name)),
      },
      nowMs,
    );
    const onCommitted = (committed: readonly Committed[]): void => {
      recordPodEvents(recorder, job, committed);
      tellConditions(recorder, job, committed);
      limits.update(job, decision);
    };
    return { ...decision, onCommitted };
  };

  const before = async (key: string, context: JobReconcile): Promise<ReconcileResult> => {
    const released = await releaseOrphans(key, context);
    if (released !== undefined) return released;
    const job = jobs.cache.get(key);
    if (job === undefined || !needsFreshPods(job)) return undefined;
    return readPods(job, context);
  };

  /** Pods with the finalizer of a deleted Job. A Job that the cache lacks may still exist. */
  const releaseOrphans = async (key: string, { cancel, author }: JobReconcile): Promise<ReconcileResult> => {
    const known = jobs.cache.get(key);
    const strays = tracked.get(key).filter(({ metadata }) => controllerOf(metadata)?.uid !== known?.metadata.uid);
    const [first] = strays;
    if (first === undefined) return undefined;
    const { namespace = "" } = first.metadata;
    const name = key.slice(namespace.length + 1);
    const atLeast = laterOf(pods.cache.revision, jobs.cache.revision);
    const looked = await lookAgain(kube, { ...jobKind, namespace, name }, { atLeast, cancel });
    if (!looked.ok) return reconcileResultOf(looked) ?? { again: looked.message };
    const job = looked.value.object;
    const intents = strays.flatMap((pod) => decideOrphanedJobPod(pod, job).intents);
    if (intents.length === 0) return undefined;
    const committed = await inFlight.commit(
      intents.map((intent) => ({ intent })),
      { author, pace, cancel },
    );
    // The watch delivers the writes, and then the key is enqueued.
    return resultOf({ intents, wakeAtMs: undefined }, committed, ports.clock.nowMs()) ?? { requeueAfterMs: 1000 };
  };

  /**
   * Whether the observed pods are older than the Job and the difference matters: the status names pods that the watch
   * has not delivered, or a finished pod that seems uncounted may have been counted and released meanwhile.
   */
  const needsFreshPods = (job: Job): boolean => {
    const { uid, resourceVersion } = job.metadata;
    if (isAtLeast(pods.cache.revision, resourceVersion)) return false;
    const read = fresh.get(uid);
    if (read !== undefined && isAtLeast(read.revision, resourceVersion)) return false;
    const { succeeded = [], failed = [] } = job.status?.uncountedTerminatedPods ?? {};
    const uncounted = new Set([...succeeded, ...failed]);
    const shown = new Set<string>();
    for (const pod of pods.ownedBy(job)) {
      shown.add(pod.metadata.uid);
      if (isTracked(pod) && isFinished(pod) && !uncounted.has(pod.metadata.uid)) return true;
    }
    return [...uncounted].some((each) => !shown.has(each));
  };

  const readPods = async (job: Job, { cancel }: ReconcileContext): Promise<ReconcileResult> => {
    const { namespace = "", uid, resourceVersion } = job.metadata;
    const looked = await lookAgainAtAll(kube, podKind, { namespace }, { atLeast: resourceVersion, cancel });
    if (!looked.ok) return reconcileResultOf(looked) ?? { again: looked.message };
    fresh.set(uid, { revision: looked.value.revision, pods: looked.value.items });
    return undefined;
  };

  jobs.cache.onEvent((event) => {
    if (event.type === "deleted") fresh.delete(event.object.metadata.uid);
  });
  addOwnerController(controllers, inFlight, {
    name: "job-controller",
    kind: jobKind,
    sources: [kindSource(jobs.cache, forObject()), dependentSource(pods, jobs.cache, { group: "batch", kind: "Job" })],
    before,
    decide,
  });
}

/** Events for the end of a Job, and for its suspension, when they are stored. */
function tellConditions(recorder: EventRecorder, regarding: Job, committed: readonly Committed[]): void {
  const before = regarding.status?.conditions;
  for (const { intent, outcome } of committed) {
    if (intent.type !== "status" || intent.target.plural !== jobKind.plural || !outcome.ok) continue;
    const after = (intent.object as Job).status?.conditions ?? [];
    for (const condition of after) {
      const was: JobCondition | undefined = before?.find(({ type }) => type === condition.type);
      if (was?.status === condition.status) continue;
      const { type, status, reason = "", message = "" } = condition;
      if (type === "Complete" && status === "True") {
        recorder.record(regarding, normal("Completed", "Complete", "Job completed"));
      } else if (type === "Failed" && status === "True") recorder.record(regarding, warning(reason, "Fail", message));
      else if (type === "Suspended" && status === "True") {
        recorder.record(regarding, normal("Suspended", "Suspend", "Job suspended"));
      } else if (type === "Suspended" && isTrue(before, "Suspended")) {
        recorder.record(regarding, normal("Resumed", "Resume", "Job resumed"));
      }
    }
  }
}

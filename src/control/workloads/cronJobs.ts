import { decideCronJob } from "../../decide/workloads/jobs/cronJob.ts";
import type { CronJob } from "../../model/kubernetes.generated.ts";
import { isTrue } from "../../model/objects/condition.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { Committed } from "../runtime/inFlightWrites.ts";
import { forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { cronJobKind, jobKind } from "./kinds.ts";
import { addOwnerController, type ReportedDecision } from "./ownerReconciler.ts";
import { isWorthAnEvent, normal, warning } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

/** Creates the Jobs of CronJobs when they are due. */
export function addCronJobs(controllers: Controllers, caches: WorkloadCaches): void {
  const { inFlight, jobs, cronJobs } = caches;
  const recorder = caches.recorder("cronjob-controller");
  const byNamespace = jobs.cache.index(({ metadata }) => [metadata.namespace ?? ""]);

  const decide = (cronJob: CronJob, nowMs: number): ReportedDecision => {
    const inNamespace = byNamespace.get(cronJob.metadata.namespace ?? "");
    const decision = decideCronJob({ revision: caches.revisionOf([jobKind]), cronJob, jobs: inNamespace }, nowMs);
    return { ...decision, onCommitted: (committed) => recordJobEvents(cronJob, committed) };
  };

  const recordJobEvents = (regarding: CronJob, committed: readonly Committed[]): void => {
    for (const { intent, outcome } of committed) {
      const { plural, name } = intent.target;
      if (intent.type === "status" && outcome.ok) tellCompleted(regarding, intent.object as CronJob);
      if (plural !== jobKind.plural) continue;
      if (intent.type === "create" && outcome.ok) {
        recorder.record(regarding, normal("SuccessfulCreate", "Create", `Created job ${name}`));
      } else if (intent.type === "create" && isWorthAnEvent(outcome)) {
        recorder.record(regarding, warning("FailedCreate", "Create", `Error creating job: ${outcome.message}`));
      } else if (intent.type === "delete" && outcome.ok) {
        recorder.record(regarding, normal("SuccessfulDelete", "Delete", `Deleted job ${name}`));
      }
    }
  };

  /** A Job that was active and is not any more. */
  const tellCompleted = (before: CronJob, after: CronJob): void => {
    const active = new Set((after.status?.active ?? []).map(({ uid }) => uid));
    for (const { uid, name = "" } of before.status?.active ?? []) {
      if (active.has(uid)) continue;
      const job = jobs.get(before.metadata.namespace, name);
      if (job === undefined) continue;
      const end = isTrue(job.status?.conditions, "Complete") ? "Complete" : "Failed";
      const note = `Saw completed job: ${name}, condition: ${end}`;
      recorder.record(before, normal("SawCompletedJob", "Finish", note));
    }
  };

  addOwnerController(controllers, inFlight, {
    name: "cronjob-controller",
    kind: cronJobKind,
    sources: [
      kindSource(cronJobs.cache, forObject()),
      kindSource(jobs.cache, forOwner({ group: "batch", kind: "CronJob" })),
    ],
    decide,
  });
}

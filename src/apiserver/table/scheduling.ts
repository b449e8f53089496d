/** Tables of priority classes, leases, runtime classes and pod groups. */

import type { Lease, PodGroup, PriorityClass, RuntimeClass } from "../../model/kubernetes.generated.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { none } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf } from "./tableKind.ts";

export const priorityClassTable = tableOf<PriorityClass>(
  [
    nameColumn,
    column("Value", "Priority value.", "integer"),
    column("Global-Default", "Whether pods without a class get this one.", "boolean"),
    ageColumn,
    column("PreemptionPolicy", "Whether pods of the class preempt others."),
  ],
  ({ metadata, value, globalDefault, preemptionPolicy }, nowMs) => [
    metadata.name,
    value ?? 0,
    globalDefault ?? false,
    humanAge(metadata.creationTimestamp, nowMs),
    preemptionPolicy ?? "PreemptLowerPriority",
  ],
);

export const leaseTable = tableOf<Lease>(
  [nameColumn, column("Holder", "The holder of the lease."), ageColumn],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    spec?.holderIdentity ?? "",
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const podGroupTable = tableOf<PodGroup>(
  [
    nameColumn,
    column("Policy", "Scheduling policy: gang or basic."),
    column("Workload", "The workload that the group belongs to."),
    column("Status", "Whether the group is scheduled, or the reason why not."),
    ageColumn,
  ],
  ({ metadata, spec, status }, nowMs) => {
    const scheduled = status?.conditions?.find(({ type }) => type === "PodGroupScheduled");
    return [
      metadata.name,
      spec.schedulingPolicy.gang !== undefined ? "Gang" : "Basic",
      spec.podGroupTemplateRef?.workload?.workloadName ?? none,
      scheduled === undefined ? "Pending" : scheduled.status === "True" ? "Scheduled" : scheduled.reason,
      humanAge(metadata.creationTimestamp, nowMs),
    ];
  },
);

export const runtimeClassTable = tableOf<RuntimeClass>(
  [nameColumn, column("Handler", "The runtime that runs the pods."), ageColumn],
  ({ metadata, handler }, nowMs) => [metadata.name, handler, humanAge(metadata.creationTimestamp, nowMs)],
);

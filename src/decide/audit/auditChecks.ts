/** All checks, in the order of the documentation. */

import type { KindName } from "../verify/readKinds.ts";
import type { AuditCheck } from "./auditCheck.ts";
import { claimChecks } from "./checks/claims.ts";
import { deviceChecks } from "./checks/devices.ts";
import { finalizerChecks } from "./checks/finalizers.ts";
import { gangChecks } from "./checks/gangs.ts";
import { idleGpuChecks } from "./checks/idleGpus.ts";
import { neverFitChecks } from "./checks/neverFits.ts";
import { nodeChecks } from "./checks/nodes.ts";
import { podChecks } from "./checks/pods.ts";
import { priorityChecks } from "./checks/priorities.ts";
import { queueChecks } from "./checks/queues.ts";
import { rightsChecks } from "./checks/rights.ts";
import { schedulingObjectChecks } from "./checks/schedulingObjects.ts";
import { shareChecks } from "./checks/shares.ts";
import { webhookChecks } from "./checks/webhooks.ts";

export const auditChecks: readonly AuditCheck[] = [
  ...deviceChecks,
  ...shareChecks,
  ...gangChecks,
  ...neverFitChecks,
  ...claimChecks,
  ...schedulingObjectChecks,
  ...podChecks,
  ...nodeChecks,
  ...queueChecks,
  ...priorityChecks,
  ...idleGpuChecks,
  ...webhookChecks,
  ...finalizerChecks,
  ...rightsChecks,
];

/** The kinds that these checks read, pods first: all others are read at their revision. */
export function auditedKinds(checks: readonly AuditCheck[]): readonly KindName[] {
  return [...new Set<KindName>(["pods", ...checks.flatMap(({ needs }) => needs)])];
}

/**
 * Whether a clique or a group is below its minimum: the first matching row of a table decides. A clique without
 * scheduled pods looks the same whether it has not started or has lost all of them; `fullLossPolicy` decides which it
 * is.
 */
import type { FullLossPolicy } from "../../model/gang/settings.ts";
import type { PodCounts } from "./cliques/podClasses.ts";
import type { ConditionContent } from "./gangs/gangConditions.ts";

export const breachType = "MinAvailableBreached";
export const scheduledType = "PodCliqueScheduled";
export const terminationType = "GangTerminationInProgress";

const updating: ConditionContent = {
  type: breachType,
  status: "Unknown",
  reason: "UpdateInProgress",
  message: "An update is in progress",
};

const below = (scheduled: number, minAvailable: number): ConditionContent => ({
  type: breachType,
  status: "True",
  reason: "ScheduledReplicasBelowMinAvailable",
  message: `Scheduled replicas (${scheduled}) below MinAvailable (${minAvailable})`,
});

export interface CliqueFacts {
  readonly minAvailable: number;
  readonly isUpdating: boolean;
  readonly counts: Pick<PodCounts, "scheduled" | "readyOrStarting">;
}

/** No replica is scheduled, which is no breach under Suppress. */
const noPodScheduled = "InsufficientScheduledPods";
const noReplicaScheduled = "InsufficientScheduledPodCliqueScalingGroupReplicas";
export const suppressedReasons: ReadonlySet<string> = new Set([noPodScheduled, noReplicaScheduled]);

export function cliqueBreach(
  { minAvailable, isUpdating, counts }: CliqueFacts,
  policy: FullLossPolicy,
): ConditionContent {
  const { scheduled, readyOrStarting } = counts;
  if (isUpdating) return updating;
  if (scheduled === 0 && policy === "Suppress") {
    return {
      type: breachType,
      status: "False",
      reason: noPodScheduled,
      message: `No replica is scheduled (MinAvailable ${minAvailable}): the breach is suppressed, because a clique without any scheduled replica cannot be distinguished from one that has not started`,
    };
  }
  if (scheduled < minAvailable) return below(scheduled, minAvailable);
  const numbers = `${readyOrStarting} ready or starting, ${minAvailable} required`;
  return readyOrStarting < minAvailable
    ? { type: breachType, status: "True", reason: "InsufficientReadyPods", message: `Too few pods: ${numbers}` }
    : { type: breachType, status: "False", reason: "SufficientReadyPods", message: `Enough pods: ${numbers}` };
}

export function cliqueScheduled(scheduled: number, minAvailable: number): ConditionContent {
  const isEnough = scheduled >= minAvailable;
  return {
    type: scheduledType,
    status: isEnough ? "True" : "False",
    reason: isEnough ? "SufficientScheduledPods" : "InsufficientScheduledPods",
    message: `${scheduled} of at least ${minAvailable} pods are scheduled`,
  };
}

/** A replica of a group, by the conditions of its cliques. */
export interface GroupReplicaFacts {
  /** All its cliques exist and none is terminating. */
  readonly isComplete: boolean;
  /** Complete, and every clique has its minimum scheduled. */
  readonly isScheduled: boolean;
  /** Some clique of it is in breach. */
  readonly isBreached: boolean;
}

export interface GroupFacts {
  readonly minAvailable: number;
  readonly isUpdating: boolean;
  /** One for each replica of the spec. */
  readonly replicas: readonly GroupReplicaFacts[];
}

export function groupBreach(
  { minAvailable, isUpdating, replicas }: GroupFacts,
  policy: FullLossPolicy,
): ConditionContent {
  if (isUpdating) return updating;
  const scheduled = replicas.filter((replica) => replica.isScheduled).length;
  if (scheduled === 0 && policy === "Suppress") {
    return {
      type: breachType,
      status: "False",
      reason: noReplicaScheduled,
      message: `No replica is scheduled (MinAvailable ${minAvailable}): the breach is suppressed, because a group without any scheduled replica cannot be distinguished from one that has not started`,
    };
  }
  if (scheduled > 0 && scheduled < minAvailable) return below(scheduled, minAvailable);
  // Under Suppress only scheduled replicas can be unhealthy; the others are not counted at all.
  const isCounted = (replica: GroupReplicaFacts): boolean =>
    policy === "Suppress" ? replica.isScheduled : replica.isComplete;
  return available(replicas.filter((replica) => isCounted(replica) && !replica.isBreached).length, minAvailable);
}

function available(healthy: number, minAvailable: number): ConditionContent {
  const numbers = `${healthy} without a breach, ${minAvailable} required`;
  return healthy < minAvailable
    ? {
        type: breachType,
        status: "True",
        reason: "InsufficientAvailablePodCliqueScalingGroupReplicas",
        message: `Too few replicas: ${numbers}`,
      }
    : {
        type: breachType,
        status: "False",
        reason: "SufficientAvailablePodCliqueScalingGroupReplicas",
        message: `Enough replicas: ${numbers}`,
      };
}

import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import { reportedGpus } from "../../devices/physicalGpus.ts";
import type { Holding } from "./nodeState.ts";
import type { PodShape } from "./podShape.ts";
import type { TaskStatus } from "./task.ts";

/** Whether two states of a node lead to the same decisions: a heartbeat changes none. */
export function hasSameFacts(a: Node, b: Node): boolean {
  if (a.metadata.uid !== b.metadata.uid || a.metadata.deletionTimestamp !== b.metadata.deletionTimestamp) return false;
  return (
    (a.metadata.labels === b.metadata.labels || equalFields(a.metadata.labels, b.metadata.labels)) &&
    equalFields(a.spec?.taints, b.spec?.taints) &&
    a.spec?.unschedulable === b.spec?.unschedulable &&
    equalFields(a.status?.allocatable, b.status?.allocatable) &&
    equalFields(a.status?.conditions?.map(verdictOf), b.status?.conditions?.map(verdictOf))
  );
}

/** The facts of a pod: its requests, its group, its status and holdings. */
export interface PodFacts {
  readonly pod: Pod;
  readonly shape: PodShape;
  readonly groupName: string | undefined;
  readonly subGroupName: string | undefined;
  readonly status: TaskStatus | "allocated";
  readonly holdings: readonly Holding[];
  readonly states: string;
}

/**
 * Whether two states of a pod lead to the same decisions. `isLabelled`: the terms of some pod select by labels.
 * `isSliced`: it matters which GPUs the device plugin has allocated, since the others are free for claims.
 */
export function hasSamePodFacts(
  a: PodFacts,
  b: PodFacts,
  { isLabelled, isSliced }: { readonly isLabelled: boolean; readonly isSliced: boolean },
): boolean {
  if (a.shape !== b.shape || a.status !== b.status || a.holdings !== b.holdings || a.states !== b.states) return false;
  if (a.groupName !== b.groupName || a.subGroupName !== b.subGroupName) return false;
  if (a.pod === b.pod) return true;
  const [before, after] = [a.pod.status, b.pod.status];
  if (before?.nominatedNodeName !== after?.nominatedNodeName) return false;
  if (b.shape.hasDeviceClaims && !equalFields(before?.resourceClaimStatuses, after?.resourceClaimStatuses))
    return false;
  if (isLabelled && !equalFields(a.pod.metadata.labels, b.pod.metadata.labels)) return false;
  return !isSliced || !hasReported(a.pod, b.pod);
}

/** Whether the pod has just reported its GPUs, or has started to run without a report. */
function hasReported(before: Pod, after: Pod): boolean {
  const hasStarted = before.status?.phase !== "Running" && after.status?.phase === "Running";
  return hasStarted || reportedGpus(before).size !== reportedGpus(after).size;
}

/**
 * Whether two states of a group lead to the same decisions. The amounts in its status change none, and its conditions
 * only where they end its one attempt.
 */
export function hasSameGroupFacts(a: PodGroup, b: PodGroup): boolean {
  return (
    a.metadata.uid === b.metadata.uid &&
    equalFields(a.spec, b.spec) &&
    equalFields(a.metadata.annotations, b.metadata.annotations) &&
    (b.spec?.schedulingBackoff !== 1 || equalFields(a.status?.schedulingConditions, b.status?.schedulingConditions))
  );
}

function verdictOf({ type, status }: { type: string; status: string }): string {
  return `${type}=${status}`;
}

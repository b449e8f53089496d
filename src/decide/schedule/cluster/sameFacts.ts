import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import { reportedGpus } from "../../devices/physicalGpus.ts";
import type { Holding } from "./nodeState.ts";
import type { PodShape } from "./podShape.ts";
import type { TaskStatus } from "./task.ts";

/** What of an object's news matters: heartbeats and accounts change nothing that decides. */

/** Whether two states of a node are the same to a decision. */
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

/** What of a pod decides: what it asks for, whose it is, and what it has. */
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
 * Whether two states of a pod are the same to a decision. `isLabelled`: some pod looks at the labels of others.
 * `isSliced`: which GPUs a device plugin gave away matters, since claims may have the others.
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

/** Whether it is known now which GPUs the pod has, or that its node will not say. */
function hasReported(before: Pod, after: Pod): boolean {
  const hasStarted = before.status?.phase !== "Running" && after.status?.phase === "Running";
  return hasStarted || reportedGpus(before).size !== reportedGpus(after).size;
}

/** Whether two states of a group are the same to a decision: amounts on its status are not. */
export function hasSameGroupFacts(a: PodGroup, b: PodGroup): boolean {
  return (
    a.metadata.uid === b.metadata.uid &&
    equalFields(a.spec, b.spec) &&
    equalFields(a.metadata.annotations, b.metadata.annotations) &&
    equalFields(a.status?.schedulingConditions, b.status?.schedulingConditions)
  );
}

function verdictOf({ type, status }: { type: string; status: string }): string {
  return `${type}=${status}`;
}

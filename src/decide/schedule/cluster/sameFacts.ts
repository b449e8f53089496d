import type { Node } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";

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

/** Whether two states of one group are the same to a decision, leaving the spec aside. */
export function hasSameMarks(a: PodGroup, b: PodGroup): boolean {
  return (
    equalFields(a.metadata.annotations, b.metadata.annotations) &&
    equalFields(a.status?.schedulingConditions, b.status?.schedulingConditions)
  );
}

function verdictOf({ type, status }: { type: string; status: string }): string {
  return `${type}=${status}`;
}

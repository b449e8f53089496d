/**
 * A node that has just started, or has taken over from another process, does not know which writes of its predecessor
 * are in flight:
 *
 *   old process                      API                     new process
 *   pod a gets gpu-1  --(late)-->                            takes the lease at revision 90
 *   crashes                                                  a is pending, so gpu-1 is free: pod b gets it
 *                                    a has gpu-1, b too
 *
 * Every write carries the resourceVersion of the pod that it was decided on. So pods that were pending before the lease
 * was taken are written first; from then on no write of the predecessor can land on them. Only then are devices
 * allocated.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { marks } from "../../model/profiles/marks.ts";
import { isAtLeast, type Revision } from "../../model/revision.ts";
import { identityOf, type NodeWrite, podRef } from "../node/nodeWrite.ts";
import { isAdmitted } from "./admission.ts";

/** Whether a write of the predecessor may still allocate devices to this pod. */
export function mayBeAllocatedByPredecessor(pod: Pod, fence: Revision): boolean {
  const { metadata, status } = pod;
  if (status?.phase === "Succeeded" || status?.phase === "Failed" || isAdmitted(pod)) return false;
  return isAtLeast(fence, metadata.resourceVersion);
}

/** A write that changes nothing but the version. */
export function fenceWrite({ metadata }: Pod, fence: Revision): NodeWrite<Pod> {
  const patch = { type: "merge", body: { metadata: { annotations: { [marks.fence]: fence } } } } as const;
  return { kind: "patch", ref: podRef(metadata), expected: identityOf(metadata), patch };
}

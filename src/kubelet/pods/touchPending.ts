/**
 * A node that has just started, or has taken over from another process, does not know which writes of its predecessor
 * are in flight:
 *
 *   old process                      API                     new process
 *   pod a gets gpu-1  --(late)-->                            takes the lease at revision 90
 *   crashes                                                  a is pending, so gpu-1 is free: pod b gets it
 *                                    a has gpu-1, b too
 *
 * Every write carries the resourceVersion of the pod that it was decided on. So the new process first touches each pod
 * that was pending before it took the lease: it writes an annotation, and with it a new resourceVersion. From then on
 * the API server refuses the predecessor's writes of these pods with a Conflict. Only then are devices allocated.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { marks } from "../../model/profiles/marks.ts";
import { isAtLeast, type Revision } from "../../model/revision.ts";
import { identityOf, type NodeWrite, podRef } from "../node/nodeWrite.ts";
import { isAdmitted } from "./admission.ts";

/**
 * Whether a write of the predecessor may still allocate devices to this pod: the pod is pending, and was last written
 * before `tookOverAt`, the revision at which this process took the lease.
 */
export function mayBeAllocatedByPredecessor(pod: Pod, tookOverAt: Revision): boolean {
  const { metadata, status } = pod;
  if (status?.phase === "Succeeded" || status?.phase === "Failed" || isAdmitted(pod)) return false;
  return isAtLeast(tookOverAt, metadata.resourceVersion);
}

/** Sets the annotation `sim.muster.dev/fence` to the revision of the take-over, only to change the resourceVersion. */
export function touchPending({ metadata }: Pod, tookOverAt: Revision): NodeWrite<Pod> {
  const patch = { type: "merge", body: { metadata: { annotations: { [marks.fence]: tookOverAt } } } } as const;
  return { kind: "patch", ref: podRef(metadata), expected: identityOf(metadata), patch };
}

/**
 * From a decision to a claim that is allocated and reserved, one write at a time; and back. Each write carries the
 * state that it was decided on, and after a conflict everything is read again from the first step:
 *
 *   scheduler                          controller
 *   t0  claim has its finalizer
 *   t1                                 clears the old allocation
 *   t2  sees the finalizer, skips it
 *   t3                                 removes the finalizer
 *   t4  writes the allocation          -> conflict: the claim has changed, and gets its finalizer first
 */

import { expectedOf, type Intent, type IntentTarget } from "../../../model/intent.ts";
import type {
  AllocationResult,
  Pod,
  PodGroup,
  ResourceClaim,
  ResourceClaimConsumerReference,
} from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { formatTime } from "../../../model/values/time.ts";
import { claimKind } from "../claimTracker.ts";
import { deleteProtection, isReservedFor } from "./podClaims.ts";
import { type GroupName, groupReference } from "./podsGroup.ts";

export type BindStep =
  | { readonly kind: "write"; readonly intent: Intent }
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly why: string };

export interface BindInput {
  /** The newest known version: from an answer, the watch, or a consistent read. */
  readonly claim: ResourceClaim;
  readonly uid: string;
  /** The decided allocation; undefined when it was allocated already. */
  readonly allocation: AllocationResult | undefined;
  readonly pod: Pod;
  /** The group that the claim is reserved for, where it belongs to a group. */
  readonly group?: GroupName;
  readonly nowMs: number;
}

/** The next write on the way to a claim that is allocated and reserved for the pod. */
export function nextBindStep({ claim, uid, allocation, pod, group, nowMs }: BindInput): BindStep {
  const { name } = claim.metadata;
  if (claim.metadata.uid !== uid) return { kind: "failed", why: `claim ${name} was replaced` };
  if (claim.metadata.deletionTimestamp !== undefined) return { kind: "failed", why: `claim ${name} is being deleted` };
  const held = claim.status?.allocation;
  if (allocation === undefined && held === undefined) {
    return { kind: "failed", why: `claim ${name} got deallocated elsewhere` };
  }
  // Pods of one gang may decide the same; the second one only adds its reservation.
  if (allocation !== undefined && held !== undefined && !isSameAllocation(held, allocation)) {
    return { kind: "failed", why: `claim ${name} got allocated elsewhere` };
  }
  const user = group === undefined ? podReference(pod) : groupReference(group);
  if (held !== undefined && isReservedFor(claim, user.uid)) return { kind: "done" };
  if (held === undefined && claim.metadata.finalizers?.includes(deleteProtection) !== true) {
    const finalizers = [...(claim.metadata.finalizers ?? []), deleteProtection];
    const object = { ...claim, metadata: { ...claim.metadata, finalizers } };
    const why = "a claim must not be deleted while it is being allocated";
    return { kind: "write", intent: { type: "update", ...about(claim), object: asObject(object), why } };
  }
  const next: AllocationResult = held ?? (allocation as AllocationResult);
  const status = {
    ...claim.status,
    allocation:
      next.allocationTimestamp === undefined && held === undefined
        ? { ...next, allocationTimestamp: formatTime(nowMs) }
        : next,
    reservedFor: [...(claim.status?.reservedFor ?? []), user],
  };
  const why = held === undefined ? `allocated for pod ${pod.metadata.name}` : `reserved for pod ${pod.metadata.name}`;
  return { kind: "write", intent: { type: "status", ...about(claim), object: asObject({ ...claim, status }), why } };
}

/**
 * Removes the reservation of the pod or group from the claim; the allocation stays for other consumers, or for the
 * controller to clear.
 */
export function unreserve(claim: ResourceClaim, { kind, metadata }: Pod | PodGroup): Intent | undefined {
  if (claim.status?.allocation === undefined || !isReservedFor(claim, metadata.uid)) return undefined;
  const reservedFor = claim.status.reservedFor?.filter(({ uid }) => uid !== metadata.uid) ?? [];
  const { reservedFor: _before, ...rest } = claim.status;
  const status = reservedFor.length > 0 ? { ...rest, reservedFor } : rest;
  const why = kind === "PodGroup" ? `no pod of ${metadata.name} has a node` : `pod ${metadata.name} was not bound`;
  return { type: "status", ...about(claim), object: asObject({ ...claim, status }), why };
}

/** Deallocates the claim, because its allocation keeps its only pod from every node. */
export function deallocate(claim: ResourceClaim, why: string): Intent {
  const { allocation: _a, reservedFor: _r, devices: _d, ...status } = claim.status ?? {};
  return { type: "status", ...about(claim), object: asObject({ ...claim, status }), why };
}

/** Claims that may be deallocated: no other pod uses them. */
export function mayDeallocate(claim: ResourceClaim, { metadata }: Pod | PodGroup): boolean {
  if (claim.status?.allocation === undefined) return false;
  return (claim.status.reservedFor ?? []).every(({ uid }) => uid === metadata.uid);
}

export function podReference({ metadata }: Pod): ResourceClaimConsumerReference {
  return { resource: "pods", name: metadata.name, uid: metadata.uid };
}

export function claimTarget({ metadata }: ResourceClaim): IntentTarget {
  return { ...claimKind, namespace: metadata.namespace ?? "", name: metadata.name };
}

/** The time stamp is not part of the comparison. */
function isSameAllocation(a: AllocationResult, b: AllocationResult): boolean {
  const { allocationTimestamp: _a, ...left } = a;
  const { allocationTimestamp: _b, ...right } = b;
  return equalFields(left, right);
}

function about(claim: ResourceClaim): { target: IntentTarget; expected: ReturnType<typeof expectedOf> } {
  return { target: claimTarget(claim), expected: expectedOf(asObject(claim)) };
}

function asObject(claim: ResourceClaim): KubeObject {
  return claim;
}

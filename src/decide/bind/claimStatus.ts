/** What a bind writes into the claims of its pod: the devices that were chosen, and that the pod uses them. */
import type { NewObject } from "../../model/intent.ts";
import type { Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { sha256Hex } from "../../model/sha256.ts";

export const claimsRef = { group: "resource.k8s.io", version: "v1", plural: "resourceclaims" } as const;

/** On a claim that stands for extended resources of a pod. */
const extendedAnnotation = "resource.kubernetes.io/extended-resource-claim";
const deleteProtection = "resource.kubernetes.io/delete-protection";

export type ExtendedAllocation = {
  allocation?: unknown;
  deviceRequests?: unknown[];
  containerMappings?: unknown[];
};

/** The name of the claim behind an entry of `spec.resourceClaims`; undefined while nobody has made it from its template. */
export function claimNameOf(pod: Pod, entry: string): string | undefined {
  const asked = pod.spec?.resourceClaims?.find(({ name }) => name === entry);
  if (asked?.resourceClaimName !== undefined) return asked.resourceClaimName;
  return pod.status?.resourceClaimStatuses?.find(({ name }) => name === entry)?.resourceClaimName;
}

/**
 * The claim as the bind wants it: an allocation that is there stays, and the pod is among its users once. Undefined when it
 * is so already; a text when it cannot be.
 */
export function claimedFor(claim: ResourceClaim, pod: Pod, allocation: unknown): ResourceClaim | string | undefined {
  const status = claim.status ?? {};
  const kept = status.allocation ?? (allocation as typeof status.allocation);
  if (kept === undefined || kept === null)
    return `claim ${claim.metadata.name} has no devices and none were chosen for it`;
  if (claim.metadata.deletionTimestamp !== undefined) return `claim ${claim.metadata.name} is being deleted`;
  const reservedFor = status.reservedFor ?? [];
  const { name, uid } = pod.metadata;
  const isUser = reservedFor.some((user) => user.uid === uid);
  if (isUser && status.allocation !== undefined) return undefined;
  const users = isUser ? reservedFor : [...reservedFor, { resource: "pods", name, uid }];
  return { ...claim, status: { ...status, allocation: kept, reservedFor: users } };
}

/** Derived from the pod, so that a bind that is tried again finds the claim of the first try. */
export function extendedClaimName({ metadata }: Pod): string {
  return `${metadata.name.slice(0, 230)}-extended-resources-${sha256Hex(metadata.uid, 3)}`;
}

/** The claim that stands for the extended resources that a pod gets from devices. */
export function extendedClaim(pod: Pod, { deviceRequests = [] }: ExtendedAllocation): NewObject {
  const { namespace = "", name, uid } = pod.metadata;
  const owner = { apiVersion: "v1", kind: "Pod", name, uid, controller: true, blockOwnerDeletion: true };
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: {
      name: extendedClaimName(pod),
      namespace,
      annotations: { [extendedAnnotation]: "true" },
      finalizers: [deleteProtection],
      ownerReferences: [owner],
    },
    spec: { devices: { requests: deviceRequests } },
  };
}

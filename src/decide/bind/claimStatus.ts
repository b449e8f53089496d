/** What a bind writes into the claims of its pod: the chosen devices, and the reservation for the pod. */
import type { NewObject } from "../../model/intent.ts";
import type { AllocationResult, DeviceRequest, Node, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { Json } from "../../model/objects/json.ts";
import { matchesNodeSelector } from "../../model/objects/nodeMatch.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";
import { type BindStep, nextBindStep } from "../devices/claims/bindClaim.ts";
import { extendedClaimName } from "../devices/claims/extendedClaim.ts";
import { deleteProtection, isOwnedBy } from "../devices/claims/podClaims.ts";
import type { GroupName } from "../devices/claims/podsGroup.ts";
import { attemptAnnotation } from "./attemptMark.ts";

export const claimsRef = builtin.ResourceClaim;

/** On a claim for the extended resources of a pod. */
const extendedAnnotation = "resource.kubernetes.io/extended-resource-claim";

/** On a BindRequest: the PodGroup that claims of the pod are reserved for, and the entries of those claims. */
export const groupClaimsAnnotation = "muster.dev/group-claims";

/** The group that the claim of an entry is reserved for; undefined where it is reserved for the pod itself. */
export function groupOfClaim({ metadata }: BindRequest, entry: string): GroupName | undefined {
  const text = metadata.annotations?.[groupClaimsAnnotation];
  if (text === undefined) return undefined;
  const { uid, name, entries } = JSON.parse(text) as { uid: string; name: string; entries: readonly string[] };
  return entries.includes(entry) ? { metadata: { uid, name } } : undefined;
}

export type ExtendedAllocation = {
  allocation?: AllocationResult;
  deviceRequests?: DeviceRequest[];
  containerMappings?: Json[];
};

/**
 * The name of the claim behind an entry of `spec.resourceClaims`; undefined while it is not yet created from its
 * template.
 */
export function claimNameOf(pod: Pod, entry: string): string | undefined {
  const asked = pod.spec?.resourceClaims?.find(({ name }) => name === entry);
  if (asked?.resourceClaimName !== undefined) return asked.resourceClaimName;
  return pod.status?.resourceClaimStatuses?.find(({ name }) => name === entry)?.resourceClaimName;
}

/**
 * The next write that allocates and reserves a claim for the pod. Devices that the claim has already are kept, whatever
 * was chosen: other pods may use them. But the node must be able to reach them: a claim that an earlier bind allocated
 * on another node blocks the bind.
 */
export function nextClaimStep(about: {
  readonly claim: ResourceClaim;
  readonly allocation: AllocationResult | null | undefined;
  readonly pod: Pod;
  readonly node: Node;
  readonly group?: GroupName | undefined;
  readonly nowMs: number;
}): BindStep {
  const { claim, pod, node, group, nowMs } = about;
  const held = claim.status?.allocation;
  const chosen = about.allocation ?? undefined;
  const { name, uid } = claim.metadata;
  if (held === undefined && chosen === undefined) {
    return { kind: "failed", why: `claim ${name} has no devices and none were chosen for it` };
  }
  const selector = (held ?? chosen)?.nodeSelector;
  if (selector !== undefined && !matchesNodeSelector(selector, node)) {
    const whose = held === undefined ? "was given" : "already has";
    return { kind: "failed", why: `claim ${name} ${whose} devices that node ${node.metadata.name} cannot reach` };
  }
  const allocation = held === undefined ? chosen : undefined;
  return nextBindStep({ claim, uid, allocation, pod, nowMs, ...(group !== undefined && { group }) });
}

/** Whether the claim is for the extended resources of this pod (by UID), whatever created it. */
export function isExtendedClaimOf(claim: ResourceClaim, pod: Pod): boolean {
  return claim.metadata.annotations?.[extendedAnnotation] === "true" && isOwnedBy(claim, pod);
}

/**
 * The claim for the extended resources that a pod gets from devices. Its name is derived from the pod, so that two
 * attempts create one claim.
 */
export function extendedClaim(
  pod: Pod,
  { deviceRequests = [] }: ExtendedAllocation,
  attempt: string,
): NewObject<ResourceClaim> {
  const { namespace = "", name, uid } = pod.metadata;
  const owner = { apiVersion: "v1", kind: "Pod", name, uid, controller: true, blockOwnerDeletion: true };
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: {
      name: extendedClaimName(pod),
      namespace,
      annotations: { [extendedAnnotation]: "true", [attemptAnnotation]: attempt },
      finalizers: [deleteProtection],
      ownerReferences: [owner],
    },
    spec: { devices: { requests: deviceRequests } },
  };
}

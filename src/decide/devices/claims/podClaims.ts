/** Which claims a pod uses, and whether they exist. */
import type { Pod, PodGroup, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { groupOfEntry, type PodsGroup } from "./podsGroup.ts";

/** Keeps an allocated claim from being deleted. */
export const deleteProtection = "resource.kubernetes.io/delete-protection";
/** On a generated claim: the entry of the pod it was made for. */
export const podClaimNameAnnotation = "resource.kubernetes.io/pod-claim-name";

export interface PodClaim {
  /** Name of the entry in the pod. */
  readonly entry: string;
  readonly claim: ResourceClaim;
  /** The group that the claim is for, and is reserved for; undefined where the pod uses it by itself. */
  readonly group?: PodGroup;
}

export type PodClaims =
  | { readonly ok: true; readonly claims: readonly PodClaim[] }
  | { readonly ok: false; readonly why: string };

export type GetClaim = (namespace: string, name: string) => ResourceClaim | undefined;

/** Every claim once, in the order of the pod; two entries may name the same one. */
export function claimsOfPod(pod: Pod, get: GetClaim, podsGroup: PodsGroup = "none"): PodClaims {
  const claims: PodClaim[] = [];
  const seen = new Set<string>();
  const { namespace = "" } = pod.metadata;
  if (podsGroup === "missing") {
    return { ok: false, why: `PodGroup ${pod.spec?.schedulingGroup?.podGroupName} does not exist yet` };
  }
  for (const each of pod.spec?.resourceClaims ?? []) {
    const { name: entry, resourceClaimName, resourceClaimTemplateName } = each;
    const group = groupOfEntry(podsGroup, each);
    const isGenerated = resourceClaimName === undefined && resourceClaimTemplateName !== undefined;
    let name = resourceClaimName;
    if (isGenerated) {
      const made = pod.status?.resourceClaimStatuses?.find((status) => status.name === entry);
      if (made === undefined)
        return { ok: false, why: `the ResourceClaim of spec.resourceClaims entry ${entry} does not exist yet` };
      // A template that needs no claim is recorded without a name.
      if (made.resourceClaimName === undefined) continue;
      name = made.resourceClaimName;
    }
    if (name === undefined)
      return { ok: false, why: `spec.resourceClaims entry ${entry} names neither a ResourceClaim nor a template` };
    const claim = get(namespace, name);
    if (claim === undefined) return { ok: false, why: `ResourceClaim ${name} does not exist yet` };
    if (claim.metadata.deletionTimestamp !== undefined) {
      return { ok: false, why: `ResourceClaim ${name} is being deleted` };
    }
    if (isGenerated && !isOwnedBy(claim, group ?? pod)) {
      const whose = group === undefined ? `Pod ${namespace}/${pod.metadata.name}` : `PodGroup ${group.metadata.name}`;
      return { ok: false, why: `ResourceClaim ${name} was not created for ${whose}` };
    }
    if (seen.has(claim.metadata.uid)) continue;
    seen.add(claim.metadata.uid);
    claims.push({ entry, claim, ...(group !== undefined && { group }) });
  }
  return { ok: true, claims };
}

/** The claims that a pod has or had, in any state; without those that are not created yet. */
export function heldClaimsOf(pod: Pod, get: GetClaim): readonly PodClaim[] {
  const claims = new Map<string, PodClaim>();
  const { namespace = "" } = pod.metadata;
  for (const { name: entry, resourceClaimName } of pod.spec?.resourceClaims ?? []) {
    const made = pod.status?.resourceClaimStatuses?.find((status) => status.name === entry);
    const name = resourceClaimName ?? made?.resourceClaimName;
    const claim = name === undefined ? undefined : get(namespace, name);
    if (claim === undefined || claims.has(claim.metadata.uid)) continue;
    if (resourceClaimName === undefined && !isOwnedBy(claim, pod)) continue;
    claims.set(claim.metadata.uid, { entry, claim });
  }
  return [...claims.values()];
}

export function isOwnedBy(claim: ResourceClaim, owner: { readonly metadata: { readonly uid: string } }): boolean {
  return (
    claim.metadata.ownerReferences?.some(({ controller, uid }) => controller === true && uid === owner.metadata.uid) ===
    true
  );
}

/** Of the claims of one owner, the one for the entry. */
export function claimForEntry(owned: readonly ResourceClaim[], entry: string): ResourceClaim | undefined {
  return owned.find(({ metadata }) => metadata.annotations?.[podClaimNameAnnotation] === entry);
}

export function isReservedFor(claim: ResourceClaim, uid: string): boolean {
  return claim.status?.reservedFor?.some((each) => each.uid === uid) === true;
}

/** Whether the pod will never use a device again. */
export function isFinished(pod: Pod): boolean {
  const phase = pod.status?.phase;
  if (phase === "Succeeded" || phase === "Failed") return true;
  // Deleted before it had a node: the API binds no terminating pod.
  return pod.metadata.deletionTimestamp !== undefined && !pod.spec?.nodeName;
}

/** ResourceClaims by name, and the claim of an entry of `spec.resourceClaims`. */
import type { Pod, PodResourceClaim, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { type ClusterSnapshot, objectsOf } from "./clusterSnapshot.ts";

const cache = new WeakMap<ClusterSnapshot, ReadonlyMap<string, ResourceClaim>>();

/** `namespace/name` to claim. */
export function claimsByKey(snapshot: ClusterSnapshot): ReadonlyMap<string, ResourceClaim> {
  let index = cache.get(snapshot);
  if (index === undefined) {
    const claims = objectsOf<ResourceClaim>(snapshot, "resourceclaims");
    index = new Map(claims.map((claim) => [`${claim.metadata.namespace ?? ""}/${claim.metadata.name}`, claim]));
    cache.set(snapshot, index);
  }
  return index;
}

export type ClaimOfPod =
  | { readonly type: "named"; readonly name: string }
  /** The claim is not created from its template yet, or its name is not recorded. */
  | { readonly type: "not made"; readonly template: string }
  /** The status records that the pod needs no claim. */
  | { readonly type: "none" };

export function claimOfPod(pod: Pod, entry: PodResourceClaim): ClaimOfPod {
  if (entry.resourceClaimName !== undefined) return { type: "named", name: entry.resourceClaimName };
  const recorded = pod.status?.resourceClaimStatuses?.find(({ name }) => name === entry.name);
  if (recorded === undefined) return { type: "not made", template: entry.resourceClaimTemplateName ?? "" };
  return recorded.resourceClaimName === undefined
    ? { type: "none" }
    : { type: "named", name: recorded.resourceClaimName };
}

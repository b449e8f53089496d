import type { Pod, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { isFinished, isLeaving } from "../../../model/objects/podFacts.ts";
import type { Evidence } from "../../verify/check.ts";
import { claimsNotHeld } from "../../verify/checks/claimsAllocated.ts";
import { claimOfPod } from "../../verify/claims.ts";
import { type ClusterSnapshot, objectsOf } from "../../verify/clusterSnapshot.ts";
import { type AuditCheck, settle } from "../auditCheck.ts";

export const claimChecks: readonly AuditCheck[] = [
  {
    name: "claim-of-missing-pod",
    meaning: "a ResourceClaim is reserved for, or allocated to, pods that are gone or have ended: its devices are lost",
    cause: "the resource claim controller, or the scheduler that allocated the claim, does not run or may not write",
    cure: "start kube-controller-manager with DRA; then delete the claim, or remove the pods from status.reservedFor",
    settleMs: settle.chain,
    needs: ["pods", "resourceclaims"],
    find: claimsOfMissingPods,
  },
  {
    name: "claim-not-allocated",
    meaning: "a pod is on a node, but a claim of it is missing, not allocated, not reserved, or of another node",
    cause: "the pod was bound by a scheduler without DRA, its claim was deleted, or the driver of the node is gone",
    cure: "delete the pod; correct schedulerName, or start the DRA driver on the node",
    settleMs: settle.agent,
    needs: ["pods", "nodes", "resourceclaims", "resourceslices"],
    find: claimsNotHeld,
  },
];

function claimsOfMissingPods(snapshot: ClusterSnapshot): Evidence[] {
  const claims = objectsOf<ResourceClaim>(snapshot, "resourceclaims");
  if (claims.length === 0) return [];
  const pods = new Map(objectsOf<Pod>(snapshot, "pods").map((pod) => [pod.metadata.uid, pod]));
  const wanted = new Set<string>();
  for (const pod of pods.values()) {
    if (isFinished(pod)) continue;
    const extended = pod.status?.extendedResourceClaimStatus?.resourceClaimName;
    if (extended !== undefined) wanted.add(`${pod.metadata.namespace ?? ""}/${extended}`);
    for (const entry of pod.spec?.resourceClaims ?? []) {
      const claim = claimOfPod(pod, entry);
      if (claim.type === "named") wanted.add(`${pod.metadata.namespace ?? ""}/${claim.name}`);
    }
  }
  return claims.flatMap(({ metadata, status }) => {
    const key = `${metadata.namespace ?? ""}/${metadata.name}`;
    const object = `resourceclaims/${key}`;
    const consumers = status?.reservedFor ?? [];
    const lost = consumers.flatMap(({ resource, name, uid }) => {
      if (resource !== "pods") return [];
      const pod = pods.get(uid);
      if (pod === undefined) return [`${name}, which does not exist`];
      return isFinished(pod) ? [`${name}, which has ended`] : [];
    });
    if (lost.length > 0) return [{ object, problem: `is reserved for ${lost.join(", ")}` }];
    // A claim that is being deleted is released by its finalizer.
    if (status?.allocation === undefined || status.allocation === null) return [];
    if (consumers.length > 0 || wanted.has(key) || isLeaving({ metadata } as Pod)) return [];
    return [{ object, problem: "is allocated, but reserved for no pod and used by none" }];
  });
}

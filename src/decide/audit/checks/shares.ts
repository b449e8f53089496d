import type { Pod } from "../../../model/kubernetes.generated.ts";
import { gpuGroupsOfLabels } from "../../../model/scheduling/keys.ts";
import type { Evidence } from "../../verify/check.ts";
import { sharesOverOne, sharesWithoutReservation, unusedReservations } from "../../verify/checks/reservations.ts";
import type { ClusterSnapshot } from "../../verify/clusterSnapshot.ts";
import { placementOf } from "../../verify/placement.ts";
import { type AuditCheck, settle } from "../auditCheck.ts";
import { pluginGpus } from "../gpus.ts";

/**
 * Without what is said of pods beside a reservation of another namespace or name than KAI's usual ones: a pod of a GPU
 * group that itself has a whole GPU from the device plugin reserves it.
 */
function besidesOtherReservations(snapshot: ClusterSnapshot, evidence: readonly Evidence[]): readonly Evidence[] {
  if (evidence.length === 0) return evidence;
  const { live, podsByKey } = placementOf(snapshot);
  const groupsOf = (pod: Pod): string[] =>
    gpuGroupsOfLabels(pod.metadata.labels).map((group) => `${pod.spec?.nodeName ?? ""}/${group}`);
  const held = new Set(live.filter((pod) => pluginGpus(pod).size > 0).flatMap(groupsOf));
  return evidence.filter(({ object }) => {
    const pod = podsByKey.get(object.replace(/^pods\//, ""));
    if (pod === undefined) return true;
    return pluginGpus(pod).size === 0 && !groupsOf(pod).every((group) => held.has(group));
  });
}

export const shareChecks: readonly AuditCheck[] = [
  {
    name: "reservation-unused",
    meaning: "a reservation pod holds a whole GPU of which no pod has a share",
    cause: "the pods of the GPU group ended or were deleted while the component that deletes reservations did not run",
    cure: "start the binder, which deletes it; or delete the reservation pod",
    settleMs: settle.chain,
    needs: ["pods", "bindrequests"],
    find: unusedReservations,
  },
  {
    name: "share-without-reservation",
    meaning: "a pod has a share of a GPU that no reservation pod holds, so that the GPU may be allocated again",
    cause: "the reservation pod was deleted or evicted, or the node lost it, while the pods of its GPU group ran on",
    cure: "delete the pod, so that it is bound again with a reservation",
    settleMs: settle.chain,
    needs: ["pods"],
    find: (snapshot) => besidesOtherReservations(snapshot, sharesWithoutReservation(snapshot)),
  },
  {
    name: "shares-over-one",
    meaning: "the shares of one GPU sum to more than the GPU, or are not valid",
    cause: "two binders, or an edited annotation gpu-fraction or gpu-memory of a bound pod",
    cure: "delete pods of the group until the shares sum to at most one",
    settleMs: settle.controller,
    needs: ["pods", "nodes"],
    find: (snapshot) => besidesOtherReservations(snapshot, sharesOverOne(snapshot)),
  },
];

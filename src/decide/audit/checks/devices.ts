import { reportedIds } from "../../devices/physicalGpus.ts";
import type { Evidence } from "../../verify/check.ts";
import { devicesOvercommitted } from "../../verify/checks/claimsAllocated.ts";
import { gpusAllocatedTwoWays } from "../../verify/checks/gpusAllocatedOnce.ts";
import { duplicateReservations } from "../../verify/checks/reservations.ts";
import type { ClusterSnapshot } from "../../verify/clusterSnapshot.ts";
import { placementOf, podName } from "../../verify/placement.ts";
import { type AuditCheck, settle } from "../auditCheck.ts";

const gpuGivenTwice: AuditCheck = {
  name: "gpu-given-twice",
  meaning: "one GPU, or one partition of it, is allocated to several holders",
  cause:
    "two schedulers, or a device plugin and a DRA driver, give out the same GPU without knowledge of each other; " +
    "or a reservation was made twice",
  cure: "delete one of the pods; offer each GPU in one way only, and run one scheduler for each node",
  settleMs: settle.controller,
  needs: ["pods", "nodes", "resourceclaims", "resourceslices", "deviceclasses"],
  find: (snapshot) => [
    ...gpusAllocatedTwoWays(snapshot).evidence,
    ...devicesOvercommitted(snapshot),
    ...duplicateReservations(snapshot),
    ...reportedTwice(snapshot),
  ],
};

/** Pods of one node that report the same device of the device plugin. */
function reportedTwice(snapshot: ClusterSnapshot): Evidence[] {
  const { nodes, liveByNode } = placementOf(snapshot);
  return [...liveByNode].flatMap(([name, pods]) => {
    // Replicas of a GPU are meant to be given to several pods.
    if (isReplicated(nodes.get(name)?.metadata.labels)) return [];
    const first = new Map<string, string>();
    return pods.flatMap((pod) =>
      [...new Set(reportedIds(pod))].flatMap((id) => {
        const other = first.get(id);
        if (other === undefined) {
          first.set(id, podName(pod));
          return [];
        }
        return [{ object: podName(pod), problem: `has GPU ${id} of node ${name}, which ${other} has too` }];
      }),
    );
  });
}

/** Time slicing and MPS: GPU feature discovery labels both. */
function isReplicated(labels: Readonly<Record<string, string>> | undefined): boolean {
  const strategy = labels?.["nvidia.com/gpu.sharing-strategy"] ?? "none";
  return strategy !== "none" || Number(labels?.["nvidia.com/gpu.replicas"] ?? "1") > 1;
}

export const deviceChecks: readonly AuditCheck[] = [gpuGivenTwice];

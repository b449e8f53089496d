import { isLeaving } from "../../../model/objects/podFacts.ts";
import { partiallyBound, splitAcrossDomains } from "../../verify/checks/gangsComplete.ts";
import type { ClusterSnapshot } from "../../verify/clusterSnapshot.ts";
import type { Gang } from "../../verify/gangs.ts";
import { isBound, isFinished, placementOf } from "../../verify/placement.ts";
import { allGangs, gangKinds } from "../allGangs.ts";
import { type AuditCheck, settle } from "../auditCheck.ts";

const needs = ["pods", "nodes", ...gangKinds] as const;

/** Gangs with members on nodes, none of which is being deleted: a gang that starts to end is not half placed. */
function runningGangs(snapshot: ClusterSnapshot): readonly Gang[] {
  return allGangs(snapshot).filter(
    ({ members }) => members.some((pod) => isBound(pod) && !isFinished(pod)) && !members.some(isLeaving),
  );
}

export const gangChecks: readonly AuditCheck[] = [
  {
    name: "gang-half-placed",
    meaning: "a gang holds resources with fewer bound pods than its minimum, so that it cannot make progress",
    cause: "a scheduler without gang scheduling bound its pods, or members failed or were evicted and not replaced",
    cure: "delete the bound pods of the gang, or the workload, and create it with a gang scheduler in schedulerName",
    settleMs: settle.chain,
    needs,
    find: (snapshot) => runningGangs(snapshot).flatMap(partiallyBound),
  },
  {
    name: "gang-split",
    meaning: "the members of a gang are in several domains of a topology level that the gang requires",
    cause: "labels of nodes changed, or a scheduler that ignores the topology replaced a member",
    cure: "correct the labels of the nodes, or delete the pods of the gang, so that they are placed together",
    settleMs: settle.controller,
    needs,
    find: (snapshot) => runningGangs(snapshot).flatMap((gang) => splitAcrossDomains(gang, placementOf(snapshot))),
  },
];

import type { Pod } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { isLeaving } from "../../../model/objects/podFacts.ts";
import { type BindRequest, podUidOf } from "../../../model/scheduling/bindRequest.ts";
import { annotationKeys } from "../../../model/scheduling/keys.ts";
import type { Evidence } from "../../verify/check.ts";
import { staleRequest } from "../../verify/checks/nothingStale.ts";
import { parentsOf } from "../../verify/checks/queuesWithinLimits.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../../verify/clusterSnapshot.ts";
import { gangsOf, record, text } from "../../verify/gangs.ts";
import { isBound, isFinished, podName } from "../../verify/placement.ts";
import { type AuditCheck, settle } from "../auditCheck.ts";

export const schedulingObjectChecks: readonly AuditCheck[] = [
  {
    name: "bindrequest-stuck",
    meaning: "a BindRequest has not succeeded two minutes after its creation, or its pod is gone",
    cause: "the binder does not run, may not write, or fails on the pod again and again",
    cure: "read status.reason of the BindRequest and the log of the binder; delete the BindRequest if its pod is gone",
    settleMs: settle.chain,
    needs: ["pods", "bindrequests"],
    find: (snapshot) => {
      const uids = new Set(objectsOf<Pod>(snapshot, "pods").map(({ metadata }) => metadata.uid));
      return objectsOf<BindRequest>(snapshot, "bindrequests").flatMap((request) =>
        stuckRequest(request, uids, snapshot),
      );
    },
  },
  {
    name: "podgroup-stuck",
    meaning: "pods wait for a PodGroup that does not exist, or for one whose queue does not exist",
    cause: "the PodGroup or the queue was deleted or misspelt, or the component that creates PodGroups does not run",
    cure: "create the queue, or correct the queue of the workload; start the pod grouper, or delete the pods",
    settleMs: settle.chain,
    needs: ["pods", "podgroups", "queues"],
    find: (snapshot) => [...withoutGroup(snapshot), ...withoutQueue(snapshot)],
  },
];

function stuckRequest(request: BindRequest, uids: ReadonlySet<string>, { takenAtMs }: ClusterSnapshot): Evidence[] {
  const uid = podUidOf(request);
  if (uid === undefined || uids.has(uid)) return staleRequest(request as KubeObject, takenAtMs);
  const { namespace = "", name } = request.metadata;
  const pod = request.spec?.podName ?? "";
  return [{ object: `bindrequests/${namespace}/${name}`, problem: `its pod ${pod} does not exist` }];
}

function isWaiting(pod: Pod): boolean {
  return !isBound(pod) && !isFinished(pod) && !isLeaving(pod);
}

function withoutGroup(snapshot: ClusterSnapshot): Evidence[] {
  if (!isServed(snapshot, "podgroups")) return [];
  const groups = new Set(objectsOf(snapshot, "podgroups").map(keyOf));
  return objectsOf<Pod>(snapshot, "pods").flatMap((pod) => {
    const group = pod.metadata.annotations?.[annotationKeys.podGroup];
    if (group === undefined || !isWaiting(pod) || groups.has(`${pod.metadata.namespace ?? ""}/${group}`)) return [];
    return [{ object: podName(pod), problem: `waits for PodGroup ${group}, which does not exist` }];
  });
}

function withoutQueue(snapshot: ClusterSnapshot): Evidence[] {
  if (!isServed(snapshot, "queues")) return [];
  const parents = parentsOf(snapshot);
  const inner = new Set(parents.values());
  const waiting = new Set(gangsOf(snapshot).flatMap(({ name, members }) => (members.some(isWaiting) ? [name] : [])));
  return objectsOf(snapshot, "podgroups").flatMap((group) => {
    const object = `podgroups/${keyOf(group)}`;
    const queue = text(record(group["spec"])["queue"]);
    if (queue === "" || !waiting.has(object)) return [];
    if (!parents.has(queue)) return [{ object, problem: `is in queue ${queue}, which does not exist` }];
    if (inner.has(queue))
      return [{ object, problem: `is in queue ${queue}, which has queues below it and runs no pods` }];
    return [];
  });
}

function keyOf({ metadata }: KubeObject): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}

import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { type Check, type Evidence, passOrFail } from "../check.ts";
import { objectsOf } from "../clusterSnapshot.ts";
import { record, text } from "../gangs.ts";
import { isFinished, placementOf, podName } from "../placement.ts";

/** Longer than a bind with its reservation and all retries takes. */
const bindMsMax = 120_000;
/** Tolerance for clock differences and for the kubelet to delete the pod. */
const slackMs = 30_000;

export const nothingStale: Check = {
  id: "S15",
  title: "no stale bind requests, no pods past their grace period, no pods on cordoned nodes",
  byDefault: false,
  settles: true,
  needs: ["pods", "nodes", "bindrequests"],
  run: ({ snapshot, tally, config }) => {
    const nowMs = snapshot.takenAtMs;
    const excluded = new Set(config.excluded);
    const evidence: Evidence[] = [
      ...objectsOf(snapshot, "bindrequests").flatMap((request) => staleRequest(request, nowMs)),
      ...tally.pods.flatMap((pod) => overdue(pod, nowMs)),
      ...objectsOf<Node>(snapshot, "nodes")
        .filter(({ spec }) => spec?.unschedulable === true)
        .flatMap(({ metadata }) =>
          (placementOf(snapshot).liveByNode.get(metadata.name) ?? [])
            .filter((pod) => !excluded.has(pod.metadata.namespace ?? "") && !isOfDaemonSet(pod))
            .map((pod) => ({ object: podName(pod), problem: `is on the cordoned node ${metadata.name}` })),
        ),
    ];
    return passOrFail(evidence, "no stale objects");
  },
};

/** A BindRequest that has not succeeded in the time of a bind. */
export function staleRequest(request: KubeObject, nowMs: number): Evidence[] {
  const { namespace = "", name, creationTimestamp } = request.metadata;
  const ageMs = nowMs - (timeToMs(creationTimestamp) ?? nowMs);
  const phase = text(record(request["status"])["phase"]);
  if (ageMs <= bindMsMax || phase === "Succeeded") return [];
  const problem = `${phase === "" ? "unfinished" : phase}, created ${Math.floor(ageMs / 1000)} s ago`;
  return [{ object: `bindrequests/${namespace}/${name}`, problem }];
}

/** A pod that is not finished although its grace period ended more than `lateMs` ago. */
export function overdue(pod: Pod, nowMs: number, lateMs = slackMs): Evidence[] {
  const untilMs = timeToMs(pod.metadata.deletionTimestamp);
  if (untilMs === undefined || isFinished(pod) || nowMs - untilMs <= lateMs) return [];
  return [{ object: podName(pod), problem: `should have been deleted ${Math.floor((nowMs - untilMs) / 1000)} s ago` }];
}

export function isOfDaemonSet({ metadata }: Pod): boolean {
  return metadata.ownerReferences?.some(({ kind }) => kind === "DaemonSet") === true;
}

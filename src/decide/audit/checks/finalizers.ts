import type { ResourceClaim } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { humanDuration } from "../../../model/values/humanDuration.ts";
import { timeToMs } from "../../../model/values/time.ts";
import type { Evidence } from "../../verify/check.ts";
import { isOfDaemonSet } from "../../verify/checks/nothingStale.ts";
import { type ClusterSnapshot, objectsOf } from "../../verify/clusterSnapshot.ts";
import { list, record, text } from "../../verify/gangs.ts";
import { placementOf } from "../../verify/placement.ts";
import { type KindName, readKind } from "../../verify/readKinds.ts";
import { type AuditCheck, settle, stuck } from "../auditCheck.ts";

const kinds = [
  "pods",
  "nodes",
  "namespaces",
  "services",
  "deployments",
  "statefulsets",
  "daemonsets",
  "jobs",
  "persistentvolumeclaims",
  "persistentvolumes",
  "resourceclaims",
  "podgroups",
  "bindrequests",
  "queues",
  "podcliquesets",
  "podcliquescalinggroups",
  "podcliques",
  "podgangs",
] as const satisfies readonly KindName[];

/** Finalizers that remain as long as another object needs the object: they are served, however long it takes. */
const protecting = new Set([
  "kubernetes.io/pvc-protection",
  "kubernetes.io/pv-protection",
  "foregroundDeletion",
  "orphan",
]);

export const finalizerChecks: readonly AuditCheck[] = [
  {
    name: "finalizer-unserved",
    meaning: "an object was deleted more than an hour ago, and a finalizer keeps it",
    cause: "the controller that removes the finalizer was uninstalled, does not run, or fails",
    cure: "start the controller; if it is gone for good, remove the finalizer from the object",
    settleMs: settle.chain,
    needs: kinds,
    find: (snapshot) =>
      kinds.flatMap((kind) => objectsOf(snapshot, kind).flatMap((object) => kept(kind, object, snapshot))),
  },
];

function kept(kind: KindName, object: KubeObject, snapshot: ClusterSnapshot): Evidence[] {
  const { namespace, name, deletionTimestamp } = object.metadata;
  const deletedMs = timeToMs(deletionTimestamp);
  if (deletedMs === undefined || snapshot.takenAtMs - deletedMs < stuck.finalizerMs) return [];
  const finalizers = [
    ...(object.metadata.finalizers ?? []),
    ...(kind === "namespaces" ? list(record(object["spec"])["finalizers"]).map(text) : []),
  ].filter((finalizer) => !protecting.has(finalizer));
  if (finalizers.length === 0 || isInUse(kind, object, snapshot)) return [];
  const path = [readKind(kind).plural, ...(namespace === undefined ? [] : [namespace]), name].join("/");
  const age = humanDuration(snapshot.takenAtMs - deletedMs);
  return [{ object: path, problem: `deleted ${age} ago, kept by ${finalizers.join(", ")}${remaining(object)}` }];
}

/** A claim that pods still have, and a node that is still drained, wait for others. */
function isInUse(kind: KindName, object: KubeObject, snapshot: ClusterSnapshot): boolean {
  if (kind === "resourceclaims") return ((object as ResourceClaim).status?.reservedFor ?? []).length > 0;
  if (kind !== "nodes") return false;
  return (placementOf(snapshot).liveByNode.get(object.metadata.name) ?? []).some((pod) => !isOfDaemonSet(pod));
}

/** Which objects keep a namespace, as its controller reports. */
function remaining({ status }: KubeObject): string {
  const conditions = list(record(status)["conditions"]).map(record);
  const messages = conditions.flatMap((condition) =>
    condition["status"] === "True" && /Remaining$/.test(text(condition["type"])) ? [text(condition["message"])] : [],
  );
  return messages.length === 0 ? "" : `: ${messages.join("; ")}`;
}

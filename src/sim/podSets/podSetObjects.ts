import type { NewObject } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject, OwnerReference, Unstored } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { ObjectRef } from "../../ports/kubeApi.ts";
import type { Effect } from "../../snapshot/ledger.ts";

/** Pods, sets and ownership, as the sample controller, its users and its invariants use them. */
export const podKind = builtin.Pod;
export const setKind = builtin.ReplicaSet;

/** Records the user of a pod on it. */
export const claimAnnotation = "example.com/claimed-by";
/** On the pod that is deleted first when its set asks for fewer. */
export const firstToGoAnnotation = "example.com/first-to-go";
/** Names the set that may adopt a pod without an owner. */
export const setLabel = "set";

/** Whether a pod counts for a set: observed by the watch, or decided and not yet observed. */
export type Presence = "live" | "gone";

/** A live pod counts for its set, under a name that the watch and an intent share. */
export function effectsOf(pod: KubeObject): readonly Effect<Presence>[] {
  const owner = controllerOf(pod);
  if (owner === undefined || hasEnded(pod) || isTerminating(pod)) return [];
  return [presence(owner.uid, pod.metadata.name)];
}

/** A pod that counts for the set that owns it. */
export function presence(ownerUid: string, podName: string): Effect<Presence> {
  return { key: `${ownerUid}/${podName}`, value: "live" };
}

/** The sets that a pod concerns: its owner, or the one that its label names. */
export function setsOf(pod: KubeObject): string[] {
  const name = controllerOf(pod)?.name ?? pod.metadata.labels?.[setLabel];
  return name === undefined ? [] : [`default/${name}`];
}

export function isOrphan(pod: KubeObject, setKey: string, set: KubeObject | undefined): boolean {
  const owner = controllerOf(pod);
  if (owner === undefined || isTerminating(pod) || `default/${owner.name}` !== setKey) return false;
  return owner.uid !== set?.metadata.uid;
}

export function isStray(pod: KubeObject, setName: string): boolean {
  if (controllerOf(pod) !== undefined || pod.metadata.labels?.[setLabel] !== setName) return false;
  return !isTerminating(pod) && !hasEnded(pod);
}

export function refTo<T extends KubeObject>(kind: Resource<T>, name: string): ObjectRef<T> {
  return { ...kind, namespace: "default", name };
}

export function controllerOf(object: Unstored): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find(({ controller }) => controller === true);
}

export function isClaimed(object: KubeObject): boolean {
  return object.metadata.annotations?.[claimAnnotation] !== undefined;
}

export function hasEnded(pod: KubeObject): boolean {
  const { phase } = (pod["status"] ?? {}) as { phase?: string };
  return phase === "Failed" || phase === "Succeeded";
}

export function isTerminating(object: KubeObject): boolean {
  return object.metadata.deletionTimestamp !== undefined;
}

export function replicasOf(set: KubeObject): number {
  return (set["spec"] as { replicas?: number }).replicas ?? 1;
}

export function ownerReference(set: KubeObject): OwnerReference {
  const { name, uid } = set.metadata;
  return { apiVersion: "apps/v1", kind: "ReplicaSet", name, uid, controller: true };
}

export function podOf(set: KubeObject, name: string): NewObject<Pod> {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      labels: { [setLabel]: set.metadata.name },
      ownerReferences: [ownerReference(set)],
    },
    spec: { containers: [{ name: "main", image: "registry/app:1" }] },
  };
}

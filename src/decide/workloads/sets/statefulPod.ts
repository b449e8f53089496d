/** A pod of a StatefulSet: it keeps its name and its volumes. */
import type {
  PersistentVolumeClaim,
  Pod,
  PodTemplateSpec,
  StatefulSet,
  Volume,
} from "../../../model/kubernetes.generated.ts";
import type { OwnerReference } from "../../../model/objects/object.ts";
import { podFromTemplate } from "../../../model/objects/ownership.ts";
import { revisionHashLabel } from "./controllerRevision.ts";

export const podNameLabel = "statefulset.kubernetes.io/pod-name";
export const podIndexLabel = "apps.kubernetes.io/pod-index";

export function podNameOf({ metadata }: StatefulSet, ordinal: number): string {
  return `${metadata.name}-${ordinal}`;
}

/** The ordinal in the pod's name; undefined if the name is not one of the set's. */
export function ordinalOf(set: StatefulSet, { metadata }: { metadata: { name: string } }): number | undefined {
  const prefix = `${set.metadata.name}-`;
  if (!metadata.name.startsWith(prefix)) return undefined;
  const text = metadata.name.slice(prefix.length);
  return /^(?:0|[1-9][0-9]*)$/.test(text) ? Number(text) : undefined;
}

export function claimNameOf(set: StatefulSet, template: PersistentVolumeClaim, ordinal: number): string {
  return `${template.metadata.name}-${podNameOf(set, ordinal)}`;
}

export interface Identity {
  readonly ordinal: number;
  readonly revision: string;
  readonly template: PodTemplateSpec;
}

export function statefulPod(set: StatefulSet, { ordinal, revision, template }: Identity) {
  const name = podNameOf(set, ordinal);
  const pod = podFromTemplate(set, template, name);
  const claims = set.spec?.volumeClaimTemplates ?? [];
  const own = new Set(claims.map(({ metadata }) => metadata.name));
  const volumes: Volume[] = [
    ...claims.map((claim) => ({
      name: claim.metadata.name,
      persistentVolumeClaim: { claimName: claimNameOf(set, claim, ordinal) },
    })),
    ...(pod.spec.volumes ?? []).filter((volume) => !own.has(volume.name)),
  ];
  const identity = { [podNameLabel]: name, [podIndexLabel]: String(ordinal), [revisionHashLabel]: revision };
  return {
    ...pod,
    metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, ...identity } },
    spec: {
      ...pod.spec,
      hostname: name,
      ...(set.spec?.serviceName !== undefined && { subdomain: set.spec.serviceName }),
      ...(volumes.length > 0 && { volumes }),
    },
  };
}

/** The owner of a claim: the set, a pod that is scaled down, or none. */
export function claimOwners(set: StatefulSet, pod: Pod | undefined, isCondemned: boolean): OwnerReference[] {
  const { whenDeleted = "Retain", whenScaled = "Retain" } = set.spec?.persistentVolumeClaimRetentionPolicy ?? {};
  if (isCondemned && whenScaled === "Delete" && pod !== undefined) {
    return [{ apiVersion: "v1", kind: "Pod", name: pod.metadata.name, uid: pod.metadata.uid }];
  }
  if (whenDeleted !== "Delete") return [];
  const { apiVersion, kind, metadata } = set;
  return [{ apiVersion, kind, name: metadata.name, uid: metadata.uid }];
}

export function newClaim(set: StatefulSet, template: PersistentVolumeClaim, ordinal: number) {
  const { namespace } = set.metadata;
  const { labels, annotations } = template.metadata;
  const owners = claimOwners(set, undefined, false);
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: claimNameOf(set, template, ordinal),
      ...(namespace !== undefined && { namespace }),
      labels: { ...labels, ...set.spec?.selector.matchLabels },
      ...(annotations && { annotations: { ...annotations } }),
      ...(owners.length > 0 && { ownerReferences: owners }),
    },
    spec: { ...template.spec },
  };
}

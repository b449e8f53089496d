/**
 * How PersistentVolumeClaims and PersistentVolumes belong together: names, annotations, and which volume a claim may
 * be bound to. The volume controller, the scheduler and the binder decide by the same facts.
 */
import type {
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  PersistentVolumeClaimTemplate,
  Pod,
  StorageClass,
} from "../kubernetes.generated.ts";
import { matchesLabels, selectorRequirements } from "../objects/labelSelector.ts";
import { matchesNodeSelector } from "../objects/nodeMatch.ts";
import { controllerOf } from "../objects/ownership.ts";
import { nanoOf } from "../objects/podRequests.ts";

/** Annotations that volume controllers, schedulers and provisioners agree on. */
export const volumeAnnotations = {
  /** On a claim: its binding was complete once. From then on a missing volume means lost data. */
  bindCompleted: "pv.kubernetes.io/bind-completed",
  /** On a claim or a volume: a controller chose the other one, and not a user. */
  boundByController: "pv.kubernetes.io/bound-by-controller",
  /** On a volume: the provisioner that created it, and that deletes it. */
  provisionedBy: "pv.kubernetes.io/provisioned-by",
  /** On a claim: the provisioner that has to create its volume. */
  provisioner: "volume.kubernetes.io/storage-provisioner",
  provisionerBeta: "volume.beta.kubernetes.io/storage-provisioner",
  /** On a claim: the node of its first pod. */
  selectedNode: "volume.kubernetes.io/selected-node",
  class: "volume.beta.kubernetes.io/storage-class",
  defaultClass: "storageclass.kubernetes.io/is-default-class",
} as const;

/** The provisioner of a class whose volumes are created by hand. */
export const noProvisioner = "kubernetes.io/no-provisioner";

/** The class of a claim; empty if it has none. */
export function classOfClaim({ metadata, spec }: PersistentVolumeClaim): string {
  return metadata.annotations?.[volumeAnnotations.class] ?? spec?.storageClassName ?? "";
}

export function classOfVolume({ metadata, spec }: PersistentVolume): string {
  return metadata.annotations?.[volumeAnnotations.class] ?? spec?.storageClassName ?? "";
}

/** Whether the class of a claim was left open: a default class may still be assigned. */
export function isClassOpen({ metadata, spec }: PersistentVolumeClaim): boolean {
  return spec?.storageClassName === undefined && metadata.annotations?.[volumeAnnotations.class] === undefined;
}

/** The newest of the classes that are marked as default. */
export function defaultClassOf(classes: Iterable<StorageClass>): StorageClass | undefined {
  let newest: StorageClass | undefined;
  for (const each of classes) {
    if (each.metadata.annotations?.[volumeAnnotations.defaultClass] !== "true") continue;
    const [a, b] = [each.metadata, newest?.metadata];
    const isNewer =
      b === undefined ||
      a.creationTimestamp > b.creationTimestamp ||
      (a.creationTimestamp === b.creationTimestamp && a.name < b.name);
    if (isNewer) newest = each;
  }
  return newest;
}

export function waitsForConsumer(storageClass: StorageClass | undefined): boolean {
  return storageClass?.volumeBindingMode === "WaitForFirstConsumer";
}

/** Whether a volume can be created for a claim of the class. */
export function isProvisionable({ provisioner }: StorageClass): boolean {
  return provisioner !== "" && provisioner !== noProvisioner;
}

/** Whether the binding of the claim is complete. */
export function isBoundClaim({ spec, status }: PersistentVolumeClaim): boolean {
  return status?.phase === "Bound" && (spec?.volumeName ?? "") !== "";
}

/**
 * Whether the volume names the claim: this very claim by its UID, or, where a user has reserved the volume, any claim
 * of the name.
 */
export function isReservedFor({ spec }: PersistentVolume, { metadata }: PersistentVolumeClaim): boolean {
  const ref = spec?.claimRef;
  if (ref === undefined || ref.name !== metadata.name || ref.namespace !== metadata.namespace) return false;
  return (ref.uid ?? "") === "" || ref.uid === metadata.uid;
}

/** Whether the volume is taken by this very claim. */
export function isTakenBy(volume: PersistentVolume, claim: PersistentVolumeClaim): boolean {
  return volume.spec?.claimRef?.uid === claim.metadata.uid && isReservedFor(volume, claim);
}

/** Whether pods of the node can use the volume. */
export function reaches({ spec }: PersistentVolume, node: Node): boolean {
  const required = spec?.nodeAffinity?.required;
  return required === undefined || matchesNodeSelector(required, node);
}

/** What keeps a claim from a volume that it, or the volume, names; undefined if they fit. */
export function misfitOf(claim: PersistentVolumeClaim, volume: PersistentVolume): string | undefined {
  const wanted = claim.spec ?? {};
  const has = volume.spec ?? {};
  const size = wanted.resources?.requests?.["storage"] ?? "0";
  const capacity = has.capacity?.["storage"] ?? "0";
  if (nanoOf(capacity) < nanoOf(size)) return `requested capacity ${size}, and the volume has ${capacity}`;
  if (classOfClaim(claim) !== classOfVolume(volume)) return "storageClassName does not match";
  if ((wanted.volumeAttributesClassName ?? "") !== (has.volumeAttributesClassName ?? ""))
    return "volumeAttributesClassName does not match";
  if ((wanted.volumeMode ?? "Filesystem") !== (has.volumeMode ?? "Filesystem")) return "volumeMode does not match";
  const modes = has.accessModes ?? [];
  if (!(wanted.accessModes ?? []).every((mode) => modes.includes(mode))) return "accessModes do not match";
  return undefined;
}

/** Whether a volume that no claim has taken may be given to the claim. */
export function mayTake(claim: PersistentVolumeClaim, volume: PersistentVolume): boolean {
  if (volume.metadata.deletionTimestamp !== undefined || volume.spec?.claimRef !== undefined) return false;
  if (volume.status?.phase !== "Available") return false;
  if (misfitOf(claim, volume) !== undefined) return false;
  const selector = claim.spec?.selector;
  return selector === undefined || matchesLabels(selectorRequirements(selector), volume.metadata.labels);
}

/**
 * The volume that the claim gets: one that is reserved for it, else the free one with the fewest access modes beyond
 * the requested ones, and of these the smallest. `onlyReserved`: the scheduler chooses among the others.
 */
export function volumeFor(
  claim: PersistentVolumeClaim,
  volumes: Iterable<PersistentVolume>,
  { onlyReserved = false } = {},
): PersistentVolume | undefined {
  let reserved: PersistentVolume | undefined;
  let best: PersistentVolume | undefined;
  for (const volume of volumes) {
    if (isReservedFor(volume, claim)) {
      if (!isUsableReservation(claim, volume)) continue;
      // A volume that names the UID is half bound already.
      if (isTakenBy(volume, claim)) return volume;
      if (reserved === undefined || compareVolumes(volume, reserved) < 0) reserved = volume;
    } else if (!onlyReserved && mayTake(claim, volume) && (best === undefined || compareVolumes(volume, best) < 0))
      best = volume;
  }
  return reserved ?? best;
}

/** A reservation is the user's decision: class and access modes need not match. */
function isUsableReservation(claim: PersistentVolumeClaim, volume: PersistentVolume): boolean {
  if (volume.metadata.deletionTimestamp !== undefined) return false;
  const size = claim.spec?.resources?.requests?.["storage"] ?? "0";
  if (nanoOf(volume.spec?.capacity?.["storage"] ?? "0") < nanoOf(size)) return false;
  return (claim.spec?.volumeMode ?? "Filesystem") === (volume.spec?.volumeMode ?? "Filesystem");
}

/** Fewer access modes first, then the smaller one. */
export function compareVolumes(a: PersistentVolume, b: PersistentVolume): number {
  const modes = (a.spec?.accessModes ?? []).length - (b.spec?.accessModes ?? []).length;
  if (modes !== 0) return modes;
  const [left, right] = [a, b].map(({ spec }) => nanoOf(spec?.capacity?.["storage"] ?? "0")) as [bigint, bigint];
  if (left !== right) return left < right ? -1 : 1;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}

/** The patch that gives the volume to the claim. */
export function reservationPatch(volume: PersistentVolume, claim: PersistentVolumeClaim) {
  const { namespace, name, uid, resourceVersion } = claim.metadata;
  const { spec } = volume;
  const claimRef = {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    ...(namespace !== undefined && { namespace }),
    name,
    uid,
    resourceVersion,
  };
  return {
    ...(spec?.claimRef === undefined && {
      metadata: { annotations: { [volumeAnnotations.boundByController]: "yes" } },
    }),
    spec: { claimRef },
  };
}

/** The patch that takes the volume from a claim: a user's reservation by name stays. */
export function releasePatch({ metadata }: PersistentVolume) {
  if (metadata.annotations?.[volumeAnnotations.boundByController] === undefined)
    return { spec: { claimRef: { uid: null, resourceVersion: null } } };
  return { metadata: { annotations: { [volumeAnnotations.boundByController]: null } }, spec: { claimRef: null } };
}

/** A claim that a pod uses. */
export interface PodClaim {
  readonly name: string;
  /** The claim is created for the pod (generic ephemeral volume). */
  readonly template: PersistentVolumeClaimTemplate | undefined;
}

/** The claims that a pod uses, by name. */
export function claimsOfPod({ metadata, spec }: Pod): PodClaim[] {
  const claims: PodClaim[] = [];
  for (const { name, persistentVolumeClaim, ephemeral } of spec?.volumes ?? []) {
    if (persistentVolumeClaim !== undefined)
      claims.push({ name: persistentVolumeClaim.claimName, template: undefined });
    else if (ephemeral !== undefined)
      claims.push({ name: `${metadata.name}-${name}`, template: ephemeral.volumeClaimTemplate });
  }
  return claims;
}

/** Whether the claim was created for the pod. A claim of that name that another author created is not the pod's. */
export function isClaimOf({ metadata }: PersistentVolumeClaim, pod: Pod): boolean {
  return controllerOf(metadata)?.uid === pod.metadata.uid;
}

export function notCreatedFor(claim: string, pod: string): string {
  return `PersistentVolumeClaim ${claim} was not created for pod ${pod}`;
}

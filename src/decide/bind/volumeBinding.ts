/**
 * What the binder does for a claim of its pod before the pod gets its node. A claim that waited for the node gets the
 * volume that the scheduler chose, by the claim's UID and on the version that was read, or the node is written to the
 * claim, so that a volume is provisioned there. A controller completes the binding. The pod is bound when each of its
 * claims is bound to a volume that the node reaches.
 */
import { expectedOf, type Intent } from "../../model/intent.ts";
import type {
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StorageClass,
} from "../../model/kubernetes.generated.ts";
import { builtin } from "../../model/resources.generated.ts";
import {
  classOfClaim,
  isBoundClaim,
  isClaimOf,
  isProvisionable,
  isReservedFor,
  isTakenBy,
  mayTake,
  notCreatedFor,
  reaches,
  releasePatch,
  reservationPatch,
  volumeAnnotations,
  waitsForConsumer,
} from "../../model/storage/volumes.ts";

/** A claim of a pod, as the API has it. */
export interface VolumeBindingView {
  readonly pod: Pod;
  readonly node: Node;
  readonly claim: PersistentVolumeClaim;
  /** Whether the claim belongs to an ephemeral volume of the pod. */
  readonly isEphemeral: boolean;
  readonly storageClass: StorageClass | undefined;
  /** The name of the volume that the scheduler chose for the claim. */
  readonly chosen: string | undefined;
  /** The volume that the claim names, else the chosen one; undefined if it does not exist. */
  readonly volume: PersistentVolume | undefined;
}

export type VolumeBindingStep =
  | { readonly kind: "ready" }
  | { readonly kind: "waiting"; readonly why: string }
  /** One write; another component acts on it. */
  | { readonly kind: "write"; readonly intent: Intent; readonly why: string }
  | { readonly kind: "failed"; readonly why: string };

export function nextVolumeBinding(view: VolumeBindingView): VolumeBindingStep {
  const { claim, pod, node, storageClass, volume, chosen } = view;
  const { name } = claim.metadata;
  const nodeName = node.metadata.name;
  if (view.isEphemeral && !isClaimOf(claim, pod)) return failed(notCreatedFor(name, pod.metadata.name));
  if (claim.metadata.deletionTimestamp !== undefined) return failed(`PersistentVolumeClaim ${name} is being deleted`);
  if (claim.status?.phase === "Lost") return failed(`PersistentVolumeClaim ${name} has lost its volume`);
  const { volumeName = "" } = claim.spec ?? {};
  if (volumeName !== "" || isBoundClaim(claim)) {
    if (volume === undefined) return failed(`PersistentVolume ${volumeName} of claim ${name} does not exist`);
    if (!reaches(volume, node)) return failed(outOfReach(volume, name, nodeName));
    return isBoundClaim(claim) ? { kind: "ready" } : waiting(name);
  }
  if (!waitsForConsumer(storageClass)) return waiting(name);
  if (chosen !== undefined) return takeVolume(view, chosen);
  if (storageClass === undefined || !isProvisionable(storageClass))
    return failed(`no volume was chosen for PersistentVolumeClaim ${name} of StorageClass ${classOfClaim(claim)}`);
  const selected = claim.metadata.annotations?.[volumeAnnotations.selectedNode];
  if (selected === nodeName) return waiting(name);
  // Another pod that uses the claim was decided at the same time.
  if (selected !== undefined)
    return failed(`the volume of PersistentVolumeClaim ${name} is created on node ${selected}`);
  const patch = { metadata: { annotations: { [volumeAnnotations.selectedNode]: nodeName } } };
  const why = `its pod ${pod.metadata.name} is placed on node ${nodeName}`;
  const intent: Intent = { type: "patch", target: claimTarget(claim), expected: expectedOf(claim), patch, why };
  return { kind: "write", intent, why: notBound(name) };
}

function takeVolume({ claim, node, volume, pod }: VolumeBindingView, chosen: string): VolumeBindingStep {
  const { name } = claim.metadata;
  if (volume === undefined) return failed(`PersistentVolume ${chosen} of claim ${name} does not exist`);
  if (!reaches(volume, node)) return failed(outOfReach(volume, name, node.metadata.name));
  // By UID the volume is taken already, by name a controller completes what a user has reserved.
  if (isReservedFor(volume, claim)) return waiting(name);
  if (!mayTake(claim, volume)) return failed(`PersistentVolume ${chosen} is not free for claim ${name} any more`);
  const why = `pod ${pod.metadata.name} is placed on node ${node.metadata.name} with claim ${name}`;
  const patch = reservationPatch(volume, claim);
  const intent: Intent = { type: "patch", target: volumeTarget(volume), expected: expectedOf(volume), patch, why };
  return { kind: "write", intent, why: notBound(name) };
}

/**
 * What a failed bind gives back, one write at a time. A volume whose phase is Bound stays: the controller that binds
 * writes the phase before it writes the claim, so a volume that is given back on an earlier version is refused to it.
 *
 *   binder                          controller
 *                                   reads volume: claimRef, Available
 *   volume: claimRef null
 *                                   volume: Bound -> conflict, and the claim is not written
 */
export function nextGiveBack({
  claim,
  volume,
  chosen,
  node,
  why,
}: {
  readonly claim: PersistentVolumeClaim;
  readonly volume: PersistentVolume | undefined;
  readonly chosen: string | undefined;
  readonly node: string;
  readonly why: string;
}): Intent[] {
  if ((claim.spec?.volumeName ?? "") !== "") return [];
  const intents: Intent[] = [];
  const isOurs =
    volume !== undefined && volume.metadata.name === chosen && isTakenBy(volume, claim) && isChosenByController(volume);
  if (isOurs && volume.status?.phase !== "Bound") {
    const patch = releasePatch(volume);
    intents.push({ type: "patch", target: volumeTarget(volume), expected: expectedOf(volume), patch, why });
  }
  if (claim.metadata.annotations?.[volumeAnnotations.selectedNode] === node) {
    const patch = { metadata: { annotations: { [volumeAnnotations.selectedNode]: null } } };
    intents.push({ type: "patch", target: claimTarget(claim), expected: expectedOf(claim), patch, why });
  }
  return intents;
}

function isChosenByController({ metadata }: PersistentVolume): boolean {
  return metadata.annotations?.[volumeAnnotations.boundByController] !== undefined;
}

function claimTarget({ metadata }: PersistentVolumeClaim) {
  return { ...builtin.PersistentVolumeClaim, namespace: metadata.namespace ?? "", name: metadata.name };
}

function volumeTarget({ metadata }: PersistentVolume) {
  return { ...builtin.PersistentVolume, namespace: "", name: metadata.name };
}

function outOfReach({ metadata }: PersistentVolume, claim: string, node: string): string {
  return `node ${node} cannot use PersistentVolume ${metadata.name} of claim ${claim}: its node affinity excludes the node`;
}

function notBound(claim: string): string {
  return `PersistentVolumeClaim ${claim} is not bound yet`;
}

function waiting(claim: string): VolumeBindingStep {
  return { kind: "waiting", why: notBound(claim) };
}

function failed(why: string): VolumeBindingStep {
  return { kind: "failed", why };
}

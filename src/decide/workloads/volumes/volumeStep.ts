/**
 * The next write that brings a claim or a volume towards its goal, from what is observed. A binding takes four writes,
 * and no state of it is kept outside the cluster: the same objects give the same step, so the next process continues
 * where one that crashed had stopped.
 *
 *   volume: claimRef with the claim's UID -> volume: Bound -> claim: volumeName -> claim: Bound
 *
 * The volume is written first. Every write carries the version that it was decided on, so of two claims that choose one
 * volume the second one is refused.
 */
import { expectedOf, type Intent } from "../../../model/intent.ts";
import type { PersistentVolume, PersistentVolumeClaim } from "../../../model/kubernetes.generated.ts";
import type { MergePatch } from "../../../model/objects/object.ts";
import { builtin } from "../../../model/resources.generated.ts";
import { formatTime } from "../../../model/values/time.ts";

/** What an Event says about the claim or the volume. */
export interface VolumeNote {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

export type VolumeStep =
  /** Nothing is to be written. */
  | { readonly type: "done"; readonly note?: VolumeNote }
  /** One write; then the next step is decided on its answer. */
  | { readonly type: "write"; readonly intent: Intent; readonly note?: VolumeNote }
  /** The caches do not show the object, or an older one, which proves nothing: it is read from the API. */
  | { readonly type: "look"; readonly what: "claim" | "volume" | "node"; readonly name: string };

export const done: VolumeStep = { type: "done" };

export function claimTarget({ metadata }: PersistentVolumeClaim) {
  return { ...builtin.PersistentVolumeClaim, namespace: metadata.namespace ?? "", name: metadata.name };
}

export function volumeTarget({ metadata }: { readonly metadata: { readonly name: string } }) {
  return { ...builtin.PersistentVolume, namespace: "", name: metadata.name };
}

export function patchClaim(
  claim: PersistentVolumeClaim,
  patch: MergePatch<PersistentVolumeClaim>,
  why: string,
  note?: VolumeNote,
): VolumeStep {
  const intent: Intent = { type: "patch", target: claimTarget(claim), expected: expectedOf(claim), patch, why };
  return { type: "write", intent, ...(note && { note }) };
}

export function patchVolume(volume: PersistentVolume, patch: MergePatch<PersistentVolume>, why: string): VolumeStep {
  const intent: Intent = { type: "patch", target: volumeTarget(volume), expected: expectedOf(volume), patch, why };
  return { type: "write", intent };
}

export function claimStatus(
  claim: PersistentVolumeClaim,
  status: NonNullable<PersistentVolumeClaim["status"]>,
  why: string,
  note?: VolumeNote,
): VolumeStep {
  const object = { ...claim, status: { ...claim.status, ...status } };
  const intent: Intent = { type: "status", target: claimTarget(claim), expected: expectedOf(claim), object, why };
  return { type: "write", intent, ...(note && { note }) };
}

/** Undefined if the volume has the phase. */
export function volumePhase(
  volume: PersistentVolume,
  phase: "Available" | "Bound" | "Released" | "Failed",
  nowMs: number,
  why: string,
  message?: string,
): VolumeStep | undefined {
  if (volume.status?.phase === phase && volume.status.message === message) return undefined;
  const status = { phase, lastPhaseTransitionTime: formatTime(nowMs), ...(message !== undefined && { message }) };
  const object = { ...volume, status };
  const intent: Intent = { type: "status", target: volumeTarget(volume), expected: expectedOf(volume), object, why };
  const note: VolumeNote | undefined =
    message === undefined ? undefined : { type: "Warning", reason: "VolumeFailedDelete", message };
  return { type: "write", intent, ...(note && { note }) };
}

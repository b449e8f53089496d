import { expectedOf } from "../../../model/intent.ts";
import type { PersistentVolume, PersistentVolumeClaim } from "../../../model/kubernetes.generated.ts";
import { localFolderProvisioner } from "../../../model/storage/localFolder.ts";
import { releasePatch, volumeAnnotations } from "../../../model/storage/volumes.ts";
import { done, patchVolume, type VolumeStep, volumePhase, volumeTarget } from "./volumeStep.ts";

/** What a decision about a volume reads. */
export interface HeldVolumeView {
  readonly volume: PersistentVolume;
  /** The claim of the name that the volume names. */
  readonly claim: PersistentVolumeClaim | undefined;
  /** Whether the claim was read from the API in this reconcile, at or beyond the revision of the volume. */
  readonly hasLooked: boolean;
  readonly nowMs: number;
}

/**
 * The next step of a volume: its phase, and its end when its claim is gone. The claim is the one of the UID; a claim
 * that was created again under the name is another one, which gets neither the volume nor its data.
 */
export function nextVolumeStep(view: HeldVolumeView): VolumeStep {
  const { volume, claim, nowMs } = view;
  const { claimRef } = volume.spec ?? {};
  const { name } = volume.metadata;
  if (claimRef === undefined || (claimRef.uid ?? "") === "") {
    if (volume.metadata.deletionTimestamp !== undefined) return done;
    return volumePhase(volume, "Available", nowMs, "no claim has taken it") ?? done;
  }
  if (claim === undefined || claim.metadata.uid !== claimRef.uid) {
    // The cache of claims may be behind that of volumes.
    if (!view.hasLooked) return { type: "look", what: "claim", name: `${claimRef.namespace ?? ""}/${claimRef.name}` };
    return released(view);
  }
  const { volumeName = "" } = claim.spec ?? {};
  // The reconcile of the claim completes the binding.
  if (volumeName === "") return done;
  if (volumeName === name)
    return volumePhase(volume, "Bound", nowMs, `claim ${claim.metadata.name} is bound to it`) ?? done;
  // It was reserved or provisioned for a claim that has got another volume.
  const isProvisioned = volume.metadata.annotations?.[volumeAnnotations.provisionedBy] !== undefined;
  if (isProvisioned && policyOf(volume) === "Delete") return released(view);
  return patchVolume(volume, releasePatch(volume), `its claim ${claim.metadata.name} is bound to ${volumeName}`);
}

/** The claim of the volume is gone. */
function released({ volume, nowMs }: HeldVolumeView): VolumeStep {
  const phase = volume.status?.phase;
  if (phase !== "Released" && phase !== "Failed")
    return volumePhase(volume, "Released", nowMs, "its claim is gone") ?? done;
  if (volume.metadata.deletionTimestamp !== undefined) return done;
  switch (policyOf(volume)) {
    case "Delete":
      return deleted(volume, nowMs);
    case "Recycle":
      return failed(volume, nowMs, "reclaim policy Recycle is not supported: use Delete, or clean the volume by hand");
    default:
      return done;
  }
}

function deleted(volume: PersistentVolume, nowMs: number): VolumeStep {
  const provisioner = volume.metadata.annotations?.[volumeAnnotations.provisionedBy];
  if (provisioner === localFolderProvisioner) {
    const why = "its claim is gone, and its reclaim policy is Delete";
    const intent = { type: "delete", target: volumeTarget(volume), expected: expectedOf(volume), why } as const;
    return { type: "write", intent };
  }
  // Its provisioner deletes it.
  if (provisioner !== undefined || volume.spec?.csi !== undefined) return done;
  return failed(volume, nowMs, "error getting deleter volume plugin for volume: no deletable volume plugin matched");
}

function failed(volume: PersistentVolume, nowMs: number, message: string): VolumeStep {
  return volumePhase(volume, "Failed", nowMs, message, message) ?? done;
}

function policyOf({ spec }: PersistentVolume): string {
  return spec?.persistentVolumeReclaimPolicy ?? "Retain";
}

import type {
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../../model/kubernetes.generated.ts";
import type { Revision } from "../../../model/revision.ts";
import {
  folderProblem,
  folderVolume,
  folderVolumeName,
  localFolderProvisioner,
} from "../../../model/storage/localFolder.ts";
import {
  classOfClaim,
  isClassOpen,
  isProvisionable,
  isReservedFor,
  isTakenBy,
  misfitOf,
  reservationPatch,
  volumeAnnotations,
  volumeFor,
  waitsForConsumer,
} from "../../../model/storage/volumes.ts";
import {
  claimStatus,
  done,
  patchClaim,
  patchVolume,
  type VolumeNote,
  type VolumeStep,
  volumePhase,
  volumeTarget,
} from "./volumeStep.ts";

/** What a decision about a claim reads. */
export interface ClaimView {
  readonly claim: PersistentVolumeClaim;
  readonly volume: (name: string) => PersistentVolume | undefined;
  /** Volumes that name the claim, and those of its class that no claim has taken. */
  readonly candidates: (claim: PersistentVolumeClaim) => Iterable<PersistentVolume>;
  readonly storageClass: (name: string) => StorageClass | undefined;
  readonly defaultClass: StorageClass | undefined;
  readonly node: (name: string) => Node | undefined;
  /** Objects that were read from the API in this reconcile: the caches show them, or they do not exist. */
  readonly looked: ReadonlySet<string>;
  /** Up to this revision no volume has the name of one that is created. */
  readonly volumesRevision: Revision;
  readonly nowMs: number;
}

/** The next step of a claim, with upstream's order of checks and texts of Events. */
export function nextClaimStep(view: ClaimView): VolumeStep {
  const { claim } = view;
  if (claim.metadata.annotations?.[volumeAnnotations.bindCompleted] !== undefined) return boundClaim(view);
  // A claim that is being deleted is not bound any more; what names it is released when it is gone.
  if (claim.metadata.deletionTimestamp !== undefined) return done;
  const { volumeName = "" } = claim.spec ?? {};
  return volumeName === "" ? openClaim(view) : namedVolume(view, volumeName);
}

/** The claim leaves the volume open. */
function openClaim(view: ClaimView): VolumeStep {
  const { claim, defaultClass } = view;
  if (isClassOpen(claim) && defaultClass !== undefined) {
    const patch = { spec: { storageClassName: defaultClass.metadata.name } };
    return patchClaim(claim, patch, `${defaultClass.metadata.name} is the default StorageClass`);
  }
  const name = classOfClaim(claim);
  const storageClass = view.storageClass(name);
  const onlyReserved = waitsForConsumer(storageClass);
  const volume = volumeFor(claim, view.candidates(claim), { onlyReserved });
  if (volume !== undefined) return bind(view, volume);
  const node = claim.metadata.annotations?.[volumeAnnotations.selectedNode];
  if (onlyReserved && node === undefined) {
    return pending(claim, normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding"));
  }
  if (name === "") {
    const message = "no persistent volumes available for this claim and no storage class is set";
    return pending(claim, normal("FailedBinding", message));
  }
  if (storageClass === undefined)
    return pending(claim, warning("ProvisioningFailed", `storageclass.storage.k8s.io "${name}" not found`));
  return provision(view, storageClass, node);
}

function provision(view: ClaimView, storageClass: StorageClass, node: string | undefined): VolumeStep {
  const { claim } = view;
  const { provisioner } = storageClass;
  if (!isProvisionable(storageClass)) {
    const message = `no volume plugin matched name: ${provisioner}; create a PersistentVolume of class ${storageClass.metadata.name} that the claim fits`;
    return pending(claim, warning("ProvisioningFailed", message));
  }
  const { annotations = {} } = claim.metadata;
  if (annotations[volumeAnnotations.provisioner] !== provisioner) {
    const marks = { [volumeAnnotations.provisioner]: provisioner, [volumeAnnotations.provisionerBeta]: provisioner };
    return patchClaim(claim, { metadata: { annotations: marks } }, `${provisioner} creates its volume`);
  }
  if (provisioner === localFolderProvisioner) return provisionFolder(view, storageClass, node);
  const message = `Waiting for a volume to be created either by the external provisioner '${provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.`;
  return pending(claim, normal("ExternalProvisioning", message));
}

function provisionFolder(view: ClaimView, storageClass: StorageClass, node: string | undefined): VolumeStep {
  const { claim } = view;
  const problem = folderProblem(claim, storageClass);
  if (problem !== undefined || node === undefined)
    return pending(claim, warning("ProvisioningFailed", problem ?? "no node was selected"));
  const name = folderVolumeName(claim);
  const existing = view.volume(name);
  // It is reserved for the claim, so the claim does not fit it: a user has changed it.
  if (existing !== undefined) {
    const message = `PersistentVolume ${name} exists and does not fit the claim`;
    return pending(claim, warning("ProvisioningFailed", message));
  }
  const found = view.node(node);
  if (found === undefined) {
    if (!view.looked.has(`node ${node}`)) return { type: "look", what: "node", name: node };
    // The scheduler chooses another node.
    const patch = { metadata: { annotations: { [volumeAnnotations.selectedNode]: null } } };
    const note = warning("ProvisioningFailed", `node ${node} does not exist: another one has to be selected`);
    return patchClaim(claim, patch, `node ${node} does not exist`, note);
  }
  const object = folderVolume(claim, storageClass, found);
  const why = `claim ${claim.metadata.name} needs a folder on node ${node}`;
  const intent = {
    type: "create",
    target: volumeTarget(object),
    absentAtRevision: view.volumesRevision,
    object,
    why,
  } as const;
  const note = normal("ProvisioningSucceeded", `Successfully provisioned volume ${name}`);
  return { type: "write", intent, note };
}

/** A user, or a first write of a binding, has named the volume. */
function namedVolume(view: ClaimView, name: string): VolumeStep {
  const { claim } = view;
  const volume = view.volume(name);
  if (volume === undefined) return pending(claim);
  if (isReservedFor(volume, claim)) return bind(view, volume);
  if (volume.spec?.claimRef !== undefined)
    return pending(claim, warning("FailedBinding", `volume "${name}" already bound to a different claim.`));
  if (volume.metadata.deletionTimestamp !== undefined) return pending(claim);
  const misfit = misfitOf(claim, volume);
  if (misfit === undefined) return bind(view, volume);
  return pending(claim, warning("VolumeMismatch", `Cannot bind to requested volume "${name}": ${misfit}`));
}

/** The binding of the claim was complete once. */
function boundClaim(view: ClaimView): VolumeStep {
  const { claim } = view;
  const { volumeName = "" } = claim.spec ?? {};
  if (volumeName === "")
    return lost(claim, "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
  const volume = view.volume(volumeName);
  if (volume !== undefined && (volume.spec?.claimRef === undefined || isTakenBy(volume, claim)))
    return bind(view, volume);
  if (!view.looked.has(`volume ${volumeName}`)) return { type: "look", what: "volume", name: volumeName };
  if (volume === undefined)
    return lost(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
  const message = "Two claims are bound to the same volume, this one is bound incorrectly";
  return lost(claim, "ClaimMisbound", message);
}

/** The next of the four writes of a binding, or none. */
function bind({ claim, nowMs }: ClaimView, volume: PersistentVolume): VolumeStep {
  const { name } = volume.metadata;
  const why = `claim ${claim.metadata.namespace ?? ""}/${claim.metadata.name} is bound to volume ${name}`;
  if (!isTakenBy(volume, claim)) return patchVolume(volume, reservationPatch(volume, claim), why);
  const phase = volumePhase(volume, "Bound", nowMs, why);
  if (phase !== undefined) return phase;
  const isNamed = claim.spec?.volumeName === name;
  if (!isNamed || claim.metadata.annotations?.[volumeAnnotations.bindCompleted] === undefined) {
    const annotations = {
      [volumeAnnotations.bindCompleted]: "yes",
      ...(!isNamed && { [volumeAnnotations.boundByController]: "yes" }),
    };
    return patchClaim(claim, { metadata: { annotations }, spec: { volumeName: name } }, why);
  }
  if (claim.status?.phase === "Bound") return done;
  const { accessModes = [], capacity = {}, volumeAttributesClassName } = volume.spec ?? {};
  const { storage = "0" } = capacity;
  const current = { ...(volumeAttributesClassName && { currentVolumeAttributesClassName: volumeAttributesClassName }) };
  return claimStatus(
    claim,
    { phase: "Bound", accessModes: [...accessModes], capacity: { ...claim.status?.capacity, storage }, ...current },
    why,
  );
}

function lost(claim: PersistentVolumeClaim, reason: string, message: string): VolumeStep {
  if (claim.status?.phase === "Lost") return done;
  return claimStatus(claim, { phase: "Lost" }, message, warning(reason, message));
}

function pending(claim: PersistentVolumeClaim, note?: VolumeNote): VolumeStep {
  if (claim.status?.phase === "Pending") return { type: "done", ...(note && { note }) };
  return claimStatus(claim, { phase: "Pending" }, "it is not bound", note);
}

function normal(reason: string, message: string): VolumeNote {
  return { type: "Normal", reason, message };
}

function warning(reason: string, message: string): VolumeNote {
  return { type: "Warning", reason, message };
}

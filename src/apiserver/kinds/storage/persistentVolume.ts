import type { PersistentVolume, PersistentVolumeSpec } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, notSupported, required } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { formatTime } from "../../../model/values/time.ts";
import { isNegativeAmount, isZeroAmount } from "../checks/amounts.ts";
import { checkOneOf } from "../checks/fieldChecks.ts";
import { checkDnsSubdomain } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { checkNodeSelector } from "../pods/validation/affinityValidation.ts";
import { checkNoBacksteps } from "../pods/validation/volumeMountValidation.ts";

const protection = "kubernetes.io/pv-protection";
const accessModes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/** The fields of a spec that are not volume sources. */
const otherFields = new Set([
  "accessModes",
  "capacity",
  "claimRef",
  "mountOptions",
  "nodeAffinity",
  "persistentVolumeReclaimPolicy",
  "storageClassName",
  "volumeAttributesClassName",
  "volumeMode",
]);

const hostPathTypes = [
  "",
  "BlockDevice",
  "CharDevice",
  "Directory",
  "DirectoryOrCreate",
  "File",
  "FileOrCreate",
  "Socket",
];

export const persistentVolumeStrategy = strategyOfKind<PersistentVolume>({
  generation: "none",
  returnsDeleted: true,
  setDefaults(volume) {
    volume.status ??= {};
    volume.status.phase ||= "Pending";
    if (volume.spec === undefined) return;
    volume.spec.persistentVolumeReclaimPolicy ||= "Retain";
    volume.spec.volumeMode ??= "Filesystem";
    if (volume.spec.hostPath !== undefined) volume.spec.hostPath.type ??= "";
  },
  prepareForCreate(volume, { nowMs }) {
    volume.status = { phase: "Pending", lastPhaseTransitionTime: formatTime(nowMs) };
    const { metadata } = volume;
    if (!metadata.finalizers?.includes(protection)) metadata.finalizers = [...(metadata.finalizers ?? []), protection];
  },
  validate: (volume) => volumeErrors(volume),
  validateUpdate(next, old) {
    const errors = volumeErrors(next);
    if (!equalJson(sourceOf(next.spec), sourceOf(old.spec))) {
      errors.push(forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"));
    }
    if (!equalJson(next.spec?.volumeMode, old.spec?.volumeMode)) {
      errors.push(invalid("spec.volumeMode", next.spec?.volumeMode ?? null, "field is immutable"));
    }
    if (old.spec?.nodeAffinity !== undefined && !equalJson(next.spec?.nodeAffinity, old.spec.nodeAffinity)) {
      errors.push(invalid("spec.nodeAffinity", next.spec?.nodeAffinity ?? null, "field is immutable"));
    }
    return errors;
  },
});

function sourceOf(spec: PersistentVolumeSpec | undefined): Record<string, unknown> {
  return Object.fromEntries(Object.entries(spec ?? {}).filter(([field]) => !otherFields.has(field)));
}

function volumeErrors(volume: PersistentVolume): FieldError[] {
  const errors: FieldError[] = [];
  checkPersistentVolumeSpec(volume.spec ?? {}, "spec", errors, false);
  return errors;
}

/** `isInline`: the spec is inside a VolumeAttachment, which only CSI migration writes. */
export function checkPersistentVolumeSpec(
  spec: PersistentVolumeSpec,
  path: string,
  errors: FieldError[],
  isInline: boolean,
): void {
  const modes = spec.accessModes ?? [];
  if (modes.length === 0) errors.push(required(`${path}.accessModes`));
  for (const mode of modes) {
    if (!accessModes.includes(mode)) errors.push(notSupported(`${path}.accessModes`, mode, accessModes));
  }
  if (modes.includes("ReadWriteOncePod") && modes.length > 1) {
    const detail = "may not use ReadWriteOncePod with other access modes";
    errors.push(forbidden(`${path}.accessModes`, detail));
  }
  if (!isInline) {
    const capacity = spec.capacity ?? {};
    if (Object.keys(capacity).length === 0) errors.push(required(`${path}.capacity`));
    if (capacity["storage"] === undefined || Object.keys(capacity).length > 1) {
      errors.push(notSupported(`${path}.capacity`, capacity, ["storage"]));
    }
    const { storage } = capacity;
    if (storage !== undefined && (isNegativeAmount(storage) || isZeroAmount(storage))) {
      errors.push(invalid(`${path}.capacity[storage]`, storage, "must be greater than zero"));
    }
    const policies = ["Delete", "Recycle", "Retain"];
    checkOneOf(spec.persistentVolumeReclaimPolicy, policies, `${path}.persistentVolumeReclaimPolicy`, errors);
  }
  if (spec.nodeAffinity !== undefined) {
    if (spec.nodeAffinity.required === undefined) {
      errors.push(required(`${path}.nodeAffinity.required`, "must specify required node constraints"));
    } else checkNodeSelector(spec.nodeAffinity.required, `${path}.nodeAffinity.required`, errors);
  }
  const sources = Object.keys(sourceOf(spec));
  if (sources.length === 0) errors.push(required(path, "must specify a volume type"));
  for (const extra of sources.slice(1)) {
    errors.push(forbidden(`${path}.${extra}`, "may not specify more than 1 volume type"));
  }
  if (spec.csi !== undefined) {
    if (!spec.csi.driver) errors.push(required(`${path}.csi.driver`));
    if (!spec.csi.volumeHandle) errors.push(required(`${path}.csi.volumeHandle`));
  }
  if (spec.local !== undefined) {
    if (!spec.local.path) errors.push(required(`${path}.local.path`));
    else checkNoBacksteps(spec.local.path, `${path}.local.path`, errors);
    if (spec.nodeAffinity === undefined) {
      errors.push(required(`${path}.nodeAffinity`, "Local volume requires node affinity"));
    }
  }
  if (spec.hostPath !== undefined) {
    if (!spec.hostPath.path) errors.push(required(`${path}.hostPath.path`));
    else checkNoBacksteps(spec.hostPath.path, `${path}.hostPath.path`, errors);
    checkOneOf(spec.hostPath.type, hostPathTypes, `${path}.hostPath.type`, errors);
    if (spec.hostPath.path === "/" && spec.persistentVolumeReclaimPolicy === "Recycle") {
      const detail = "may not be 'recycle' for a hostPath mount of '/'";
      errors.push(forbidden(`${path}.persistentVolumeReclaimPolicy`, detail));
    }
  }
  if (spec.nfs !== undefined) {
    if (!spec.nfs.server) errors.push(required(`${path}.nfs.server`));
    if (!spec.nfs.path) errors.push(required(`${path}.nfs.path`));
  }
  const { volumeAttributesClassName } = spec;
  if (volumeAttributesClassName !== undefined) {
    const at = `${path}.volumeAttributesClassName`;
    if (volumeAttributesClassName === "") errors.push(required(at, "an empty string is disallowed"));
    else checkDnsSubdomain(volumeAttributesClassName, at, errors);
    if (spec.csi === undefined) {
      errors.push(required(`${path}.csi`, "has to be specified when using volumeAttributesClassName"));
    }
  }
  if (spec.storageClassName) checkDnsSubdomain(spec.storageClassName, `${path}.storageClassName`, errors);
  checkOneOf(spec.volumeMode, ["Block", "Filesystem"], `${path}.volumeMode`, errors);
}

import type {
  PersistentVolumeClaim,
  PersistentVolumeClaimSpec,
  StorageClass,
} from "../../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, forbidden, invalid, required } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { compareAmounts, isNegativeAmount, isZeroAmount } from "../checks/amounts.ts";
import { checkOneOf } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { checkDnsSubdomain } from "../checks/nameChecks.ts";
import { repeats } from "../checks/repeats.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { enforceLimitRangesOnClaim } from "../policy/limitRangeAdmission.ts";

const accessModes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const protection = "kubernetes.io/pvc-protection";
const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class";
const classAnnotation = "volume.beta.kubernetes.io/storage-class";

export const persistentVolumeClaimStrategy = strategyOfKind<PersistentVolumeClaim>({
  generation: "none",
  returnsDeleted: true,
  setDefaults(claim) {
    claim.spec ??= {};
    claim.spec.volumeMode ??= "Filesystem";
    claim.status ??= {};
    claim.status.phase ||= "Pending";
  },
  prepareForCreate(claim, context) {
    claim.status = { phase: "Pending" };
    const { metadata, spec } = claim;
    if (!metadata.finalizers?.includes(protection)) metadata.finalizers = [...(metadata.finalizers ?? []), protection];
    if (spec === undefined) return;
    dropImpossibleSources(spec);
    // dataSourceRef is the newer field and accepts more kinds than dataSource; they are kept equal.
    if (spec.dataSource !== undefined && spec.dataSourceRef === undefined) spec.dataSourceRef = { ...spec.dataSource };
    if (spec.storageClassName === undefined && metadata.annotations?.[classAnnotation] === undefined) {
      const name = defaultStorageClass(context.list("storage.k8s.io/storageclasses", "") as Iterable<unknown>);
      if (name !== undefined) spec.storageClassName = name;
    }
  },
  prepareForUpdate(next, old) {
    if (next.spec !== undefined && !equalJson(next.spec.dataSource, old.spec?.dataSource))
      dropImpossibleSources(next.spec);
  },
  validate(claim, context) {
    enforceLimitRangesOnClaim(claim, context);
    const errors: FieldError[] = [];
    checkClaimSpec(claim.spec ?? {}, "spec", errors);
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    checkClaimSpec(next.spec ?? {}, "spec", errors);
    checkClaimChange(next, old, errors);
    return errors;
  },
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    for (const [name, amount] of Object.entries(next.status?.capacity ?? {})) {
      if (isNegativeAmount(amount)) {
        errors.push(invalid(`status.capacity[${name}]`, amount, "must be greater than or equal to 0"));
      }
    }
    return errors;
  },
});

/**
 * An unsupported dataSource is dropped, not rejected; so is one in another namespace, which is behind a feature gate.
 */
function dropImpossibleSources(spec: PersistentVolumeClaimSpec): void {
  if (!isPossibleSource(spec.dataSource)) delete spec.dataSource;
  if (spec.dataSourceRef?.namespace) delete spec.dataSourceRef;
}

/** dataSource accepts a claim or a snapshot; other kinds are allowed in dataSourceRef only. */
function isPossibleSource(source: PersistentVolumeClaimSpec["dataSource"]): boolean {
  if (source === undefined) return true;
  const group = source.apiGroup ?? "";
  if (group === "" && source.kind === "PersistentVolumeClaim") return true;
  return group === "snapshot.storage.k8s.io" && source.kind === "VolumeSnapshot";
}

/** The newest of the classes that are marked as default. */
function defaultStorageClass(classes: Iterable<unknown>): string | undefined {
  let newest: StorageClass | undefined;
  for (const object of classes) {
    const candidate = object as StorageClass;
    if (candidate.metadata.annotations?.[defaultClassAnnotation] !== "true") continue;
    const isNewer =
      newest === undefined ||
      candidate.metadata.creationTimestamp > newest.metadata.creationTimestamp ||
      (candidate.metadata.creationTimestamp === newest.metadata.creationTimestamp &&
        candidate.metadata.name < newest.metadata.name);
    if (isNewer) newest = candidate;
  }
  return newest?.metadata.name;
}

export function checkClaimSpec(spec: PersistentVolumeClaimSpec, path: string, errors: FieldError[]): void {
  const modes = spec.accessModes ?? [];
  if (modes.length === 0) errors.push(required(`${path}.accessModes`, "at least 1 access mode is required"));
  checkLabelSelector(spec.selector, `${path}.selector`, errors);
  for (const mode of modes) checkOneOf(mode, accessModes, `${path}.accessModes`, errors);
  if (modes.includes("ReadWriteOncePod") && modes.length > 1) {
    const detail = "may not use ReadWriteOncePod with other access modes";
    errors.push(forbidden(`${path}.accessModes`, detail));
  }
  const storage = spec.resources?.requests?.["storage"];
  if (storage === undefined) errors.push(required(`${path}.resources[storage]`));
  else if (isNegativeAmount(storage) || isZeroAmount(storage)) {
    errors.push(invalid(`${path}.resources[storage]`, storage, "must be greater than zero"));
  }
  if (spec.storageClassName) checkDnsSubdomain(spec.storageClassName, `${path}.storageClassName`, errors);
  checkOneOf(spec.volumeMode, ["Block", "Filesystem"], `${path}.volumeMode`, errors);
  for (const field of ["dataSource", "dataSourceRef"] as const) {
    const source = spec[field];
    if (source === undefined) continue;
    if (!source.name) errors.push(required(`${path}.${field}.name`));
    if (!source.kind) errors.push(required(`${path}.${field}.kind`));
    if (!source.apiGroup && source.kind !== "PersistentVolumeClaim") {
      const detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
      errors.push(invalid(`${path}.${field}`, source.kind, detail));
    }
  }
  if (spec.volumeAttributesClassName) {
    checkDnsSubdomain(spec.volumeAttributesClassName, `${path}.volumeAttributesClassName`, errors);
  }
  const isRepeated = repeats();
  const repeated = modes.find((mode) => isRepeated(mode));
  if (repeated !== undefined) errors.push(duplicate(`${path}.accessModes`, repeated));
}

/** volumeName, a larger request and the attributes class may change; all other fields are immutable. */
function checkClaimChange(next: PersistentVolumeClaim, old: PersistentVolumeClaim, errors: FieldError[]): void {
  const nextSpec = next.spec ?? {};
  const oldSpec = old.spec ?? {};
  const masked: PersistentVolumeClaimSpec = { ...nextSpec };
  if (!oldSpec.volumeName) {
    delete masked.volumeName;
    if (oldSpec.volumeName !== undefined) masked.volumeName = oldSpec.volumeName;
  }
  const isBound = old.status?.phase === "Bound";
  if (isBound) {
    if (oldSpec.resources === undefined) delete masked.resources;
    else masked.resources = oldSpec.resources;
  }
  if (oldSpec.storageClassName === undefined && nextSpec.storageClassName !== undefined && !isBound) {
    // A claim from before there was a default class may still get one.
    delete masked.storageClassName;
  }
  if (isBound) {
    delete masked.volumeAttributesClassName;
    if (oldSpec.volumeAttributesClassName !== undefined) {
      masked.volumeAttributesClassName = oldSpec.volumeAttributesClassName;
    }
  }
  if (!equalJson(masked, oldSpec)) {
    const detail =
      "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    errors.push(forbidden("spec", detail));
    return;
  }
  const nextSize = nextSpec.resources?.requests?.["storage"];
  const oldSize = oldSpec.resources?.requests?.["storage"];
  if (nextSize === undefined || oldSize === undefined || compareAmounts(nextSize, oldSize) >= 0) return;
  const capacity = old.status?.capacity?.["storage"];
  // A smaller request is allowed as long as the volume has not reached the larger size.
  if (capacity === undefined || compareAmounts(nextSize, capacity) <= 0) {
    const detail = "field can not be less than status.capacity";
    errors.push(forbidden("spec.resources.requests.storage", detail));
  }
}

/**
 * StorageClass and the kinds of CSI drivers: CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment,
 * VolumeAttributesClass.
 */

import type {
  CSIDriver,
  CSINode,
  CSIStorageCapacity,
  StorageClass,
  VolumeAttachment,
  VolumeAttributesClass,
} from "../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  required,
  tooLong,
} from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { isNegativeAmount } from "../checks/amounts.ts";
import { checkImmutable, checkOneOf } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { checkDnsSubdomain, checkQualifiedName } from "../checks/nameChecks.ts";
import { repeats } from "../checks/repeats.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { checkPersistentVolumeSpec } from "./persistentVolume.ts";

const parametersMax = 512;
const parametersBytesMax = 256 * 1024;

function checkParameters(parameters: Record<string, string> | undefined, errors: FieldError[]): void {
  const entries = Object.entries(parameters ?? {});
  if (entries.length > parametersMax) errors.push(tooLong("parameters", parametersMax));
  let bytes = 0;
  for (const [key, value] of entries) {
    if (key === "") errors.push(invalid("parameters", key, "field can not be empty."));
    bytes += key.length + value.length;
  }
  if (bytes > parametersBytesMax) errors.push(tooLong("parameters", parametersBytesMax));
}

export const storageClassStrategy = strategyOfKind<StorageClass>({
  generation: "none",
  returnsDeleted: true,
  setDefaults(storageClass) {
    storageClass.reclaimPolicy ||= "Delete";
    storageClass.volumeBindingMode ??= "Immediate";
  },
  validate: (storageClass) => storageClassErrors(storageClass),
  validateUpdate(next, old) {
    const errors = storageClassErrors(next);
    if (!equalJson(next.parameters ?? {}, old.parameters ?? {})) {
      errors.push(forbidden("parameters", "updates to parameters are forbidden."));
    }
    if (next.provisioner !== old.provisioner) {
      errors.push(forbidden("provisioner", "updates to provisioner are forbidden."));
    }
    if (next.reclaimPolicy !== old.reclaimPolicy) {
      errors.push(forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."));
    }
    checkImmutable(next.volumeBindingMode, old.volumeBindingMode, "volumeBindingMode", errors);
    return errors;
  },
});

function storageClassErrors(storageClass: StorageClass): FieldError[] {
  const errors: FieldError[] = [];
  if (!storageClass.provisioner) errors.push(required("provisioner"));
  else checkQualifiedName(storageClass.provisioner.toLowerCase(), "provisioner", errors);
  checkParameters(storageClass.parameters, errors);
  checkOneOf(storageClass.reclaimPolicy, ["Delete", "Retain"], "reclaimPolicy", errors);
  const modes = ["Immediate", "WaitForFirstConsumer"];
  checkOneOf(storageClass.volumeBindingMode, modes, "volumeBindingMode", errors, true);
  for (const [i, term] of (storageClass.allowedTopologies ?? []).entries()) {
    // Terms are compared as sets of values, so a term without values equals any other such term.
    if ((term?.matchLabelExpressions ?? []).length === 0) {
      errors.push(duplicate(`allowedTopologies[${i}].matchLabelExpressions`, ""));
    }
    for (const [j, requirement] of (term?.matchLabelExpressions ?? []).entries()) {
      const path = `allowedTopologies[${i}].matchLabelExpressions[${j}]`;
      checkQualifiedName(requirement.key, `${path}.key`, errors);
      const values = requirement.values ?? [];
      if (values.length === 0) errors.push(required(`${path}.values`));
      for (const [k, value] of values.entries()) {
        if (values.slice(0, k).includes(value)) errors.push(duplicate(`${path}.values[${k}]`, value));
      }
    }
  }
  return errors;
}

export const volumeAttributesClassStrategy = strategyOfKind<VolumeAttributesClass>({
  generation: "none",
  returnsDeleted: true,
  validate(attributesClass) {
    const errors: FieldError[] = [];
    if (!attributesClass.driverName) errors.push(required("driverName"));
    else checkDnsSubdomain(attributesClass.driverName.toLowerCase(), "driverName", errors);
    const { parameters } = attributesClass;
    if (parameters === undefined || Object.keys(parameters).length === 0) {
      errors.push(required("parameters", "must contain at least one key/value pair"));
    }
    checkParameters(parameters, errors);
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    if (next.driverName !== old.driverName)
      errors.push(forbidden("driverName", "updates to driverName are forbidden."));
    if (!equalJson(next.parameters, old.parameters)) {
      errors.push(forbidden("parameters", "updates to parameters are forbidden."));
    }
    return errors;
  },
});

function checkDriverName(name: string | undefined, path: string, errors: FieldError[]): void {
  if (!name) errors.push(required(path));
  else {
    if (name.length > 63) errors.push(tooLong(path, 63));
    checkDnsSubdomain(name.toLowerCase(), path, errors);
  }
}

export const volumeAttachmentStrategy = strategyOfKind<VolumeAttachment>({
  generation: "none",
  statusKeeps: "metadata",
  returnsDeleted: true,
  requiresRevision: true,
  validate(attachment) {
    const errors: FieldError[] = [];
    const spec = attachment.spec;
    checkDriverName(spec?.attacher, "spec.attacher", errors);
    if (!spec?.nodeName) errors.push(required("spec.nodeName"));
    else checkDnsSubdomain(spec.nodeName, "spec.nodeName", errors);
    const volume = spec?.source?.persistentVolumeName;
    if (volume) checkDnsSubdomain(volume, "spec.source.persistentVolumeName", errors);
    const { inlineVolumeSpec, persistentVolumeName } = spec?.source ?? {};
    if (inlineVolumeSpec === undefined && !persistentVolumeName) {
      errors.push(required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"));
    } else if (inlineVolumeSpec !== undefined && persistentVolumeName !== undefined) {
      const detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
      errors.push(forbidden("spec.source", detail));
    }
    if (inlineVolumeSpec !== undefined) {
      checkPersistentVolumeSpec(inlineVolumeSpec, "spec.source.inlineVolumeSpec", errors, true);
    }
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    if (!equalJson(next.spec, old.spec)) {
      errors.push(invalid("spec", next.spec ?? null, "field is immutable"));
    }
    return errors;
  },
});

export const csiDriverStrategy = strategyOfKind<CSIDriver>({
  generation: "spec",
  returnsDeleted: true,
  requiresRevision: true,
  setDefaults(driver) {
    driver.spec ??= {};
    const spec = driver.spec;
    spec.attachRequired ??= true;
    spec.podInfoOnMount ??= false;
    spec.storageCapacity ??= false;
    spec.fsGroupPolicy ??= "ReadWriteOnceWithFSType";
    spec.requiresRepublish ??= false;
    spec.seLinuxMount ??= false;
    if ((spec.volumeLifecycleModes ?? []).length === 0) spec.volumeLifecycleModes = ["Persistent"];
  },
  validate: (driver) => driverErrors(driver),
  validateUpdate(next, old) {
    const errors = driverErrors(next);
    checkImmutable(next.spec?.attachRequired, old.spec?.attachRequired, "spec.attachedRequired", errors);
    checkImmutable(
      next.spec?.volumeLifecycleModes,
      old.spec?.volumeLifecycleModes,
      "spec.volumeLifecycleModes",
      errors,
    );
    return errors;
  },
});

function driverErrors(driver: CSIDriver): FieldError[] {
  const errors: FieldError[] = [];
  const {
    nodeAllocatableUpdatePeriodSeconds: period,
    serviceAccountTokenInSecrets,
    tokenRequests = [],
  } = driver.spec ?? {};
  if (period !== undefined && period < 10) {
    errors.push(
      invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, "must be greater than or equal to 10 seconds"),
    );
  }
  if (serviceAccountTokenInSecrets !== undefined && tokenRequests.length === 0) {
    const detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
    errors.push(invalid("spec.serviceAccountTokenInSecrets", serviceAccountTokenInSecrets, detail));
  }
  const policies = ["File", "None", "ReadWriteOnceWithFSType"];
  checkOneOf(driver.spec?.fsGroupPolicy, policies, "spec.fsGroupPolicy", errors);
  for (const mode of driver.spec?.volumeLifecycleModes ?? []) {
    checkOneOf(mode, ["Ephemeral", "Persistent"], "spec.volumeLifecycleModes", errors);
  }
  const audiences = new Set<string>();
  for (const [i, request] of (driver.spec?.tokenRequests ?? []).entries()) {
    const path = `spec.tokenRequests[${i}]`;
    if (audiences.has(request.audience)) errors.push(duplicate(`${path}.audience`, request.audience));
    audiences.add(request.audience);
    if (request.expirationSeconds !== undefined && request.expirationSeconds < 600) {
      const detail = "may not specify a duration less than 10 minutes";
      errors.push(invalid(`${path}.expirationSeconds`, request.expirationSeconds, detail));
    }
    if ((request.expirationSeconds ?? 0) > 2 ** 32) {
      const detail = "may not specify a duration larger than 2^32 seconds";
      errors.push(invalid(`${path}.expirationSeconds`, request.expirationSeconds, detail));
    }
  }
  return errors;
}

export const csiNodeStrategy = strategyOfKind<CSINode>({
  generation: "none",
  returnsDeleted: true,
  requiresRevision: true,
  validate: (node) => nodeErrors(node),
  validateUpdate(next, old) {
    const errors = nodeErrors(next);
    // A driver may be added or removed; the entry of a registered driver is immutable.
    for (const before of old.spec?.drivers ?? []) {
      const after = next.spec?.drivers?.find(({ name }) => name === before.name);
      if (after === undefined) continue;
      const { allocatable: _before, ...fixedBefore } = before;
      const { allocatable: _after, ...fixedAfter } = after;
      if (!equalJson(fixedAfter, fixedBefore)) {
        errors.push(invalid("spec.drivers", after, "field is immutable"));
      }
    }
    return errors;
  },
});

function nodeErrors(node: CSINode): FieldError[] {
  const errors: FieldError[] = [];
  const drivers = node.spec?.drivers ?? [];
  const isRepeated = repeats();
  for (const [i, driver] of drivers.entries()) {
    const path = `spec.drivers[${i}]`;
    if (!driver.name) errors.push(required(`${path}.name`));
    else checkDnsSubdomain(driver.name.toLowerCase(), `${path}.name`, errors);
    if (isRepeated(driver.name)) {
      errors.push(duplicate(`${path}.name`, driver.name));
    }
    if (!driver.nodeID) errors.push(required(`${path}.nodeID`));
    else if (driver.nodeID.length > 256)
      errors.push(invalid(`${path}.nodeID`, driver.nodeID, "must be 256 characters or less"));
    const count = driver.allocatable?.count;
    if (count !== undefined && count < 0) {
      errors.push(invalid(`${path}.allocatable.count`, count, "must be greater than or equal to 0"));
    }
    const isKnownKey = repeats();
    for (const key of driver.topologyKeys ?? []) {
      checkQualifiedName(key, `${path}.topologyKeys`, errors);
      if (isKnownKey(key)) errors.push(duplicate(path, key));
    }
  }
  return errors;
}

export const csiStorageCapacityStrategy = strategyOfKind<CSIStorageCapacity>({
  generation: "none",
  requiresRevision: true,
  validate: (capacity) => capacityErrors(capacity),
  validateUpdate(next, old) {
    const errors = capacityErrors(next);
    checkImmutable(next.nodeTopology, old.nodeTopology, "nodeTopology", errors);
    checkImmutable(next.storageClassName, old.storageClassName, "storageClassName", errors);
    return errors;
  },
});

function capacityErrors(capacity: CSIStorageCapacity): FieldError[] {
  const errors: FieldError[] = [];
  checkLabelSelector(capacity.nodeTopology, "nodeTopology", errors);
  if (!capacity.storageClassName) errors.push(required("storageClassName"));
  else checkDnsSubdomain(capacity.storageClassName, "storageClassName", errors);
  for (const field of ["capacity", "maximumVolumeSize"] as const) {
    const amount = capacity[field];
    if (amount !== undefined && isNegativeAmount(amount)) {
      errors.push(invalid(field, amount, "must be greater than or equal to 0"));
    }
  }
  return errors;
}

import { beta1Slice } from "../../../model/deviceConversion.ts";
import type {
  Counter,
  Device,
  DeviceAttribute,
  ResourceSlice,
  ResourceSliceSpec,
} from "../../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, invalid, required, tooLong } from "../../../model/objects/fieldError.ts";
import { formatTime } from "../../../model/values/time.ts";
import { isNegativeAmount } from "../checks/amounts.ts";
import { checkImmutable } from "../checks/fieldChecks.ts";
import { checkDnsSubdomain } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { checkNodeSelector } from "../pods/validation/affinityValidation.ts";
import { inStoredShape } from "../storedShape.ts";
import { checkCapacity } from "./capacityPolicy.ts";
import { checkDriverName, checkPoolName, checkQualifiedIdentifier, checkRequiredDnsLabel } from "./deviceNames.ts";
import { checkBindingConditions, checkCount, checkTaint, checkUnique } from "./deviceParts.ts";

const devicesMax = 128;
/** Devices with taints, counters or lists are larger; fewer of them fit into one object. */
const richDevicesMax = 64;
const attributesAndCapacitiesMax = 32;
const attributeValuesMax = 48;
const taintsMax = 16;
const counterSetsMax = 8;
const countersMax = 32;
const consumedSetsMax = 2;
const valueBytesMax = 64;
const semver =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$/;

const storedStrategy = strategyOfKind<ResourceSlice>({
  generation: "spec",
  returnsDeleted: true,
  prepareForCreate: (slice, context) => stampTaints(slice, context.nowMs),
  prepareForUpdate: (next, _old, context) => stampTaints(next, context.nowMs),
  validate: (slice) => sliceErrors(slice),
  validateUpdate(next, old) {
    const errors = sliceErrors(next);
    checkImmutable(next.spec?.driver, old.spec?.driver, "spec.driver", errors);
    checkImmutable(next.spec?.pool?.name, old.spec?.pool?.name, "spec.pool.name", errors);
    checkImmutable(next.spec?.nodeName, old.spec?.nodeName, "spec.nodeName", errors);
    return errors;
  },
  selectFields: (slice) => [slice.spec?.nodeName ?? "", slice.spec?.driver ?? "", slice.spec?.pool?.name ?? ""],
});

export const resourceSliceStrategy = inStoredShape(storedStrategy, { "resource.k8s.io/v1beta1": beta1Slice });

/** Sets timeAdded of new taints that have none: evictions count from it. */
function stampTaints(slice: ResourceSlice, nowMs: number): void {
  for (const device of slice.spec?.devices ?? []) {
    for (const taint of device.taints ?? []) taint.timeAdded ??= formatTime(nowMs);
  }
}

function sliceErrors(slice: ResourceSlice): FieldError[] {
  const errors: FieldError[] = [];
  const spec = slice.spec;
  if (spec === undefined) return [required("spec.driver"), required("spec.pool.name")];
  checkDriverName(spec.driver, "spec.driver", errors);
  checkPoolName(spec.pool?.name, "spec.pool.name", errors);
  const { generation = 0, resourceSliceCount = 0 } = spec.pool ?? {};
  if (resourceSliceCount <= 0) {
    errors.push(invalid("spec.pool.resourceSliceCount", resourceSliceCount, "must be greater than zero"));
  }
  if (generation < 0) {
    errors.push(invalid("spec.pool.generation", generation, "must be greater than or equal to zero"));
  }
  checkPlace(spec, errors);
  const devices = spec.devices ?? [];
  const sets = spec.sharedCounters ?? [];
  if (devices.length > 0 && sets.length > 0) {
    errors.push(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"));
  }
  checkCount(devices, devices.some(isRich) ? richDevicesMax : devicesMax, "spec.devices", errors);
  const names = new Set<string>();
  for (let i = 0; i < devices.length; i++) {
    const device = devices[i];
    if (device === undefined) continue;
    if (names.has(device.name)) {
      errors.push(duplicate(`spec.devices[${i}].name`, device.name));
    }
    names.add(device.name);
    checkDevice(device, spec, `spec.devices[${i}]`, errors);
  }
  checkCount(sets, counterSetsMax, "spec.sharedCounters", errors);
  checkUnique(
    sets.map(({ name }) => name),
    (i) => `spec.sharedCounters[${i}].name`,
    errors,
  );
  for (const [i, set] of sets.entries()) {
    checkRequiredDnsLabel(set.name, `spec.sharedCounters[${i}].name`, errors);
    checkCounters(set.counters, `spec.sharedCounters[${i}].counters`, errors);
  }
  return errors;
}

function isRich(device: Device): boolean {
  if (device.taints !== undefined || device.consumesCounters !== undefined) return true;
  for (const name in device.attributes) {
    const attribute = device.attributes[name];
    if (attribute?.ints || attribute?.bools || attribute?.strings || attribute?.versions) return true;
  }
  return false;
}

/** A slice states once for all its devices which nodes reach them, or that each device states it. */
function checkPlace(spec: ResourceSliceSpec, errors: FieldError[]): void {
  const set: string[] = [];
  if (spec.nodeName !== undefined) {
    set.push("`nodeName`");
    if (spec.nodeName === "") {
      errors.push(invalid("spec.nodeName", "", "must be either unset or set to a non-empty string"));
    } else checkDnsSubdomain(spec.nodeName, "spec.nodeName", errors);
  }
  if (spec.nodeSelector !== undefined) {
    set.push("`nodeSelector`");
    checkNodeSelector(spec.nodeSelector, "spec.nodeSelector", errors);
    const terms = spec.nodeSelector.nodeSelectorTerms ?? [];
    if (terms.length !== 1) {
      const detail = "must have exactly one node selector term";
      errors.push(invalid("spec.nodeSelector.nodeSelectorTerms", terms, detail));
    }
  }
  for (const field of ["allNodes", "perDeviceNodeSelection"] as const) {
    if (spec[field] === undefined) continue;
    set.push(`\`${field}\``);
    if (spec[field] === false) errors.push(invalid(`spec.${field}`, false, "must be either unset or set to true"));
  }
  const detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
  if (set.length === 0) errors.push(required("spec", detail));
  else if (set.length > 1)
    errors.push(invalid("spec", `{${set.join(", ")}}`, `${detail}, but multiple fields are set`));
}

function checkDevice(device: Device, spec: ResourceSliceSpec, path: string, errors: FieldError[]): void {
  checkRequiredDnsLabel(device.name, `${path}.name`, errors);
  let count = 0;
  let values = 0;
  for (const name in device.attributes) {
    count++;
    const attribute = device.attributes[name] ?? {};
    checkQualifiedIdentifier(name, `${path}.attributes[${name}]`, errors);
    values += checkAttribute(attribute, `${path}.attributes[${name}]`, errors);
  }
  for (const name in device.capacity) {
    count++;
    const capacity = device.capacity[name];
    checkQualifiedIdentifier(name, `${path}.capacity[${name}]`, errors);
    if (capacity === undefined) continue;
    checkCapacity(capacity, device.allowMultipleAllocations === true, `${path}.capacity[${name}]`, errors);
  }
  if (count > attributesAndCapacitiesMax) {
    const detail = `the total number of attributes and capacities must not exceed ${attributesAndCapacitiesMax}`;
    errors.push(invalid(path, count, detail));
  }
  if (values > attributeValuesMax) {
    const detail = `the total number of attribute values must not exceed ${attributeValuesMax}`;
    errors.push(invalid(path, values, detail));
  }
  checkCount(device.taints, taintsMax, `${path}.taints`, errors);
  for (const [i, taint] of (device.taints ?? []).entries()) checkTaint(taint, `${path}.taints[${i}]`, errors);
  if (device.consumesCounters !== undefined) {
    const consumed = device.consumesCounters;
    checkCount(consumed, consumedSetsMax, `${path}.consumesCounters`, errors);
    checkUnique(
      consumed.map(({ counterSet }) => counterSet),
      (i) => `${path}.consumesCounters[${i}].counterSet`,
      errors,
    );
    for (const [i, entry] of consumed.entries()) {
      checkRequiredDnsLabel(entry.counterSet, `${path}.consumesCounters[${i}].counterSet`, errors);
      checkCounters(entry.counters, `${path}.consumesCounters[${i}].counters`, errors);
    }
  }
  checkDevicePlace(device, spec.perDeviceNodeSelection === true, path, errors);
  if (device.bindingConditions !== undefined || device.bindingFailureConditions !== undefined) {
    checkBindingConditions(device, path, errors);
  }
}

function checkDevicePlace(device: Device, perDevice: boolean, path: string, errors: FieldError[]): void {
  const set = (["nodeName", "nodeSelector", "allNodes"] as const).filter((field) => device[field] !== undefined);
  if (!perDevice) {
    if (set.length > 0) {
      const detail =
        "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
      errors.push(invalid(path, null, detail));
    }
    return;
  }
  const detail =
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
  if (set.length === 0) errors.push(required(path, detail));
  else if (set.length > 1) errors.push(invalid(path, `{${set.map((field) => `\`${field}\``).join(", ")}}`, detail));
  if (device.nodeName === "") errors.push(invalid(`${path}.nodeName`, "", "must not be empty"));
  else if (device.nodeName !== undefined) checkDnsSubdomain(device.nodeName, `${path}.nodeName`, errors);
  if (device.nodeSelector !== undefined) checkNodeSelector(device.nodeSelector, `${path}.nodeSelector`, errors);
  if (device.allNodes === false) {
    errors.push(invalid(`${path}.allNodes`, false, "must be either unset or set to true"));
  }
}

/** Returns the number of values of the attribute. */
function checkAttribute(attribute: DeviceAttribute, path: string, errors: FieldError[]): number {
  let fields = 0;
  let values = 0;
  for (const field in attribute) {
    const value = attribute[field as keyof DeviceAttribute];
    if (value === undefined) continue;
    fields++;
    if (!Array.isArray(value)) {
      values++;
      if (typeof value === "string") checkText(field, value, `${path}.${field}`, errors);
      continue;
    }
    values += value.length;
    if (value.length === 0) errors.push(invalid(`${path}.${field}`, value, "must not be empty if specified"));
    for (const [i, item] of value.entries()) {
      if (typeof item === "string") checkText(field, item, `${path}.${field}[${i}]`, errors);
    }
  }
  if (fields !== 1) errors.push(invalid(path, fields === 0 ? "" : attribute, "exactly one value must be specified"));
  return values;
}

function checkText(field: string, value: string, path: string, errors: FieldError[]): void {
  if ((field === "version" || field === "versions") && !semver.test(value)) {
    errors.push(invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"));
  }
  if (value.length > valueBytesMax) errors.push(tooLong(path, valueBytesMax));
}

function checkCounters(counters: Record<string, Counter> | undefined, path: string, errors: FieldError[]): void {
  const names = Object.keys(counters ?? {});
  if (names.length === 0) errors.push(required(path));
  checkCount(names, countersMax, path, errors);
  for (const name of names) {
    checkRequiredDnsLabel(name, `${path}[${name}]`, errors);
    const value = counters?.[name]?.value;
    if (value !== undefined && isNegativeAmount(value)) {
      errors.push(invalid(`${path}[${name}].value`, value, "must be greater than or equal to 0"));
    }
  }
}

/** Types that claims, classes, slices and taint rules share. */

import type {
  DeviceSelector,
  DeviceTaint,
  DeviceToleration,
  OpaqueDeviceConfiguration,
} from "../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
  tooLong,
  tooMany,
} from "../../../model/objects/fieldError.ts";
import { isObject } from "../../../model/objects/json.ts";
import { checkDeviceExpression } from "../checks/celExpression.ts";
import { checkQualifiedName, labelValueProblem } from "../checks/nameChecks.ts";
import { checkDriverName } from "./deviceNames.ts";

const rawBytesMax = 10 * 1024;
const tolerationsMax = 16;
const taintEffects = ["NoExecute", "NoSchedule", "None"];

/** Go writes a nil list as null; it has no items. */
export function checkCount(
  list: readonly unknown[] | undefined | null,
  max: number,
  path: string,
  errors: FieldError[],
): void {
  if (list && list.length > max) errors.push(tooMany(path, list.length, max));
}

export function checkUnique(keys: readonly string[], pathOf: (index: number) => string, errors: FieldError[]): void {
  const seen = new Set<string>();
  for (const [i, key] of keys.entries()) {
    if (seen.has(key)) errors.push(duplicate(pathOf(i), key));
    seen.add(key);
  }
}

export function checkSelectors(
  selectors: readonly DeviceSelector[] | undefined,
  path: string,
  errors: FieldError[],
): void {
  checkCount(selectors, 32, path, errors);
  for (const [i, selector] of (selectors ?? []).entries()) {
    if (selector.cel === undefined) errors.push(required(`${path}[${i}].cel`));
    else checkDeviceExpression(selector.cel.expression, `${path}[${i}].cel.expression`, errors);
  }
}

export function checkOpaque(opaque: OpaqueDeviceConfiguration | undefined, path: string, errors: FieldError[]): void {
  if (opaque === undefined) {
    errors.push(required(path));
    return;
  }
  checkDriverName(opaque.driver, `${path}.driver`, errors);
  checkRawObject(opaque.parameters, `${path}.parameters`, errors);
}

/** Opaque JSON for the driver: an object of limited size. */
export function checkRawObject(value: unknown, path: string, errors: FieldError[]): void {
  if (value === undefined || value === null) errors.push(required(path));
  else if (!isObject(value)) errors.push(invalid(path, "<value omitted>", "must be a valid JSON object"));
  else if (JSON.stringify(value).length > rawBytesMax) errors.push(tooLong(path, rawBytesMax));
}

export function checkTaint(taint: DeviceTaint, path: string, errors: FieldError[]): void {
  checkQualifiedName(taint.key ?? "", `${path}.key`, errors);
  const problem = labelValueProblem(taint.value ?? "");
  if (problem !== undefined) errors.push(invalid(`${path}.value`, taint.value, problem));
  if (!taint.effect) errors.push(required(`${path}.effect`));
  else if (!taintEffects.includes(taint.effect))
    errors.push(notSupported(`${path}.effect`, taint.effect, taintEffects));
}

export function checkDeviceTolerations(
  tolerations: readonly DeviceToleration[] | undefined,
  path: string,
  errors: FieldError[],
): void {
  // Kubernetes declares this limit and does not enforce it; here it bounds the work per device.
  checkCount(tolerations, tolerationsMax, path, errors);
  for (const [i, toleration] of (tolerations ?? []).entries()) {
    const at = `${path}[${i}]`;
    if (toleration.key) checkQualifiedName(toleration.key, `${at}.key`, errors);
    switch (toleration.operator) {
      case "Exists":
        if (toleration.value) {
          errors.push(invalid(`${at}.value`, toleration.value, "must be empty for operator `Exists`"));
        }
        break;
      case "Equal": {
        const problem = labelValueProblem(toleration.value ?? "");
        if (problem !== undefined) errors.push(invalid(`${at}.value`, toleration.value, problem));
        break;
      }
      case undefined:
      case "":
        errors.push(required(`${at}.operator`));
        break;
      default:
        errors.push(notSupported(`${at}.operator`, toleration.operator, ["Equal", "Exists"]));
    }
    if (toleration.effect && !taintEffects.includes(toleration.effect)) {
      errors.push(notSupported(`${at}.effect`, toleration.effect, taintEffects));
    }
  }
}

const conditionsMax = 4;

export function checkBindingConditions(
  {
    bindingConditions = [],
    bindingFailureConditions = [],
  }: { bindingConditions?: string[]; bindingFailureConditions?: string[] },
  path: string,
  errors: FieldError[],
): void {
  for (const [field, list] of [
    ["bindingConditions", bindingConditions],
    ["bindingFailureConditions", bindingFailureConditions],
  ] as const) {
    checkCount(list, conditionsMax, `${path}.${field}`, errors);
    for (const [i, name] of list.entries()) checkQualifiedName(name, `${path}.${field}[${i}]`, errors);
    checkUnique(list, (i) => `${path}.${field}[${i}]`, errors);
  }
  for (const [i, name] of bindingFailureConditions.entries()) {
    if (!bindingConditions.includes(name)) continue;
    const detail = "bindingFailureConditions must not overlap with bindingConditions";
    errors.push(invalid(`${path}.bindingFailureConditions[${i}]`, name, detail));
  }
  if (bindingConditions.length === 0 && bindingFailureConditions.length > 0) {
    const detail = "bindingConditions are required to use bindingFailureConditions";
    errors.push(invalid(`${path}.bindingConditions`, bindingConditions, detail));
  }
  if (bindingConditions.length > 0 && bindingFailureConditions.length === 0) {
    const detail = "bindingFailureConditions are required to use bindingConditions";
    errors.push(invalid(`${path}.bindingFailureConditions`, bindingFailureConditions, detail));
  }
}

export function refuseAdminAccess(path: string): FieldError {
  return forbidden(
    path,
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace",
  );
}

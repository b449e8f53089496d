/** How much of a shared device one request may consume: a list of amounts, or a range with steps. */

import type { CapacityRequestPolicyRange, DeviceCapacity } from "../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, required, tooMany } from "../../../model/objects/fieldError.ts";
import { compareAmounts, nanoOf } from "../checks/amounts.ts";

const validValuesMax = 10;

export function checkCapacity(capacity: DeviceCapacity, isShared: boolean, path: string, errors: FieldError[]): void {
  const policy = capacity.requestPolicy;
  if (policy === undefined) return;
  const at = `${path}.requestPolicy`;
  if (!isShared) {
    errors.push(forbidden(at, "allowMultipleAllocations must be true"));
    return;
  }
  const { validValues, validRange } = policy;
  if (validValues !== undefined && validRange !== undefined) {
    const detail =
      'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time';
    errors.push(forbidden(at, detail));
    return;
  }
  if (validValues !== undefined) {
    if (policy.default === undefined) {
      errors.push(required(`${at}.default`, "required when validValues is defined"));
    } else {
      checkValues(validValues, policy.default, capacity.value, `${at}.validValues`, errors);
    }
  } else if (validRange !== undefined) {
    if (policy.default === undefined) {
      errors.push(required(`${at}.default`, "required when validRange is defined"));
    } else {
      checkRange(validRange, policy.default, capacity.value, `${at}.validRange`, errors);
    }
  }
}

function checkValues(
  values: readonly string[],
  fallback: string,
  whole: string,
  path: string,
  errors: FieldError[],
): void {
  if (values.length > validValuesMax) errors.push(tooMany(path, values.length, validValuesMax));
  for (const [i, value] of values.entries()) {
    const before = values[i - 1];
    if (before !== undefined && compareAmounts(before, value) >= 0) {
      errors.push(invalid(`${path}[${i}]`, value, `values must be sorted in ascending order`));
    }
    if (compareAmounts(value, whole) > 0) {
      errors.push(invalid(`${path}[${i}]`, value, `option is larger than capacity value: ${whole}`));
    }
  }
  if (!values.some((value) => compareAmounts(value, fallback) === 0)) {
    errors.push(invalid(path, fallback, "default value is not valid according to the requestPolicy"));
  }
}

function checkRange(
  range: CapacityRequestPolicyRange,
  fallback: string,
  whole: string,
  path: string,
  errors: FieldError[],
): void {
  const { min, max, step } = range;
  if (min === undefined) {
    errors.push(required(`${path}.min`, "required when validRange is defined"));
    return;
  }
  if (compareAmounts(min, whole) > 0) {
    errors.push(invalid(`${path}.min`, min, `min is larger than capacity value: ${whole}`));
  }
  if (compareAmounts(fallback, min) < 0) {
    errors.push(invalid(`${path}.default`, fallback, `default is less than min: ${min}`));
  }
  if (max !== undefined) {
    if (compareAmounts(min, max) > 0) errors.push(invalid(`${path}.max`, min, `min is larger than max: ${max}`));
    if (compareAmounts(max, whole) > 0) {
      errors.push(invalid(`${path}.max`, max, `max is larger than capacity value: ${whole}`));
    }
    if (compareAmounts(fallback, max) > 0) {
      errors.push(invalid(`${path}.default`, fallback, `default is more than max: ${max}`));
    }
  }
  if (step === undefined) return;
  const stepNano = nanoOf(step);
  if (stepNano <= 0n) {
    errors.push(invalid(`${path}.step`, step, "must be greater than zero"));
    return;
  }
  const minNano = nanoOf(min);
  if (minNano + stepNano > nanoOf(whole)) {
    errors.push(invalid(`${path}.step`, step, `one step is larger than capacity value: ${whole}`));
  }
  for (const [field, value] of [
    ["default", fallback],
    ["max", max],
  ] as const) {
    if (value !== undefined && (nanoOf(value) - minNano) % stepNano !== 0n) {
      const detail = `value is not a multiple of a given step (${step}) from (${min})`;
      errors.push(invalid(`${path}.${field}`, value, detail));
    }
  }
}

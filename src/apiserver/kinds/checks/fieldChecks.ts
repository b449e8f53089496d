import { type FieldError, invalid, notSupported, required } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";

/**
 * Checks for many kinds. Each appends to the caller's list, so that a valid object costs no allocation beyond the list
 * itself.
 */
export function checkNonNegative(value: number | undefined, path: string, errors: FieldError[]): void {
  if (value !== undefined && value < 0) errors.push(invalid(path, value, "must be greater than or equal to 0"));
}

export function checkPositive(value: number | undefined, path: string, errors: FieldError[]): void {
  if (value !== undefined && value <= 0) errors.push(invalid(path, value, "must be greater than zero"));
}

export function checkRange(
  value: number | undefined,
  { min, max }: { min: number; max: number },
  path: string,
  errors: FieldError[],
): void {
  if (value !== undefined && (value < min || value > max)) {
    errors.push(invalid(path, value, `must be between ${min} and ${max}, inclusive`));
  }
}

export function checkPortNumber(value: number | undefined, path: string, errors: FieldError[]): void {
  checkRange(value, { min: 1, max: 65535 }, path, errors);
}

/**
 * Absent and empty values are rejected too when `needed`. An empty value that is present was sent by the client: where
 * empty and absent are the same to Go, decoding has dropped it.
 */
export function checkOneOf(
  value: string | undefined,
  supported: readonly string[],
  path: string,
  errors: FieldError[],
  needed = false,
): void {
  if (value === undefined || (needed && value === "")) {
    if (needed) errors.push(required(path));
    return;
  }
  if (!supported.includes(value)) errors.push(notSupported(path, value, supported));
}

export function checkImmutable(next: unknown, old: unknown, path: string, errors: FieldError[]): void {
  if (!equalJson(next, old)) errors.push(invalid(path, next ?? null, "field is immutable"));
}

export function checkRequired(value: string | undefined, path: string, errors: FieldError[], detail = ""): void {
  if (value === undefined || value === "") errors.push(required(path, detail));
}

/** The given keys that an object has; used where exactly one of several may be set. */
export function setKeys<T extends object>(object: T, keys: readonly (keyof T & string)[]): (keyof T & string)[] {
  return keys.filter((key) => object[key] !== undefined);
}

/** `10%` is ten percent; anything else is not a percentage. */
export function percentOf(value: string): number | undefined {
  if (!/^[0-9]+%$/.test(value)) return undefined;
  return Number(value.slice(0, -1));
}

export function checkIntOrPercent(value: number | string | undefined, path: string, errors: FieldError[]): void {
  if (value === undefined) return;
  if (typeof value === "number") {
    checkNonNegative(value, path, errors);
  } else if (percentOf(value) === undefined) {
    errors.push(
      invalid(
        path,
        value,
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
      ),
    );
  }
}

export function checkAtMostWholePercent(value: number | string | undefined, path: string, errors: FieldError[]): void {
  if (typeof value !== "string") return;
  const percent = percentOf(value);
  if (percent !== undefined && percent > 100) errors.push(invalid(path, value, "must not be greater than 100%"));
}

/** An absolute number, or a percentage of the total. */
export function scaledValue(value: number | string, total: number, roundUp: boolean): number {
  if (typeof value === "number") return value;
  const share = ((percentOf(value) ?? 0) * total) / 100;
  return roundUp ? Math.ceil(share) : Math.floor(share);
}

import {
  CelDuration,
  CelObject,
  CelTimestamp,
  CelUint,
  type CelValue,
  checkedInt,
  checkedUint,
  compareBytes,
  compareNumbers,
  compareStrings,
  doubleOf,
  equalValues,
  fail,
  isInt,
  isMap,
  makeDouble,
  mapHas,
  noOverload,
} from "./values.ts";

/** Operators of CEL on values whose types are known only at run time. */
export function add(a: CelValue, b: CelValue): CelValue {
  if (typeof a === "number" && typeof b === "number" && Number.isSafeInteger(a) && Number.isSafeInteger(b)) {
    const sum = a + b;
    return Number.isSafeInteger(sum) ? sum : checkedInt(BigInt(a) + BigInt(b));
  }
  if (typeof a === "string" && typeof b === "string") return a + b;
  if (Array.isArray(a) && Array.isArray(b)) return a.concat(b);
  if (isInt(a) && isInt(b)) return checkedInt(BigInt(a) + BigInt(b));
  const left = doubleOf(a);
  const right = doubleOf(b);
  if (left !== undefined && right !== undefined) return makeDouble(left + right);
  if (a instanceof CelUint && b instanceof CelUint) return checkedUint(a.value + b.value);
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Uint8Array.from([...a, ...b]);
  if (a instanceof CelTimestamp && b instanceof CelDuration) return checkedTimestamp(a.ns + b.ns);
  if (a instanceof CelDuration && b instanceof CelTimestamp) return checkedTimestamp(a.ns + b.ns);
  if (a instanceof CelDuration && b instanceof CelDuration) return checkedDuration(a.ns + b.ns);
  return noOverload();
}

export function subtract(a: CelValue, b: CelValue): CelValue {
  if (typeof a === "number" && typeof b === "number" && Number.isSafeInteger(a) && Number.isSafeInteger(b)) {
    const difference = a - b;
    return Number.isSafeInteger(difference) ? difference : checkedInt(BigInt(a) - BigInt(b));
  }
  if (isInt(a) && isInt(b)) return checkedInt(BigInt(a) - BigInt(b));
  const left = doubleOf(a);
  const right = doubleOf(b);
  if (left !== undefined && right !== undefined) return makeDouble(left - right);
  if (a instanceof CelUint && b instanceof CelUint) return checkedUint(a.value - b.value);
  if (a instanceof CelTimestamp && b instanceof CelDuration) return checkedTimestamp(a.ns - b.ns);
  if (a instanceof CelTimestamp && b instanceof CelTimestamp) return checkedDuration(a.ns - b.ns);
  if (a instanceof CelDuration && b instanceof CelDuration) return checkedDuration(a.ns - b.ns);
  return noOverload();
}

export function multiply(a: CelValue, b: CelValue): CelValue {
  if (typeof a === "number" && typeof b === "number" && Number.isSafeInteger(a) && Number.isSafeInteger(b)) {
    const product = a * b;
    // Zero times a negative number is -0 in JavaScript; an int has one zero.
    if (Number.isSafeInteger(product)) return product === 0 ? 0 : product;
  }
  if (isInt(a) && isInt(b)) return checkedInt(BigInt(a) * BigInt(b));
  const left = doubleOf(a);
  const right = doubleOf(b);
  if (left !== undefined && right !== undefined) return makeDouble(left * right);
  if (a instanceof CelUint && b instanceof CelUint) return checkedUint(a.value * b.value);
  return noOverload();
}

export function divide(a: CelValue, b: CelValue): CelValue {
  if (isInt(a) && isInt(b)) {
    if (b === 0) fail("division by zero");
    return checkedInt(BigInt(a) / BigInt(b));
  }
  const left = doubleOf(a);
  const right = doubleOf(b);
  if (left !== undefined && right !== undefined) return makeDouble(left / right);
  if (a instanceof CelUint && b instanceof CelUint) {
    if (b.value === 0n) fail("division by zero");
    return new CelUint(a.value / b.value);
  }
  return noOverload();
}

export function modulo(a: CelValue, b: CelValue): CelValue {
  if (isInt(a) && isInt(b)) {
    if (b === 0) fail("modulus by zero");
    return checkedInt(BigInt(a) % BigInt(b));
  }
  if (a instanceof CelUint && b instanceof CelUint) {
    if (b.value === 0n) fail("modulus by zero");
    return new CelUint(a.value % b.value);
  }
  return noOverload();
}

export function negate(a: CelValue): CelValue {
  if (typeof a === "number" && Number.isSafeInteger(a)) return a === 0 ? 0 : -a;
  if (typeof a === "bigint") return checkedInt(-a);
  const value = doubleOf(a);
  return value === undefined ? noOverload() : makeDouble(-value);
}

/** An opaque value with an order. */
export abstract class CelOrdered extends CelObject {
  abstract compare(other: CelObject): number | undefined;
}

/** Negative, zero or positive; NaN for numbers without an order. */
export function compare(a: CelValue, b: CelValue): number {
  const numbers = compareNumbers(a, b);
  if (numbers !== undefined) return numbers;
  if (typeof a === "string" && typeof b === "string") return compareStrings(a, b);
  if (typeof a === "boolean" && typeof b === "boolean") return Number(a) - Number(b);
  if (a instanceof CelTimestamp && b instanceof CelTimestamp) return a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0;
  if (a instanceof CelDuration && b instanceof CelDuration) return a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0;
  if (a instanceof Uint8Array && b instanceof Uint8Array) return compareBytes(a, b);
  return noOverload();
}

export function isIn(item: CelValue, container: CelValue): boolean {
  if (Array.isArray(container)) {
    for (const each of container) if (each === item || equalValues(each, item)) return true;
    return false;
  }
  return isMap(container) ? mapHas(container, item) : noOverload();
}

// Years 1 to 9999, as in protobuf.
const timestampMin = -62135596800n * 1_000_000_000n;
const timestampMax = 253402300799n * 1_000_000_000n + 999_999_999n;

export function checkedTimestamp(ns: bigint): CelTimestamp {
  if (ns < timestampMin || ns > timestampMax) fail("timestamp overflow");
  return new CelTimestamp(ns);
}

export function checkedDuration(ns: bigint): CelDuration {
  if (ns < -(2n ** 63n) || ns >= 2n ** 63n) fail("duration overflow");
  return new CelDuration(ns);
}

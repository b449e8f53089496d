import {
  CelMapBase,
  CelObject,
  CelOptional,
  CelUint,
  type CelValue,
  doubleOf,
  fail,
  isInt,
  isMap,
  type JsonMap,
  mapGet,
  noOverload,
} from "./values.ts";

/** Access to fields of maps and items of lists, present or not. */
export function field(value: CelValue, key: string): CelValue {
  if (typeof value !== "object" || value === null) return noOverload();
  if (value instanceof CelMapBase) {
    const found = value.get(key);
    return found === undefined ? fail(`no such key: ${key}`) : found;
  }
  if (Array.isArray(value) || value instanceof CelObject || value instanceof Uint8Array) return noOverload();
  if (!Object.hasOwn(value, key)) fail(`no such key: ${key}`);
  return (value as JsonMap)[key] as CelValue;
}

export function optionalField(value: CelValue, key: string): CelOptional {
  const inner = value instanceof CelOptional ? value.value : value;
  if (inner === undefined) return CelOptional.none;
  if (!isMap(inner)) return inner === null ? CelOptional.none : noOverload();
  const found = mapGet(inner, key);
  return found === undefined ? CelOptional.none : new CelOptional(found);
}

export function element(value: CelValue, key: CelValue): CelValue {
  const found = tryElement(value, key);
  if (found !== undefined) return found;
  return Array.isArray(value) ? fail(`index out of bounds: ${String(key)}`) : fail(`no such key: ${keyText(key)}`);
}

export function tryElement(value: CelValue, key: CelValue): CelValue | undefined {
  if (Array.isArray(value)) return value[listIndex(key)];
  return isMap(value) ? mapGet(value, key) : noOverload();
}

function listIndex(key: CelValue): number {
  if (isInt(key)) return Number(key);
  if (key instanceof CelUint) return Number(key.value);
  const double = doubleOf(key);
  return double !== undefined && Number.isInteger(double) ? double : noOverload();
}

function keyText(key: CelValue): string {
  return key instanceof CelUint ? String(key.value) : String(key);
}

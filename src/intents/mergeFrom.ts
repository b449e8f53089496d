import { equalFields, isObject, type Json, type JsonObject } from "../model/objects/json.ts";
import type { KubeObject } from "../model/objects/object.ts";

/**
 * The merge patch that turns one state of an object into another; undefined when they are the same. A list is replaced
 * as a whole. Identity and revision are left out: they are the intent's precondition.
 */
export function mergeFrom(before: KubeObject, after: KubeObject): JsonObject | undefined {
  return difference(withoutState(before), withoutState(after));
}

function difference(before: JsonObject, after: JsonObject): JsonObject | undefined {
  const patch: JsonObject = {};
  for (const key of Object.keys(before)) if (before[key] !== null && !Object.hasOwn(after, key)) put(patch, key, null);
  for (const key of Object.keys(after)) {
    const now = after[key] as Json;
    const was = Object.hasOwn(before, key) ? before[key] : undefined;
    if (isObject(was) && isObject(now)) {
      const below = difference(was, now);
      if (below !== undefined) put(patch, key, below);
    } else if (!equalFields(was, now)) put(patch, key, now);
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** Assigning to `__proto__` would set the prototype instead of a field of that name. */
function put(patch: JsonObject, key: string, value: Json): void {
  if (key !== "__proto__") patch[key] = value;
  else Object.defineProperty(patch, key, { value, writable: true, enumerable: true, configurable: true });
}

function withoutState(object: KubeObject): JsonObject {
  const { uid: _uid, resourceVersion: _revision, managedFields: _fields, ...metadata } = object.metadata;
  return { ...object, metadata };
}

import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { badRequest } from "../../model/objects/status.ts";

/**
 * RFC 7386: fields of the patch replace those of the object, null removes, maps are merged recursively, lists are
 * replaced. The input is not changed; unchanged subtrees are shared with it.
 */
export function mergePatch(target: JsonObject, patch: Json): JsonObject {
  if (!isObject(patch)) throw badRequest("invalid JSON document: a merge patch must be an object");
  return mergeObject(target, patch);
}

function mergeObject(target: Json | undefined, patch: JsonObject): JsonObject {
  const result: JsonObject = isObject(target) ? { ...target } : {};
  for (const key of Object.keys(patch)) {
    refusePrototypeKey(key);
    const value = patch[key];
    if (value === null || value === undefined) delete result[key];
    // Own keys only: a patch of `constructor` must not merge into a function.
    else if (isObject(value)) result[key] = mergeObject(Object.hasOwn(result, key) ? result[key] : undefined, value);
    else result[key] = value;
  }
  return result;
}

/** Bodies with this key are rejected when they are parsed; this check is for patches from other sources. */
export function refusePrototypeKey(key: string): void {
  if (key === "__proto__") throw badRequest('field "__proto__" is not allowed');
}

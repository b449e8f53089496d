import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { badRequest } from "../../model/objects/status.ts";

/**
 * RFC 7386: what the patch names is replaced, null removes, maps go on recursively, lists are replaced whole. The input
 * stays as it was; what the patch does not touch is shared with it.
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
    // Looking at own keys only: a patch of `constructor` must not merge into a function.
    else if (isObject(value)) result[key] = mergeObject(Object.hasOwn(result, key) ? result[key] : undefined, value);
    else result[key] = value;
  }
  return result;
}

/** Bodies with this key are refused when they are read; this guards patches that come another way. */
export function refusePrototypeKey(key: string): void {
  if (key === "__proto__") throw badRequest('field "__proto__" is not allowed');
}

/**
 * Whether a patch would change anything: one that would not is never sent, so a stage without effect writes nothing.
 */
import { equalFields, isObject, type Json } from "../../model/objects/json.ts";

/** Lists that a strategic patch merges by a key, as far as stages write them; other lists are replaced. */
const mergeKeys: Readonly<Record<string, string>> = {
  conditions: "type",
  addresses: "type",
  podIPs: "ip",
  hostIPs: "ip",
  taints: "key",
  containers: "name",
  initContainers: "name",
  volumes: "name",
  env: "name",
  ownerReferences: "uid",
};

export function patchChanges(object: Json, patch: Json, type: "json" | "merge" | "strategic"): boolean {
  if (type === "json") return !Array.isArray(patch) || patch.length > 0;
  return !isWithin(object, patch, type === "strategic", "");
}

function isWithin(current: Json | undefined, patch: Json, strategic: boolean, field: string): boolean {
  if (patch === null) return current === undefined || current === null;
  if (isObject(patch)) {
    if (!isObject(current)) return false;
    return Object.entries(patch).every(([key, value]) => isWithin(current[key], value, strategic, key));
  }
  const mergeKey = mergeKeys[field];
  if (Array.isArray(patch) && strategic && mergeKey !== undefined) {
    return (
      Array.isArray(current) &&
      patch.every((item) => {
        const name = isObject(item) ? item[mergeKey] : undefined;
        const found = current.find((each) => isObject(each) && each[mergeKey] === name);
        return found !== undefined && isWithin(found, item, strategic, "");
      })
    );
  }
  return current !== undefined && equalFields(current, patch);
}

import { equalJson, isObject, type Json } from "../../model/objects/json.ts";
import type { Structural } from "./structural.ts";

/**
 * The item of the old list that corresponds to an item of the new one: in a map list the one with the same keys. Items
 * of other lists have no identity, so there a change of one item is a change of all.
 */
export function correlatedItem(list: Structural, item: Json, old: Json | undefined): { value: Json } | undefined {
  if (list.listType !== "map" || !Array.isArray(old) || !isObject(item)) return undefined;
  const same = old.find((other) => isObject(other) && sameKeys(list, item, other));
  return same === undefined ? undefined : { value: same };
}

function sameKeys(list: Structural, a: { [key: string]: Json }, b: { [key: string]: Json }): boolean {
  return list.listKeys.every((key) => equalJson(keyOf(list, a, key), keyOf(list, b, key)));
}

/** The value of a key; the default of the key if it is absent. */
export function keyOf(list: Structural, item: { [key: string]: Json }, key: string): Json | undefined {
  return Object.hasOwn(item, key) ? item[key] : list.items?.properties.get(key)?.defaultValue;
}

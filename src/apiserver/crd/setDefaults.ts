import { copyJson, type Json, type JsonObject, setKey } from "../../model/objects/json.ts";
import type { Structural } from "./structural.ts";

/**
 * Sets the defaults of the schema, on writes and on reads of older objects. A null where the schema does not allow one
 * is treated as absent: it is replaced by the default, or removed.
 */
export function setDefaults(object: JsonObject, schema: Structural): void {
  dropNulls(object, schema);
  if (schema.has.defaults) fill(object, schema);
}

function isForbiddenNull(value: Json | undefined, schema: Structural): boolean {
  return value === null && !schema.nullable;
}

function dropNulls(value: Json, schema: Structural): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    if (schema.items === undefined) return;
    for (const item of value) if (typeof item === "object" && item !== null) dropNulls(item, schema.items);
    return;
  }
  for (const key of Object.keys(value)) {
    const child = schema.properties.get(key) ?? schema.additional;
    if (child === undefined) continue;
    const inner = value[key] as Json;
    if (isForbiddenNull(inner, child)) {
      // Content without a schema keeps its nulls.
      const isDescribed = child.type !== "" || child.intOrString;
      if (isDescribed && child.defaultValue === undefined) delete value[key];
    } else if (typeof inner === "object" && inner !== null) {
      dropNulls(inner, child);
    }
  }
}

function fill(value: Json, schema: Structural): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    const { items } = schema;
    if (items === undefined || !items.has.defaults) return;
    for (let i = 0; i < value.length; i++) {
      if (isForbiddenNull(value[i], items) && items.defaultValue !== undefined) value[i] = copyJson(items.defaultValue);
      fill(value[i] as Json, items);
    }
    return;
  }
  for (const [key, child] of schema.properties) {
    if (!child.has.defaults) continue;
    if (child.defaultValue !== undefined && (!Object.hasOwn(value, key) || isForbiddenNull(value[key], child))) {
      setKey(value, key, copyJson(child.defaultValue));
    }
    if (Object.hasOwn(value, key)) fill(value[key] as Json, child);
  }
  const { additional } = schema;
  if (additional === undefined || !additional.has.defaults) return;
  for (const key of Object.keys(value)) {
    if (schema.properties.has(key)) continue;
    if (isForbiddenNull(value[key], additional) && additional.defaultValue !== undefined) {
      setKey(value, key, copyJson(additional.defaultValue));
    }
    fill(value[key] as Json, additional);
  }
}

import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { empty, type Structural } from "./structural.ts";

/**
 * Removes fields that the schema does not declare. Returns their paths, because strict field validation reports them.
 * At the root and at embedded resources apiVersion, kind and metadata are always declared.
 */
export function prune(object: JsonObject, schema: Structural): string[] {
  const removed: string[] = [];
  pruneObject(object, schema, true, "", removed);
  return removed;
}

/** The same for a value that is not a complete resource, such as a default. */
export function pruneValue(value: Json, schema: Structural): string[] {
  const removed: string[] = [];
  pruneAny(value, schema, "", removed);
  return removed;
}

function pruneAny(value: Json, schema: Structural, path: string, removed: string[]): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    // Where the array preserves unknown fields, items without a schema do too.
    const items = schema.items ?? (schema.preserveUnknown ? undefined : empty());
    if (items === undefined) return;
    for (let i = 0; i < value.length; i++) {
      const item = value[i] as Json;
      if (typeof item === "object" && item !== null) pruneAny(item, items, `${path}[${i}]`, removed);
    }
    return;
  }
  pruneObject(value, schema, schema.embedded, path, removed);
}

function pruneObject(
  object: JsonObject,
  schema: Structural,
  isResource: boolean,
  path: string,
  removed: string[],
): void {
  const { properties, additional, preserveUnknown } = schema;
  for (const key of Object.keys(object)) {
    if (isResource && (key === "metadata" || key === "apiVersion" || key === "kind")) continue;
    const value = object[key] as Json;
    const known = properties.get(key) ?? additional;
    if (known === undefined) {
      if (preserveUnknown) continue;
      removed.push(path === "" ? key : `${path}.${key}`);
      delete object[key];
    } else if (typeof value === "object" && value !== null) {
      pruneAny(value, known, path === "" ? key : `${path}.${key}`, removed);
    }
  }
}

/** Embedded resources of an object, outermost first, with their paths; the root itself is not one of them. */
export function embeddedResources(value: Json, schema: Structural): { path: string; object: JsonObject }[] {
  const found: { path: string; object: JsonObject }[] = [];
  collectEmbedded(value, schema, "", found);
  return found;
}

function collectEmbedded(
  value: Json,
  schema: Structural,
  path: string,
  found: { path: string; object: JsonObject }[],
): void {
  if (!schema.has.embedded || typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    const { items } = schema;
    if (items === undefined) return;
    for (let i = 0; i < value.length; i++) collectEmbedded(value[i] as Json, items, `${path}[${i}]`, found);
    return;
  }
  if (schema.embedded && isObject(value)) found.push({ path, object: value });
  for (const key of Object.keys(value)) {
    const child = schema.properties.get(key) ?? schema.additional;
    if (child?.has.embedded) collectEmbedded(value[key] as Json, child, path === "" ? key : `${path}.${key}`, found);
  }
}

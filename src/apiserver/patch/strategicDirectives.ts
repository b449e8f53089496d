/**
 * The directives of a strategic merge patch (`$patch`, `$retainKeys`, `$setElementOrder/x`,
 * `$deleteFromPrimitiveList/x`), and the removal of directives from new values.
 */
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { badRequest } from "../../model/objects/status.ts";
import type { SchemaNode } from "../schema/schemaNode.ts";
import { refusePrototypeKey } from "./mergePatch.ts";

export const retainKeys = "$retainKeys";
export const orderPrefix = "$setElementOrder/";
export const removePrefix = "$deleteFromPrimitiveList/";

/**
 * A value that is new in the object, without nulls and directives. Raw JSON is unchanged, because `$patch` may be data
 * there (the revisions of a StatefulSet have one). Undefined when the value has the directive `delete`.
 */
export function clean(value: Json, schema: SchemaNode | undefined): Json | undefined {
  if (schema?.kind === "any") return value;
  if (Array.isArray(value)) {
    const items = schema?.kind === "list" ? schema.items : undefined;
    const result: Json[] = [];
    for (const item of value) {
      if (isObject(item) && Object.hasOwn(item, "$patch")) continue;
      const cleaned = clean(item, items);
      if (cleaned !== undefined) result.push(cleaned);
    }
    return result;
  }
  if (!isObject(value)) return value;
  const directive = ownValue(value, "$patch");
  if (directive === "delete") return undefined;
  if (directive !== undefined && directive !== "replace" && directive !== "merge")
    throw unknownDirective(directive, value);
  return cleanMap(value, schema);
}

/** The same for a map that replaces another, whatever its directive. */
export function cleanMap(value: JsonObject, schema: SchemaNode | undefined): JsonObject {
  const result: JsonObject = {};
  for (const [key, child] of Object.entries(value)) {
    refusePrototypeKey(key);
    if (child === null || isDirective(key)) continue;
    const cleaned = clean(child, childSchema(schema, key));
    if (cleaned !== undefined) result[key] = cleaned;
  }
  return result;
}

function isDirective(key: string): boolean {
  return key === "$patch" || key === retainKeys || key.startsWith(orderPrefix) || key.startsWith(removePrefix);
}

/** The schema of one field or key, where there is one. */
export function childSchema(schema: SchemaNode | undefined, key: string): SchemaNode | undefined {
  if (schema?.kind === "struct") return schema.fields.get(key)?.schema;
  if (schema?.kind === "map") return schema.values;
  return undefined;
}

/** Own keys only: `constructor` must not find what every object inherits. */
export function ownValue(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

export function badOrder() {
  return badRequest("invalid patch format of setElementOrder list");
}

export function unknownDirective(directive: Json, map: JsonObject) {
  return badRequest(`unknown patch type: ${goText(directive)} in map: ${goText(map)}`);
}

/** A value as Go's `%v` prints it, which is how upstream shows the offending map. Long ones are cut. */
export function goText(value: Json, budget = { characters: 500 }): string {
  if (budget.characters <= 0) return "...";
  if (value === null) return "<nil>";
  if (Array.isArray(value)) return `[${value.map((item) => goText(item, budget)).join(" ")}]`;
  if (isObject(value)) {
    const parts = Object.keys(value)
      .sort()
      .map((key) => `${key}:${goText(value[key] ?? null, budget)}`);
    return `map[${parts.join(" ")}]`;
  }
  const text = String(value).slice(0, budget.characters);
  budget.characters -= text.length;
  return text;
}

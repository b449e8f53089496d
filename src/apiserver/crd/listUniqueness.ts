import { duplicate, type FieldError } from "../../model/objects/fieldError.ts";
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { keyOf } from "./correlate.ts";
import type { Structural } from "./structural.ts";

/** Checks that sets have every value once and map lists every key once. */
export function duplicateItems(value: Json, schema: Structural): FieldError[] {
  const errors: FieldError[] = [];
  // Paths are built only if there is a duplicate.
  if (hasDuplicates(value, schema)) visit(value, schema, "", errors);
  return errors;
}

function hasDuplicates(value: Json, schema: Structural): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) {
    if (schema.listType !== "atomic" && value.length > 1) {
      const seen = new Set<string>();
      for (const item of value) {
        const text = identityText(schema, item);
        if (text === undefined) continue;
        if (seen.has(text)) return true;
        seen.add(text);
      }
    }
    const { items } = schema;
    if (!items?.has.uniqueLists) return false;
    for (const item of value) if (hasDuplicates(item, items)) return true;
    return false;
  }
  if (schema.additional === undefined) {
    for (const [key, child] of schema.properties) {
      if (child.has.uniqueLists && Object.hasOwn(value, key) && hasDuplicates(value[key] as Json, child)) return true;
    }
    return false;
  }
  for (const key of Object.keys(value)) {
    const child = schema.properties.get(key) ?? schema.additional;
    if (child.has.uniqueLists && hasDuplicates(value[key] as Json, child)) return true;
  }
  return false;
}

function visit(value: Json, schema: Structural, path: string, errors: FieldError[]): void {
  if (!schema.has.uniqueLists || typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) {
    for (const key of Object.keys(value)) {
      const child = schema.properties.get(key) ?? schema.additional;
      if (child?.has.uniqueLists) visit(value[key] as Json, child, path === "" ? key : `${path}.${key}`, errors);
    }
    return;
  }
  if (schema.listType !== "atomic") checkList(value, schema, path, errors);
  const { items } = schema;
  if (!items?.has.uniqueLists) return;
  for (let i = 0; i < value.length; i++) visit(value[i] as Json, items, `${path}[${i}]`, errors);
}

function checkList(list: readonly Json[], schema: Structural, path: string, errors: FieldError[]): void {
  const seen = new Set<string>();
  const reported = new Set<string>();
  for (let i = 0; i < list.length; i++) {
    const item = list[i] as Json;
    const text = identityText(schema, item);
    if (text === undefined) continue;
    if (seen.has(text) && !reported.has(text)) {
      errors.push(duplicate(`${path}[${i}]`, schema.listType === "set" ? item : keysOf(schema, item)));
      reported.add(text);
    }
    seen.add(text);
  }
}

/** Equal items have equal texts; undefined for items without an identity. */
function identityText(schema: Structural, item: Json): string | undefined {
  if (schema.listType === "set") return typeof item === "string" ? `"${item}` : canonicalText(item);
  if (!isObject(item)) return undefined;
  const { listKeys } = schema;
  if (listKeys.length === 1) {
    const value = keyOf(schema, item, listKeys[0] as string);
    if (typeof value === "string") return `"${value}`;
  }
  return canonicalText(keysOf(schema, item) ?? null);
}

function keysOf(schema: Structural, item: Json): Json | undefined {
  if (!isObject(item)) return undefined;
  const keys: JsonObject = {};
  for (const key of schema.listKeys) {
    const value = keyOf(schema, item, key);
    if (value !== undefined) keys[key] = value;
  }
  return keys;
}

/** Equal values have equal texts, whatever the order of their keys. */
function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalText(value[key] as Json)}`).join(",")}}`;
}

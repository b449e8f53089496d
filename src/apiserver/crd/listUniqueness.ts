import { duplicate, type FieldError } from "../../model/fieldError.ts";
import { isObject, type Json, type JsonObject } from "../../model/json.ts";
import { keyOf } from "./correlate.ts";
import type { Structural } from "./structural.ts";

/** Sets hold every value once, map lists every key once. */
export function duplicateItems(value: Json, schema: Structural): FieldError[] {
  const errors: FieldError[] = [];
  visit(value, schema, "", errors);
  return errors;
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
    const identity = schema.listType === "set" ? item : keysOf(schema, item);
    if (identity === undefined) continue;
    const text = typeof identity === "string" ? `"${identity}` : canonicalText(identity);
    if (seen.has(text)) {
      if (!reported.has(text)) errors.push(duplicate(`${path}[${i}]`, identity));
      reported.add(text);
    }
    seen.add(text);
  }
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

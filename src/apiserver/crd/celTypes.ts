import { parseDuration, parseTimestamp } from "../../cel/time.ts";
import {
  boolType,
  bytesType,
  type CelType,
  doubleType,
  durationType,
  intType,
  listType,
  mapType,
  type ObjectField,
  stringType,
  timestampType,
} from "../../cel/types.ts";
import { decodeBase64 } from "../../cel/utf8.ts";
import { CelDuration, CelTimestamp, type CelValue, makeDouble } from "../../cel/values.ts";
import { isObject, type Json } from "../../model/objects/json.ts";
import type { Structural } from "./structural.ts";

/** How CEL rules see the data of a custom resource: types from the schema, escaped names, converted values. */

/** The largest request; a value without a declared limit is taken to be as large as this. */
const requestBytes = 3 * 1024 * 1024;
/** Lengths of timestamps, durations and dates as strings. */
const formatSizes: Readonly<Record<string, number>> = { "date-time": 30, date: 10, duration: 25 };

/** Types by schema: large schemas have rules at many depths, and each would build all types below it again. */
const known = new WeakMap<Structural, CelType | null>();

/** The type, or undefined for content that rules cannot access. */
export function celTypeOf(schema: Structural, isResource = false, name = "self"): CelType | undefined {
  if (isResource) return buildType(schema, true, name);
  const before = known.get(schema);
  if (before !== undefined) return before ?? undefined;
  const type = buildType(schema, false, name);
  known.set(schema, type ?? null);
  return type;
}

function buildType(schema: Structural, isResource: boolean, name: string): CelType | undefined {
  if (schema.intOrString) return { kind: "dyn", max: schema.maxLength ?? requestBytes - 2 };
  switch (schema.type) {
    case "boolean":
      return boolType;
    case "integer":
      return intType;
    case "number":
      return doubleType;
    case "string":
      return stringTypeOf(schema);
    case "array": {
      const elem = schema.items === undefined ? undefined : celTypeOf(schema.items, false, `${name}[]`);
      return elem === undefined ? undefined : listType(elem, listMax(schema));
    }
    case "object": {
      if (schema.additional !== undefined && schema.properties.size === 0) {
        const value = celTypeOf(schema.additional, false, `${name}{}`);
        return value === undefined
          ? undefined
          : mapType({ kind: "string", max: requestBytes - 4 }, value, mapMax(schema));
      }
      return objectTypeOf(schema, isResource || schema.embedded, name);
    }
    case "":
      return undefined;
  }
}

/** maxLength counts characters of up to four bytes; sizes are bytes. */
function bytesMax(maxLength: number | undefined): number | undefined {
  return maxLength === undefined ? undefined : 4 * maxLength;
}

function stringTypeOf(schema: Structural): CelType {
  switch (schema.format) {
    case "byte":
      return { ...bytesType, max: schema.maxLength ?? requestBytes } as CelType;
    case "date":
    case "date-time":
      return timestampType;
    case "duration":
      return durationType;
    default: {
      const longest =
        schema.enumTexts === undefined ? undefined : Math.max(0, ...Array.from(schema.enumTexts, (t) => t.length));
      return { ...stringType, max: longest ?? bytesMax(schema.maxLength) ?? requestBytes - 2 } as CelType;
    }
  }
}

function objectTypeOf(schema: Structural, isResource: boolean, typeName: string): CelType {
  const fields = new Map<string, ObjectField>();
  for (const [key, child] of schema.properties) {
    const name = escapeFieldName(key);
    const type = celTypeOf(child, false, `${typeName}.${key}`);
    if (name !== undefined && type !== undefined) fields.set(name, { key, type });
  }
  if (isResource) {
    const short: CelType = { kind: "string", max: 253 };
    fields.set("apiVersion", { key: "apiVersion", type: short });
    fields.set("kind", { key: "kind", type: short });
    const metadata = new Map<string, ObjectField>(["name", "generateName"].map((key) => [key, { key, type: short }]));
    fields.set("metadata", { key: "metadata", type: { kind: "object", name: "metadata", fields: metadata } });
  }
  return { kind: "object", name: typeName, fields };
}

const reserved = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);

/** The identifier of a property: `a-b` is `a__dash__b`, `namespace` is `__namespace__`. Undefined if there is none. */
export function escapeFieldName(key: string): string | undefined {
  if (reserved.has(key)) return `__${key}__`;
  if (!/^[a-zA-Z_./-][a-zA-Z0-9_./-]*$/.test(key)) return undefined;
  return key
    .replaceAll("__", "\0")
    .replaceAll(".", "__dot__")
    .replaceAll("-", "__dash__")
    .replaceAll("/", "__slash__")
    .replaceAll("\0", "__underscores__");
}

/** The fewest bytes that a value takes in JSON. */
function leastBytes(schema: Structural): number {
  if (schema.intOrString) return 1;
  switch (schema.type) {
    case "boolean":
      return 4;
    case "integer":
    case "number":
      return 1;
    case "string":
      return 2 + (schema.formatCheck === undefined ? (schema.minLength ?? 0) : (formatSizes[schema.format] ?? 0));
    case "object": {
      let bytes = 2;
      for (const name of schema.required) {
        const child = schema.properties.get(name);
        if (child !== undefined && child.defaultValue === undefined) bytes += name.length + 4 + leastBytes(child);
      }
      return bytes;
    }
    default:
      return 2;
  }
}

export function listMax(schema: Structural): number {
  const least = schema.items === undefined ? 1 : leastBytes(schema.items);
  return schema.maxItems ?? Math.floor((requestBytes - 2) / (least + 1));
}

export function mapMax(schema: Structural): number {
  const least = schema.additional === undefined ? 1 : leastBytes(schema.additional);
  return schema.maxProperties ?? Math.floor((requestBytes - 2) / (least + 6));
}

/** Whether the CEL value differs from JSON anywhere below: doubles, timestamps, durations, bytes. */
const converts = new WeakMap<Structural, boolean>();

function needsConversion(schema: Structural): boolean {
  const known = converts.get(schema);
  if (known !== undefined) return known;
  const children = [...schema.properties.values(), schema.additional, schema.items];
  const converted = ["byte", "date", "date-time", "duration"];
  const needs =
    schema.type === "number" ||
    (schema.type === "string" && converted.includes(schema.format)) ||
    children.some((child) => child !== undefined && needsConversion(child));
  converts.set(schema, needs);
  return needs;
}

/** The value as CEL sees it. A value that needs no conversion is shared, not copied. */
export function celValueOf(value: Json, schema: Structural): CelValue {
  if (!needsConversion(schema)) return value as CelValue;
  if (typeof value === "number") return schema.type === "number" ? makeDouble(value) : value;
  if (typeof value === "string") return convertString(value, schema.format);
  if (Array.isArray(value)) {
    const { items } = schema;
    return items === undefined ? (value as CelValue) : value.map((item) => celValueOf(item, items));
  }
  if (!isObject(value)) return value;
  const out: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const key of Object.keys(value)) {
    const child = schema.properties.get(key) ?? schema.additional;
    out[key] = child === undefined ? value[key] : celValueOf(value[key] as Json, child);
  }
  return out;
}

/** A string that does not have its format stays a string; schema validation has reported it. */
function convertString(text: string, format: string): CelValue {
  switch (format) {
    case "byte":
      return decodeBase64(text) ?? text;
    case "date":
    case "date-time": {
      const ns = parseTimestamp(format === "date" ? `${text}T00:00:00Z` : text);
      return ns === undefined ? text : new CelTimestamp(ns);
    }
    case "duration": {
      const ns = parseDuration(text);
      return ns === undefined ? text : new CelDuration(ns);
    }
    default:
      return text;
  }
}

import { cachingMatcher, compilePattern } from "../../cel/regex.ts";
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { type FormatCheck, formatCheck } from "./stringFormats.ts";

/**
 * The structural schema of a custom resource, compiled for pruning, defaulting, validation and CEL rules. Property
 * names are keys of Maps, because a schema may name `__proto__`.
 */
export interface Structural {
  readonly type: SchemaType;
  readonly nullable: boolean;
  readonly intOrString: boolean;
  readonly preserveUnknown: boolean;
  readonly embedded: boolean;
  /** Undefined where there is none. */
  readonly defaultValue: Json | undefined;
  readonly properties: ReadonlyMap<string, Structural>;
  readonly additional: Structural | undefined;
  readonly items: Structural | undefined;
  readonly listType: "atomic" | "set" | "map";
  readonly listKeys: readonly string[];
  readonly mapAtomic: boolean;
  readonly format: string;
  /** Validates strings of a supported format. */
  readonly formatCheck: FormatCheck | undefined;
  readonly enumValues: readonly Json[] | undefined;
  /** The same for schemas that allow only strings, which are nearly all. */
  readonly enumTexts: ReadonlySet<string> | undefined;
  readonly pattern: { readonly source: string; readonly matches: (text: string) => boolean } | undefined;
  readonly minimum: number | undefined;
  readonly exclusiveMinimum: boolean;
  readonly maximum: number | undefined;
  readonly exclusiveMaximum: boolean;
  readonly multipleOf: number | undefined;
  readonly minLength: number | undefined;
  readonly maxLength: number | undefined;
  readonly minItems: number | undefined;
  readonly maxItems: number | undefined;
  readonly minProperties: number | undefined;
  readonly maxProperties: number | undefined;
  readonly required: readonly string[];
  readonly allOf: readonly Structural[];
  readonly anyOf: readonly Structural[];
  readonly oneOf: readonly Structural[];
  readonly not: Structural | undefined;
  readonly rules: readonly RuleSource[];
  /** Whether a schema below has defaults, rules or the like, so that a walk can stop early. */
  readonly has: {
    readonly defaults: boolean;
    readonly uniqueLists: boolean;
    readonly embedded: boolean;
    readonly rules: boolean;
  };
}

export type SchemaType = "object" | "array" | "string" | "integer" | "number" | "boolean" | "";

/** One entry of x-kubernetes-validations. */
export interface RuleSource {
  readonly rule: string;
  readonly message: string;
  readonly messageExpression: string;
  readonly reason: string;
  readonly fieldPath: string;
  readonly optionalOldSelf: boolean;
}

const types = new Set(["object", "array", "string", "integer", "number", "boolean"]);

/** Compiles a schema that has passed validation; malformed fields are left out. */
export function compileStructural(schema: JsonObject): Structural {
  const properties = new Map<string, Structural>();
  const propertySource = schema["properties"];
  if (isObject(propertySource)) {
    for (const name of Object.keys(propertySource)) {
      const child = propertySource[name];
      if (isObject(child)) properties.set(name, compileStructural(child));
    }
  }
  const additional =
    schemaOf(schema["additionalProperties"]) ?? (schema["additionalProperties"] === true ? empty() : undefined);
  const items = schemaOf(schema["items"]);
  const listType = schema["x-kubernetes-list-type"];
  const isIntOrString = schema["x-kubernetes-int-or-string"] === true;
  const allOf = schemasOf(isIntOrString ? withoutSpelling(schema["allOf"]) : schema["allOf"]);
  const rules = rulesOf(schema["x-kubernetes-validations"]);
  const enumValues = Array.isArray(schema["enum"]) ? schema["enum"] : undefined;
  const enumTexts = enumValues?.every((value) => typeof value === "string")
    ? new Set(enumValues as string[])
    : undefined;
  const embedded = schema["x-kubernetes-embedded-resource"] === true;
  const format = text(schema["format"]);
  const type = text(schema["type"]);
  const unique = listType === "set" || listType === "map";
  const children = [...properties.values(), additional, items].filter((child) => child !== undefined);
  const below = (what: keyof Structural["has"]) => children.some((child) => child.has[what]);
  return {
    type: types.has(type) ? (type as SchemaType) : "",
    nullable: schema["nullable"] === true,
    intOrString: isIntOrString,
    preserveUnknown: schema["x-kubernetes-preserve-unknown-fields"] === true,
    embedded,
    defaultValue: schema["default"],
    properties,
    additional,
    items,
    listType: unique ? listType : "atomic",
    listKeys: strings(schema["x-kubernetes-list-map-keys"]),
    mapAtomic: schema["x-kubernetes-map-type"] === "atomic",
    format,
    formatCheck: formatCheck(format),
    enumValues,
    enumTexts,
    pattern: patternOf(schema["pattern"]),
    minimum: number(schema["minimum"]),
    exclusiveMinimum: schema["exclusiveMinimum"] === true,
    maximum: number(schema["maximum"]),
    exclusiveMaximum: schema["exclusiveMaximum"] === true,
    multipleOf: number(schema["multipleOf"]),
    minLength: number(schema["minLength"]),
    maxLength: number(schema["maxLength"]),
    minItems: number(schema["minItems"]),
    maxItems: number(schema["maxItems"]),
    minProperties: number(schema["minProperties"]),
    maxProperties: number(schema["maxProperties"]),
    required: strings(schema["required"]),
    allOf,
    anyOf: isIntOrString && spellsIntOrString(schema["anyOf"]) ? [] : schemasOf(schema["anyOf"]),
    oneOf: schemasOf(schema["oneOf"]),
    not: schemaOf(schema["not"]),
    rules,
    has: {
      defaults: schema["default"] !== undefined || below("defaults"),
      uniqueLists: unique || below("uniqueLists"),
      embedded: embedded || below("embedded"),
      rules: rules.length > 0 || below("rules"),
    },
  };
}

let emptyNode: Structural | undefined;

/** The schema of content without a schema. */
export function empty(): Structural {
  emptyNode ??= compileStructural({});
  return emptyNode;
}

/**
 * A schema with int-or-string usually repeats it as anyOf; checking that again would cost more than everything else.
 */
export function spellsIntOrString(branches: Json | undefined): boolean {
  if (!Array.isArray(branches) || branches.length !== 2) return false;
  const names = branches.map((branch) => (isObject(branch) && Object.keys(branch).length === 1 ? branch["type"] : ""));
  return names[0] === "integer" && names[1] === "string";
}

function withoutSpelling(branches: Json | undefined): Json | undefined {
  if (!Array.isArray(branches)) return branches;
  return branches.filter((branch) => {
    return !(isObject(branch) && Object.keys(branch).length === 1 && spellsIntOrString(branch["anyOf"]));
  });
}

function schemaOf(value: Json | undefined): Structural | undefined {
  return isObject(value) ? compileStructural(value) : undefined;
}

function schemasOf(value: Json | undefined): Structural[] {
  return Array.isArray(value) ? value.filter(isObject).map(compileStructural) : [];
}

function rulesOf(value: Json | undefined): RuleSource[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isObject).map((rule) => ({
    rule: text(rule["rule"]),
    message: text(rule["message"]),
    messageExpression: text(rule["messageExpression"]),
    reason: text(rule["reason"]),
    fieldPath: text(rule["fieldPath"]),
    optionalOldSelf: rule["optionalOldSelf"] === true,
  }));
}

function patternOf(value: Json | undefined): Structural["pattern"] {
  if (typeof value !== "string" || value === "") return undefined;
  const regex = compilePattern(value);
  return typeof regex === "string" ? undefined : { source: value, matches: cachingMatcher(regex) };
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function strings(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function number(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}

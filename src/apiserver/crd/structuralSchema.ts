import { compilePattern } from "../../cel/regex.ts";
import {
  describeFieldError,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
} from "../../model/objects/fieldError.ts";
import { copyJson, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { duplicateItems } from "./listUniqueness.ts";
import { pruneValue } from "./prune.ts";
import { checkRuleSources } from "./ruleSources.ts";
import { compileStructural, spellsIntOrString } from "./structural.ts";
import { validateSchema } from "./validateSchema.ts";

/**
 * Whether a schema is structural: every value has one type, declared outside of allOf, anyOf, oneOf and not, so that
 * pruning, defaulting and server-side apply know the type. Errors have paths into the CRD.
 */
export function structuralErrors(schema: JsonObject, path: string): FieldError[] {
  const errors: FieldError[] = [];
  visit(schema, path, "root", 0, errors);
  errors.sort((a, b) => compareText(describeFieldError(a), describeFieldError(b)));
  // Rules and defaults are checked on the compiled schema, which requires a well-formed schema.
  if (errors.length > 0) return errors;
  checkDefaults(schema, path, errors);
  if (errors.length === 0) checkRuleSources(compileStructural(schema), path, errors);
  return errors;
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

type Level = "root" | "field" | "item";

/** The deepest known schema of a real CRD has 27 levels; deeper ones than this are hostile. */
const depthMax = 200;
const schemaTypes = ["array", "boolean", "integer", "number", "object", "string"];
const unsupported = [
  "$ref",
  "id",
  "$schema",
  "definitions",
  "dependencies",
  "patternProperties",
  "additionalItems",
  "externalDocs",
];
const emptyType: Record<Level, string> = {
  root: "must not be empty at the root",
  field: "must not be empty for specified object fields",
  item: "must not be empty for specified array items",
};

function visit(schema: JsonObject, path: string, level: Level, depth: number, errors: FieldError[]): void {
  if (depth > depthMax) {
    errors.push(invalid(path, "schema", `must not be nested deeper than ${depthMax} levels`));
    return;
  }
  checkKeywords(schema, path, errors);
  checkType(schema, path, level, errors);
  checkListAndMapTypes(schema, path, errors);
  checkMetadata(schema, path, level, errors);
  const properties = schema["properties"];
  if (isObject(properties)) {
    for (const name of Object.keys(properties)) {
      const child = properties[name];
      const isMetadata = name === "metadata" && (level === "root" || schema["x-kubernetes-embedded-resource"] === true);
      if (isObject(child) && !isMetadata) visit(child, `${path}.properties[${name}]`, "field", depth + 1, errors);
    }
  }
  const additional = schema["additionalProperties"];
  if (level === "root" && additional !== undefined) {
    errors.push(forbidden(`${path}.additionalProperties`, "must not be used at the root"));
  }
  if (isObject(additional)) visit(additional, `${path}.additionalProperties`, "field", depth + 1, errors);
  const items = schema["items"];
  if (isObject(items)) visit(items, `${path}.items`, "item", depth + 1, errors);
  visitJunctors(schema, schema, path, depth, errors);
}

/** Keywords that no schema of a CRD may have. */
function checkKeywords(schema: JsonObject, path: string, errors: FieldError[]): void {
  for (const word of unsupported) {
    if (schema[word] !== undefined && schema[word] !== "")
      errors.push(forbidden(`${path}.${word}`, `${word} is not supported`));
  }
  if (schema["uniqueItems"] === true) {
    const why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
    errors.push(forbidden(`${path}.uniqueItems`, why));
  }
  const properties = schema["properties"];
  const additional = schema["additionalProperties"];
  // A struct or a map, never both; `additionalProperties: true` beside properties declares nothing.
  if (isObject(properties) && Object.keys(properties).length > 0 && (additional === false || isObject(additional))) {
    errors.push(forbidden(`${path}.additionalProperties`, "additionalProperties and properties are mutual exclusive"));
  }
  if (Array.isArray(schema["items"])) {
    errors.push(forbidden(`${path}.items`, "items must be a schema object and not an array"));
  }
  const { pattern } = schema;
  if (typeof pattern === "string" && pattern !== "") {
    const compiled = compilePattern(pattern);
    if (typeof compiled === "string") {
      errors.push(invalid(`${path}.pattern`, pattern, `must be a valid regular expression, but isn't: ${compiled}`));
    }
  }
  if (schema["x-kubernetes-preserve-unknown-fields"] === false) {
    errors.push(invalid(`${path}.x-kubernetes-preserve-unknown-fields`, false, "must be true or undefined"));
  }
}

function checkType(schema: JsonObject, path: string, level: Level, errors: FieldError[]): void {
  const type = typeof schema["type"] === "string" ? schema["type"] : "";
  const isEmbedded = schema["x-kubernetes-embedded-resource"] === true;
  const isIntOrString = schema["x-kubernetes-int-or-string"] === true;
  const preserves = schema["x-kubernetes-preserve-unknown-fields"] === true;
  if (type === "null") {
    errors.push(forbidden(`${path}.type`, "type cannot be set to null, use nullable as an alternative"));
  } else if (type !== "" && !schemaTypes.includes(type)) {
    errors.push(notSupported(`${path}.type`, type, schemaTypes));
  }
  if (isEmbedded && type !== "object") {
    const why = "must be object if x-kubernetes-embedded-resource is true";
    errors.push(type === "" ? required(`${path}.type`, why) : invalid(`${path}.type`, type, why));
  } else if (type === "" && !isIntOrString && !preserves) {
    errors.push(required(`${path}.type`, emptyType[level]));
  }
  if (level === "root" && type !== "" && type !== "object") {
    errors.push(invalid(`${path}.type`, type, "must be object at the root"));
  }
  if (isIntOrString) {
    if (preserves) {
      const why = "must be false if x-kubernetes-int-or-string is true";
      errors.push(invalid(`${path}.x-kubernetes-preserve-unknown-fields`, true, why));
    }
    if (isEmbedded) {
      const why = "must be false if x-kubernetes-int-or-string is true";
      errors.push(invalid(`${path}.x-kubernetes-embedded-resource`, true, why));
    }
  }
  if (isEmbedded) {
    if (schema["additionalProperties"] !== undefined) {
      const why = "must not be used if x-kubernetes-embedded-resource is set";
      errors.push(forbidden(`${path}.additionalProperties`, why));
    }
    if (!preserves && !isObject(schema["properties"])) {
      const why =
        "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
      errors.push(required(`${path}.properties`, why));
    }
  }
  if (type === "array" && schema["items"] === undefined) errors.push(required(`${path}.items`, "must be specified"));
}

function checkMetadata(schema: JsonObject, path: string, level: Level, errors: FieldError[]): void {
  const properties = schema["properties"];
  if (!isObject(properties)) return;
  if (level !== "root" && schema["x-kubernetes-embedded-resource"] !== true) return;
  for (const name of ["apiVersion", "kind"]) {
    const child = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (isObject(child) && child["type"] !== "string") {
      errors.push(invalid(`${path}.properties[${name}].type`, child["type"] ?? "", "must be string"));
    }
  }
  if (level === "root") {
    for (const name of ["apiVersion", "kind", "metadata"]) {
      const child = Object.hasOwn(properties, name) ? properties[name] : undefined;
      if (isObject(child) && child["default"] !== undefined) {
        errors.push(forbidden(`${path}.properties[${name}].default`, `must not be set in top-level ${name}`));
      }
    }
  }
  const metadata = properties["metadata"];
  if (!isObject(metadata)) return;
  const where = `${path}.properties[metadata]`;
  if (metadata["type"] !== "object") {
    errors.push(invalid(`${where}.type`, metadata["type"] ?? "", "must be object"));
  }
  if (level !== "root") return;
  const inner = metadata["properties"];
  const others = isObject(inner) ? Object.keys(inner).filter((key) => key !== "name" && key !== "generateName") : [];
  if (others.length > 0) {
    const why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
    errors.push(forbidden(where, why));
  }
}

function checkListAndMapTypes(schema: JsonObject, path: string, errors: FieldError[]): void {
  const mapType = schema["x-kubernetes-map-type"];
  if (mapType !== undefined) {
    if (mapType !== "atomic" && mapType !== "granular") {
      errors.push(notSupported(`${path}.x-kubernetes-map-type`, mapType, ["atomic", "granular"]));
    }
    checkTypeFor("object", schema["type"], "x-kubernetes-map-type", path, errors);
  }
  const listType = schema["x-kubernetes-list-type"];
  const keys = schema["x-kubernetes-list-map-keys"];
  const hasKeys = Array.isArray(keys) && keys.length > 0;
  if (listType === undefined) {
    if (hasKeys) {
      const why = "must be map if x-kubernetes-list-map-keys is non-empty";
      errors.push(required(`${path}.x-kubernetes-list-type`, why));
    }
    return;
  }
  checkTypeFor("array", schema["type"], "x-kubernetes-list-type", path, errors);
  if (listType !== "atomic" && listType !== "set" && listType !== "map") {
    errors.push(notSupported(`${path}.x-kubernetes-list-type`, listType, ["atomic", "set", "map"]));
  }
  if (hasKeys && listType !== "map") {
    const why = "must be map if x-kubernetes-list-map-keys is non-empty";
    errors.push(invalid(`${path}.x-kubernetes-list-type`, listType, why));
  }
  if (listType === "map") checkMapKeys(schema, Array.isArray(keys) ? keys : [], path, errors);
  if (listType === "set") checkSetItems(schema, path, errors);
}

function checkTypeFor(wanted: string, type: Json | undefined, word: string, path: string, errors: FieldError[]): void {
  if (type === wanted) return;
  const why = `must be ${wanted} if ${word} is specified`;
  errors.push(type === undefined || type === "" ? required(`${path}.type`, why) : invalid(`${path}.type`, type, why));
}

function checkMapKeys(schema: JsonObject, keys: readonly Json[], path: string, errors: FieldError[]): void {
  if (keys.length === 0) {
    const why = "must not be empty if x-kubernetes-list-type is map";
    errors.push(required(`${path}.x-kubernetes-list-map-keys`, why));
    return;
  }
  const items = schema["items"];
  if (!isObject(items)) {
    errors.push(required(`${path}.items`, "must have a schema if x-kubernetes-list-type is map"));
    return;
  }
  if (items["type"] !== "object") {
    const why = "must be object if parent array's x-kubernetes-list-type is map";
    errors.push(invalid(`${path}.items.type`, items["type"] ?? "", why));
    return;
  }
  const properties = isObject(items["properties"]) ? items["properties"] : {};
  const demanded = Array.isArray(items["required"]) ? items["required"] : [];
  if (items["nullable"] === true) {
    errors.push(forbidden(`${path}.items.nullable`, "cannot be nullable when x-kubernetes-list-type is map"));
  }
  const keysPath = `${path}.x-kubernetes-list-map-keys`;
  const seen = new Set<Json>();
  for (const key of keys) {
    if (seen.has(key)) errors.push(invalid(keysPath, keys, "must not contain duplicate entries"));
    seen.add(key);
    const property = typeof key === "string" && Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (!isObject(property)) {
      errors.push(invalid(keysPath, keys, "entries must all be names of item properties"));
      continue;
    }
    const keyPath = `${path}.items.properties[${key}]`;
    const { type } = property;
    if (type === "object" || type === "array") {
      errors.push(
        invalid(`${keyPath}.type`, type, "must be a scalar type if parent array's x-kubernetes-list-type is map"),
      );
    }
    const because = "this property is in x-kubernetes-list-map-keys, so it";
    if (property["nullable"] === true) errors.push(forbidden(`${keyPath}.nullable`, `${because} cannot be nullable`));
    if (property["default"] === undefined && !demanded.includes(key)) {
      errors.push(required(`${keyPath}.default`, `${because} must have a default or be a required property`));
    }
  }
}

function checkSetItems(schema: JsonObject, path: string, errors: FieldError[]): void {
  const items = schema["items"];
  if (!isObject(items)) {
    errors.push(required(`${path}.items`, "must have a schema if x-kubernetes-list-type is set"));
    return;
  }
  if (items["nullable"] === true) {
    errors.push(forbidden(`${path}.items.nullable`, "cannot be nullable when x-kubernetes-list-type is set"));
  }
  if (items["type"] === "object" && items["x-kubernetes-map-type"] !== "atomic") {
    const why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    errors.push(invalid(`${path}.items.x-kubernetes-map-type`, items["x-kubernetes-map-type"] ?? null, why));
  }
  const inner = items["x-kubernetes-list-type"];
  if (items["type"] === "array" && inner !== undefined && inner !== "atomic") {
    const why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    errors.push(invalid(`${path}.items.x-kubernetes-list-type`, inner, why));
  }
}

const junctors = ["allOf", "anyOf", "oneOf"] as const;
/**
 * Keywords of the structure that are forbidden inside allOf, anyOf, oneOf and not, with upstream's word for the
 * required value.
 */
const structureWords: readonly (readonly [string, "empty" | "false" | "undefined"])[] = [
  ["title", "empty"],
  ["description", "empty"],
  ["default", "undefined"],
  ["nullable", "false"],
  ["additionalProperties", "undefined"],
  ["x-kubernetes-preserve-unknown-fields", "false"],
  ["x-kubernetes-embedded-resource", "false"],
  ["x-kubernetes-int-or-string", "false"],
  ["x-kubernetes-list-map-keys", "empty"],
  ["x-kubernetes-list-type", "undefined"],
  ["x-kubernetes-map-type", "undefined"],
  ["x-kubernetes-validations", "empty"],
];

function visitJunctors(
  schema: JsonObject,
  structure: JsonObject,
  path: string,
  depth: number,
  errors: FieldError[],
): void {
  for (const word of junctors) {
    const branches = schema[word];
    if (!Array.isArray(branches)) continue;
    // Int-or-string is the one schema whose branches may declare types.
    if (structure["x-kubernetes-int-or-string"] === true && spellsIntOrString(branches)) continue;
    branches.forEach((branch, i) => {
      if (isObject(branch)) visitBranch(branch, structure, `${path}.${word}[${i}]`, path, depth + 1, errors);
    });
  }
  const not = schema["not"];
  if (isObject(not)) visitBranch(not, structure, `${path}.not`, path, depth + 1, errors);
}

/** One branch: it may restrict values, but every property that it names must be declared by the structure too. */
function visitBranch(
  branch: JsonObject,
  structure: JsonObject,
  path: string,
  structurePath: string,
  depth: number,
  errors: FieldError[],
): void {
  if (depth > depthMax) {
    errors.push(invalid(path, "schema", `must not be nested deeper than ${depthMax} levels`));
    return;
  }
  for (const [word, wanted] of structureWords) {
    const value = branch[word];
    if (value === undefined || value === "" || value === false || (Array.isArray(value) && value.length === 0))
      continue;
    errors.push(forbidden(`${path}.${word}`, `must be ${wanted} to be structural`));
  }
  if (typeof branch["type"] === "string" && branch["type"] !== "") {
    errors.push(forbidden(`${path}.type`, "must be empty to be structural"));
  }
  checkKeywords(branch, path, errors);
  const properties = branch["properties"];
  if (isObject(properties)) {
    const known = structure["properties"];
    for (const name of Object.keys(properties)) {
      const child = properties[name];
      const base = isObject(known) && Object.hasOwn(known, name) ? known[name] : undefined;
      const basePath = `${structurePath}.properties[${name}]`;
      if (name === "metadata") {
        errors.push(forbidden(`${path}.properties[metadata]`, "must not be specified in a nested context"));
      } else if (!isObject(base)) {
        errors.push(required(basePath, `because it is defined in ${path}.properties[${name}]`));
      } else if (isObject(child)) {
        visitBranch(child, base, `${path}.properties[${name}]`, basePath, depth + 1, errors);
      }
    }
  }
  const items = branch["items"];
  if (isObject(items)) {
    const base = structure["items"];
    if (!isObject(base)) errors.push(required(`${structurePath}.items`, `because it is defined in ${path}.items`));
    else visitBranch(items, base, `${path}.items`, `${structurePath}.items`, depth + 1, errors);
  }
  visitJunctors(branch, structure, path, depth, errors);
}

/** A default must be a valid value. */
function checkDefaults(schema: JsonObject, path: string, errors: FieldError[]): void {
  const value = schema["default"];
  if (value !== undefined) {
    const structural = compileStructural(schema);
    const copy = copyJson(value);
    if (pruneValue(copy, structural).length > 0) {
      errors.push(invalid(`${path}.default`, value, "must not have unknown fields"));
    }
    const found = [...validateSchema(value, structural), ...duplicateItems(value, structural)];
    for (const error of found) {
      errors.push({ ...error, field: error.field === "" ? `${path}.default` : `${path}.default.${error.field}` });
    }
  }
  const properties = schema["properties"];
  if (isObject(properties)) {
    for (const name of Object.keys(properties)) {
      const child = properties[name];
      if (isObject(child)) checkDefaults(child, `${path}.properties[${name}]`, errors);
    }
  }
  for (const word of ["additionalProperties", "items"]) {
    const child = schema[word];
    if (isObject(child)) checkDefaults(child, `${path}.${word}`, errors);
  }
}

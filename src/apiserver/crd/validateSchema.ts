import { stringSize } from "../../cel/values.ts";
import {
  type FieldError,
  invalid,
  notSupported,
  required,
  tooLong,
  tooMany,
  typeInvalid,
} from "../../model/objects/fieldError.ts";
import { equalJson, type Json, type JsonObject } from "../../model/objects/json.ts";
import { append } from "../../model/values/append.ts";
import { correlatedItem } from "./correlate.ts";
import type { Structural } from "./structural.ts";

/**
 * Validates a value against its schema, with upstream's messages. On update an invalid value that did not change is
 * tolerated (ratcheting): a stricter schema must not block updates of existing objects.
 */
export function validateSchema(value: Json, schema: Structural, old?: Json): FieldError[] {
  const errors: FieldError[] = [];
  visit(value, schema, { parent: undefined, key: "", old: undefined }, errors);
  // Nearly every object is valid, so ratcheting is evaluated only when there are errors.
  if (errors.length === 0 || old === undefined) return errors;
  const remaining: FieldError[] = [];
  visit(value, schema, { parent: undefined, key: "", old: { value: old } }, remaining);
  return remaining;
}

/** The path from the root; its text is built only for errors. */
interface Path {
  readonly parent: Path | undefined;
  readonly key: string | number;
  /** The old value at this path; undefined if there was none. */
  readonly old: { readonly value: Json } | undefined;
}

function textOf(path: Path): string {
  if (path.parent === undefined) return "";
  const before = textOf(path.parent);
  if (typeof path.key === "number") return `${before}[${path.key}]`;
  return before === "" ? path.key : `${before}.${path.key}`;
}

function visit(value: Json, schema: Structural, path: Path, errors: FieldError[]): void {
  if (path.old !== undefined && equalJson(value, path.old.value)) return;
  if (value === null && schema.nullable) return;
  if (!checkType(value, schema, path, errors)) return;
  checkValue(value, schema, path, errors);
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) visitItems(value, schema, path, errors);
  else visitFields(value, schema, path, errors);
}

/** All checks but the type and the children; these also apply to the branches of allOf, anyOf, oneOf and not. */
function checkValue(value: Json, schema: Structural, path: Path, errors: FieldError[]): void {
  if (schema.enumValues !== undefined) checkEnum(value, schema, path, errors);
  if (typeof value === "string") checkString(value, schema, path, errors);
  else if (typeof value === "number") checkNumber(value, schema, path, errors);
  else if (Array.isArray(value)) checkItems(value, schema, path, errors);
  else if (typeof value === "object" && value !== null) checkFields(value, schema, path, errors);
  if (schema.allOf.length > 0 || schema.anyOf.length > 0 || schema.oneOf.length > 0 || schema.not !== undefined) {
    checkJunctors(value, schema, path, errors);
  }
}

function visitItems(value: readonly Json[], schema: Structural, path: Path, errors: FieldError[]): void {
  const { items } = schema;
  if (items === undefined) return;
  for (let i = 0; i < value.length; i++) {
    const item = value[i] as Json;
    const before = path.old === undefined ? undefined : correlatedItem(schema, item, path.old.value);
    visit(item, items, { parent: path, key: i, old: before }, errors);
  }
}

function visitFields(value: JsonObject, schema: Structural, path: Path, errors: FieldError[]): void {
  const { properties, additional } = schema;
  for (const key of Object.keys(value)) {
    const child = properties.get(key) ?? additional;
    if (child !== undefined) visit(value[key] as Json, child, { parent: path, key, old: oldField(path, key) }, errors);
  }
}

function oldField(path: Path, key: string): Path["old"] {
  const before = path.old?.value;
  if (typeof before !== "object" || before === null || Array.isArray(before) || !Object.hasOwn(before, key)) {
    return undefined;
  }
  return { value: before[key] as Json };
}

function jsonType(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "number" ? (Number.isInteger(value) ? "integer" : "number") : typeof value;
}

function checkType(value: Json, schema: Structural, path: Path, errors: FieldError[]): boolean {
  const { type } = schema;
  if (schema.intOrString) {
    if (typeof value === "string" || (typeof value === "number" && Number.isInteger(value))) return true;
    return wrongType(value, "integer,string", path, errors);
  }
  switch (type) {
    case "":
      return true;
    case "object":
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return true;
      break;
    case "array":
      if (Array.isArray(value)) return true;
      break;
    case "integer":
      if (typeof value === "number" && Number.isInteger(value)) {
        const isInt32 = schema.format !== "int32" || (value >= -2147483648 && value <= 2147483647);
        return isInt32 || wrongType(value, "int32", path, errors, "int64");
      }
      break;
    case "number":
    case "string":
    case "boolean":
      if (typeof value === type) return true;
      break;
  }
  return wrongType(value, type, path, errors);
}

function wrongType(value: Json, type: string, path: Path, errors: FieldError[], actual = jsonType(value)): boolean {
  const field = textOf(path);
  errors.push(typeInvalid(field, actual, `${inBody(field)} must be of type ${type}: ${JSON.stringify(actual)}`));
  return false;
}

function inBody(field: string): string {
  return field === "" ? "in body" : `${field} in body`;
}

function complain(errors: FieldError[], path: Path, value: Json, what: string): void {
  const field = textOf(path);
  errors.push(invalid(field, value, `${inBody(field)} ${what}`));
}

function checkEnum(value: Json, schema: Structural, path: Path, errors: FieldError[]): void {
  const { enumTexts, enumValues = [] } = schema;
  if (enumTexts !== undefined && typeof value === "string" && enumTexts.has(value)) return;
  if (enumValues.some((allowed) => equalJson(allowed, value))) return;
  const texts = enumValues.map((allowed) => (typeof allowed === "string" ? allowed : JSON.stringify(allowed)));
  errors.push(notSupported(textOf(path), value, texts));
}

function checkString(value: string, schema: Structural, path: Path, errors: FieldError[]): void {
  const { minLength, maxLength, pattern, formatCheck } = schema;
  if (maxLength !== undefined && value.length > maxLength && stringSize(value) > maxLength) {
    errors.push(tooLong(textOf(path), maxLength));
  }
  if (minLength !== undefined && stringSize(value) < minLength) {
    complain(errors, path, value, `should be at least ${minLength} chars long`);
  }
  if (pattern !== undefined && !pattern.matches(value)) {
    complain(errors, path, value, `should match '${pattern.source}'`);
  }
  if (formatCheck !== undefined && !formatCheck(value)) {
    const field = textOf(path);
    const what = `${inBody(field)} must be of type ${schema.format}: ${JSON.stringify(value)}`;
    errors.push(typeInvalid(field, value, what));
  }
}

function checkNumber(value: number, schema: Structural, path: Path, errors: FieldError[]): void {
  const { minimum, maximum, multipleOf } = schema;
  if (minimum !== undefined && (schema.exclusiveMinimum ? value <= minimum : value < minimum)) {
    complain(errors, path, value, `should be greater than ${schema.exclusiveMinimum ? "" : "or equal to "}${minimum}`);
  }
  if (maximum !== undefined && (schema.exclusiveMaximum ? value >= maximum : value > maximum)) {
    complain(errors, path, value, `should be less than ${schema.exclusiveMaximum ? "" : "or equal to "}${maximum}`);
  }
  if (multipleOf !== undefined && multipleOf !== 0 && !Number.isInteger(value / multipleOf)) {
    complain(errors, path, value, `should be a multiple of ${multipleOf}`);
  }
}

function checkItems(value: readonly Json[], schema: Structural, path: Path, errors: FieldError[]): void {
  const { minItems, maxItems } = schema;
  if (maxItems !== undefined && value.length > maxItems) errors.push(tooMany(textOf(path), value.length, maxItems));
  if (minItems !== undefined && value.length < minItems) {
    complain(errors, path, value as Json[], `should have at least ${minItems} items`);
  }
}

function checkFields(value: JsonObject, schema: Structural, path: Path, errors: FieldError[]): void {
  const { minProperties, maxProperties } = schema;
  for (const name of schema.required) {
    if (!Object.hasOwn(value, name)) errors.push(required(textOf({ parent: path, key: name, old: undefined })));
  }
  if (minProperties === undefined && maxProperties === undefined) return;
  const count = Object.keys(value).length;
  if (maxProperties !== undefined && count > maxProperties) errors.push(tooMany(textOf(path), count, maxProperties));
  if (minProperties !== undefined && count < minProperties) {
    complain(errors, path, value, `should have at least ${minProperties} properties`);
  }
}

function checkJunctors(value: Json, schema: Structural, path: Path, errors: FieldError[]): void {
  // No ratcheting inside allOf, anyOf, oneOf and not: a branch matches or does not.
  const strict: Path = { parent: path.parent, key: path.key, old: undefined };
  const failures = (branch: Structural) => {
    const found: FieldError[] = [];
    visit(value, branch, strict, found);
    return found;
  };
  for (const branch of schema.allOf) {
    const found = failures(branch);
    if (found.length > 0) {
      append(errors, found);
      complain(errors, path, value, "must validate all the schemas (allOf)");
    }
  }
  if (schema.anyOf.length > 0) {
    let best: FieldError[] | undefined;
    for (const branch of schema.anyOf) {
      const found = failures(branch);
      if (found.length === 0) {
        best = undefined;
        break;
      }
      if (best === undefined || found.length < best.length) best = found;
    }
    if (best !== undefined) {
      complain(errors, path, value, "must validate at least one schema (anyOf)");
      append(errors, best);
    }
  }
  if (schema.oneOf.length > 0) {
    const results = schema.oneOf.map(failures);
    const valid = results.filter((found) => found.length === 0).length;
    if (valid !== 1) {
      const detail = valid === 0 ? "Found none valid" : `Found ${valid} valid alternatives`;
      complain(errors, path, value, `must validate one and only one schema (oneOf). ${detail}`);
      if (valid === 0)
        append(
          errors,
          results.reduce((best, found) => (found.length < best.length ? found : best)),
        );
    }
  }
  if (schema.not !== undefined && failures(schema.not).length === 0) {
    complain(errors, path, value, "must not validate the schema (not)");
  }
}

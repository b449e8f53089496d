import { copyJson, type Json, type JsonObject, setKey } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { badRequest, type StatusError } from "../../model/objects/status.ts";
import { QuantityError } from "../../model/values/quantity.ts";
import { TimeError } from "../../model/values/time.ts";
import { duplicateAt } from "../wire/json.ts";
import { type DecodePlan, planFor, zeroOf, zeroOfField } from "./decodePlan.ts";
import { decodeScalar, ScalarError } from "./decodeScalar.ts";
import type { SchemaNode, StructNode } from "./schemaNode.ts";

/**
 * Decodes untrusted JSON as Go does: a value that does not fit the schema is rejected, an unknown field is dropped and
 * reported, and every value gets the form in which Go would encode it. The result shares nothing with the input, so it
 * may be changed in place.
 */
export function decodeObject<T = KubeObject>(node: StructNode, value: unknown, options: DecodeOptions): Decoded<T> {
  const { fieldValidation, duplicateFields = [] } = options;
  try {
    const { object, unknownFields } = decodeFields(node, value, fieldValidation !== "Ignore");
    if (fieldValidation === "Ignore" || (unknownFields.length === 0 && duplicateFields.length === 0)) {
      return { object: object as T, warnings: [] };
    }
    const errors = strictErrors(unknownFields, duplicateFields, options.positions);
    if (fieldValidation === "Warn") return { object: object as T, warnings: errors };
    throw cannotHandle(options, strictMessage(errors));
  } catch (error) {
    if (error instanceof DecodeError) throw cannotHandle(options, error.message);
    throw error;
  }
}

export type FieldValidation = "Ignore" | "Warn" | "Strict";

export interface DecodeOptions {
  /** For messages: the kind and apiVersion of the body. */
  readonly kindName: string;
  readonly apiVersion: string;
  readonly fieldValidation: FieldValidation;
  /** Paths of duplicate keys, which only the parser of the text can find. */
  readonly duplicateFields?: readonly string[];
  /** Positions of keys in the text, to report errors in its order. */
  readonly positions?: ReadonlyMap<string, number> | undefined;
}

export interface Decoded<T> {
  readonly object: T;
  /** Texts for `Warning` headers. */
  readonly warnings: string[];
}

/** The value does not fit the schema; the message is Go's. */
export class DecodeError extends Error {
  /** The value that has another type, where there is one. */
  readonly misfit: Misfit | undefined;

  constructor(message: string, misfit?: Misfit) {
    super(message);
    this.name = "DecodeError";
    this.misfit = misfit;
  }
}

export interface Misfit {
  /** `tolerations[0].tolerationSeconds` */
  readonly path: string;
  readonly value: unknown;
  /** Go's type: `int64`. */
  readonly type: string;
}

/** The same without a decision on unknown fields, for callers with another error (patches answer 422). */
export function decodeFields(
  node: SchemaNode,
  value: unknown,
  collectUnknown: boolean,
): { object: Json; unknownFields: string[] } {
  const walk: Walk = { root: node, path: [], unknown: collectUnknown ? [] : undefined };
  try {
    const object = decodeValue(planFor(node), value, walk, 0);
    return { object, unknownFields: walk.unknown ?? [] };
  } catch (error) {
    // Only raw JSON and schemas of schemas can nest without bound; a stack overflow is caught instead of counting
    // levels.
    if (error instanceof RangeError) throw new DecodeError("exceeded max depth");
    if (error instanceof QuantityError || error instanceof TimeError) throw new DecodeError(error.message);
    if (error instanceof ScalarError) throw new DecodeError(error.message);
    throw error;
  }
}

/** What Go encodes for a value that was never set: the status of a new ReplicaSet is `{ replicas: 0 }`. */
export function zeroValue(node: SchemaNode): Json {
  return zeroOf(planFor(node));
}

/** The errors that `Strict` rejects with and `Warn` prints, in the order of the text where it is known. */
export function strictErrors(
  unknownFields: readonly string[],
  duplicateFields: readonly string[],
  positions?: ReadonlyMap<string, number>,
): string[] {
  const errors = [
    ...duplicateFields.map((path) => ({ text: `duplicate field ${JSON.stringify(path)}`, key: duplicateAt(path) })),
    ...unknownFields.map((path) => ({ text: `unknown field ${JSON.stringify(path)}`, key: path })),
  ];
  if (positions !== undefined) {
    const last = Number.MAX_SAFE_INTEGER;
    errors.sort((a, b) => (positions.get(a.key) ?? last) - (positions.get(b.key) ?? last));
  }
  return errors.slice(0, strictErrorsMax).map(({ text }) => text);
}

export function strictMessage(errors: readonly string[]): string {
  return `strict decoding error: ${errors.join(", ")}`;
}

/** A hostile body could have a million unknown fields; no more than these are reported. */
const strictErrorsMax = 100;

function cannotHandle({ kindName, apiVersion }: DecodeOptions, why: string): StatusError {
  const version = apiVersion.slice(apiVersion.indexOf("/") + 1);
  return badRequest(`${kindName} in version ${JSON.stringify(version)} cannot be handled as a ${kindName}: ${why}`);
}

interface Walk {
  readonly root: SchemaNode;
  /** Keys and indexes of the current path; entries beyond the current depth are stale. */
  readonly path: (string | number)[];
  readonly unknown: string[] | undefined;
}

function decodeValue(plan: DecodePlan, value: unknown, walk: Walk, depth: number): Json {
  switch (plan.op) {
    case "struct":
      return decodeStruct(plan, value, walk, depth);
    case "map":
      return decodeMap(plan, value, walk, depth);
    case "list":
      return decodeList(plan, value, walk, depth);
    case "any":
      return copyJson(value) as Json;
    default: {
      const scalar = decodeScalar(plan.op, value);
      if (scalar === undefined) throw mismatch(plan, value, walk, depth);
      return scalar;
    }
  }
}

function decodeStruct(plan: DecodePlan, value: unknown, walk: Walk, depth: number): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw mismatch(plan, value, walk, depth);
  const fields = plan.fields;
  const source = value as JsonObject;
  const out: JsonObject = {};
  for (const key in source) {
    const item = source[key];
    const field = fields.get(key);
    if (field === undefined) {
      if (plan.preserveUnknown) setKey(out, key, copyJson(item) as Json);
      else if (walk.unknown !== undefined && walk.unknown.length < strictErrorsMax) {
        walk.path[depth] = key;
        walk.unknown.push(pathText(walk.path, depth + 1));
      }
      continue;
    }
    if (item === null || item === undefined) continue;
    const inner = field.plan;
    // Most values are strings.
    if (inner.op === "string" && typeof item === "string") {
      if (item !== "" || !field.dropsZero) out[key] = item;
      continue;
    }
    walk.path[depth] = key;
    const decoded = decodeValue(inner, item, walk, depth + 1);
    if (decoded === null || ((field.dropsZero || field.writesNull) && isZero(decoded))) continue;
    out[key] = decoded;
  }
  for (const field of plan.written) {
    if (out[field.name] === undefined) out[field.name] = zeroOfField(field);
  }
  return out;
}

function decodeMap(plan: DecodePlan, value: unknown, walk: Walk, depth: number): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw mismatch(plan, value, walk, depth);
  const inner = plan.items;
  const source = value as JsonObject;
  const out: JsonObject = {};
  for (const key in source) {
    const item = source[key];
    if (inner.op === "string" && typeof item === "string" && key !== "__proto__") {
      out[key] = item;
      continue;
    }
    walk.path[depth] = key;
    const decoded = item === null ? zeroOf(inner) : decodeValue(inner, item, walk, depth + 1);
    setKey(out, key, decoded);
  }
  return out;
}

function decodeList(plan: DecodePlan, value: unknown, walk: Walk, depth: number): Json[] {
  if (!Array.isArray(value)) throw mismatch(plan, value, walk, depth);
  const inner = plan.items;
  const out: Json[] = new Array(value.length);
  for (let index = 0; index < value.length; index++) {
    walk.path[depth] = index;
    const item: unknown = value[index];
    out[index] = item === null ? zeroOf(inner) : decodeValue(inner, item, walk, depth + 1);
  }
  return out;
}

function isZero(value: Json): boolean {
  if (typeof value !== "object") return value === "" || value === false || value === 0;
  if (value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  for (const _ in value) return false;
  return true;
}

/** `spec.containers[0].foo` */
function pathText(path: readonly (string | number)[], depth: number): string {
  let text = "";
  for (let at = 0; at < depth; at++) {
    const step = path[at];
    text += typeof step === "number" ? `[${step}]` : at === 0 ? step : `.${step}`;
  }
  return text;
}

/**
 * Go's message: the innermost struct, then the fields from the root, without indexes and map keys. Only the path is
 * known, so the structs are resolved again here; errors are rare.
 */
function mismatch(plan: DecodePlan, value: unknown, walk: Walk, depth: number): DecodeError {
  const names: string[] = [];
  let struct = "";
  let node = walk.root;
  for (let at = 0; at < depth; at++) {
    if (node.kind === "struct") {
      const name = String(walk.path[at]);
      const field = node.fields.get(name);
      if (field === undefined) break;
      struct = node.name;
      names.push(name);
      node = field.schema;
    } else if (node.kind === "list") node = node.items;
    else if (node.kind === "map") node = node.values;
  }
  const where = names.length === 0 ? "Go value" : `Go struct field ${struct}.${names.join(".")}`;
  const type = goType(plan.node);
  const misfit = { path: pathText(walk.path, depth), value, type };
  return new DecodeError(`json: cannot unmarshal ${describe(value)} into ${where} of type ${type}`, misfit);
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return "array";
  if (typeof value === "boolean") return "bool";
  // A number where a number is expected is out of range, or has a fraction.
  return typeof value === "number" ? `number${Number.isSafeInteger(value) ? "" : ` ${value}`}` : typeof value;
}

function goType(node: SchemaNode): string {
  switch (node.kind) {
    case "struct": {
      const version = node.definition?.split(".").at(-2) ?? "v1";
      return `${version}.${node.name}`;
    }
    case "map":
      return node.values.kind === "scalar" && node.values.type === "quantity"
        ? "v1.ResourceList"
        : `map[string]${goType(node.values)}`;
    case "list":
      return `[]${goType(node.items)}`;
    case "any":
      return "runtime.RawExtension";
    case "scalar":
      return goScalars[node.type];
  }
}

const goScalars = {
  string: "string",
  boolean: "bool",
  int32: "int32",
  int64: "int64",
  number: "float64",
  quantity: "resource.Quantity",
  time: "v1.Time",
  microTime: "v1.MicroTime",
  intOrString: "intstr.IntOrString",
  bytes: "[]uint8",
} as const;

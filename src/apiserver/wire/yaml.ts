/**
 * Reads and writes YAML. Reading follows YAML 1.1, as upstream's library does (`yes` is true, `0644` is octal), but
 * dates stay strings, and what JSON cannot express is rejected. JSON is YAML too, and most clients send it with the
 * YAML media type.
 */
import { type Document, isMap, isScalar, isSeq, parseDocument, type Scalar, stringify } from "yaml";
import type { Json, JsonObject } from "../../model/objects/json.ts";
import { badRequest, tooLarge } from "../../model/objects/status.ts";
import {
  BodyError,
  isExactInteger,
  nestingMax,
  type ParsedBody,
  parseJson,
  refusePrototypeKey,
  textOf,
  tooManyValues,
  valuesMax,
} from "./json.ts";

/** The maximum number of aliases, against exponential expansion. */
export const aliasesMax = 100;
/**
 * The maximum size of YAML that is not JSON: its parser takes a hundred times as long as that of JSON. kubectl and the
 * clients of every language send JSON.
 */
export const yamlBytesMax = 256 * 1024;

/** YAML 1.1 tags that have no counterpart in JSON. `1:30` would be a base-60 number. */
const droppedTags = new Set([
  "tag:yaml.org,2002:timestamp",
  "tag:yaml.org,2002:binary",
  "tag:yaml.org,2002:omap",
  "tag:yaml.org,2002:pairs",
  "tag:yaml.org,2002:set",
]);

/** Reads an object sent as YAML; refuses with 400. */
export function decodeYamlBody(bytes: Uint8Array, options: { findDuplicates?: boolean } = {}): ParsedBody {
  try {
    return parseYaml(bytes, options);
  } catch (error) {
    if (error instanceof BodyError) throw badRequest(`error parsing YAML: ${error.message}`);
    throw error;
  }
}

/** Reads one YAML document; throws BodyError. */
export function parseYaml(bytes: Uint8Array, options: { findDuplicates?: boolean } = {}): ParsedBody {
  if (startsLikeJson(bytes)) {
    try {
      return parseJson(bytes, options);
    } catch (error) {
      if (!(error instanceof BodyError) || !looksLikeSyntax(error.message)) throw error;
    }
  }
  if (bytes.byteLength > yamlBytesMax) {
    throw tooLarge(`Request entity too large: YAML may have at most ${yamlBytesMax} bytes; send the object as JSON`);
  }
  const text = textOf(bytes);
  refuseDeepNesting(text);
  const document = compose(text);
  const duplicates: string[] = [];
  inspect(document.contents, "", 0, options.findDuplicates === true ? duplicates : undefined);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: aliasesMax });
  } catch (error) {
    throw new BodyError(error instanceof RangeError ? "exceeded max depth" : firstLine(error));
  }
  const budget = { nodes: valuesMax };
  return { value: toJson(value, "", 0, budget), duplicates };
}

/** Writes a value as YAML, keys in order, every string safe for readers of YAML 1.1. */
export function toYaml(value: Json): string {
  return stringify(value, { version: "1.1", sortMapEntries: true, aliasDuplicateObjects: false, lineWidth: 0 });
}

function compose(text: string): Document.Parsed {
  let document: Document.Parsed;
  try {
    document = parseDocument(text, {
      version: "1.1",
      merge: true,
      intAsBigInt: true,
      uniqueKeys: false,
      prettyErrors: false,
      logLevel: "error",
      customTags: (tags) =>
        tags.filter((tag) => {
          if (typeof tag === "string") return !droppedTags.has(`tag:yaml.org,2002:${tag}`);
          return !droppedTags.has(tag.tag) && !("format" in tag && tag.format === "TIME");
        }),
    });
  } catch (error) {
    // The library is recursive: a stack overflow from nesting that the check before missed is caught here.
    if (error instanceof RangeError) throw new BodyError("exceeded max depth");
    throw new BodyError(firstLine(error));
  }
  const [error] = document.errors;
  if (error !== undefined) {
    if (error.message.includes("Maximum call stack")) throw new BodyError("exceeded max depth");
    throw new BodyError(
      error.code === "MULTIPLE_DOCS"
        ? "only one document is allowed"
        : `yaml: line ${lineAt(text, error.pos[0])}: ${firstLine(error)}`,
    );
  }
  return document;
}

function startsLikeJson(bytes: Uint8Array): boolean {
  for (const byte of bytes) {
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) continue;
    return byte === 0x7b || byte === 0x5b;
  }
  return false;
}

/** Text that is not JSON may still be YAML; other errors remain. */
function looksLikeSyntax(message: string): boolean {
  return message.startsWith("invalid character") || message === "unexpected end of JSON input";
}

/**
 * A rough check before the recursive parser: the number of open brackets, and of nested block indicators on a line (`-
 * - - x`). It may count brackets inside strings, so its limit is generous; nesting by indentation is checked later.
 */
function refuseDeepNesting(text: string): void {
  let open = 0;
  let run = 0;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === " ") continue;
    run = (character === "-" || character === "?" || character === ":") && text[i + 1] === " " ? run + 1 : 0;
    if (character === "[" || character === "{") open++;
    else if ((character === "]" || character === "}") && open > 0) open--;
    if (open > nestingMax || run > nestingMax) throw new BodyError("exceeded max depth");
  }
}

/**
 * Checks the document before it becomes a value. Keys that are maps or lists are rejected: JSON has none, and the
 * library writes each of them as text, which takes exponential time for keys inside keys.
 */
function inspect(node: unknown, path: string, depth: number, duplicates: string[] | undefined): void {
  if (depth > nestingMax) throw new BodyError("exceeded max depth");
  if (isSeq(node)) {
    for (const [i, item] of node.items.entries()) inspect(item, `${path}[${i}]`, depth + 1, duplicates);
  } else if (isMap(node)) {
    const seen = new Set<string>();
    for (const { key, value } of node.items) {
      if (key !== null && !isScalar(key))
        throw new BodyError(`yaml: a key of ${JSON.stringify(path)} is not a plain word`);
      const name = key === null ? "" : String((key as Scalar).value);
      const where = path === "" ? name : `${path}.${name}`;
      if (duplicates !== undefined && seen.has(name) && name !== "<<" && duplicates.length < 100) {
        if (!duplicates.includes(where)) duplicates.push(where);
      }
      seen.add(name);
      inspect(value, where, depth + 1, duplicates);
    }
  }
}

function toJson(value: unknown, path: string, depth: number, budget: { nodes: number }): Json {
  if (--budget.nodes < 0) throw tooManyValues();
  if (depth > nestingMax) throw new BodyError("exceeded max depth");
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "bigint": {
      const number = Number(value);
      if (!isExactInteger(String(value), number)) {
        throw new BodyError(`field ${JSON.stringify(path)}: number ${value} cannot be kept exactly`);
      }
      return number;
    }
    case "number":
      if (!Number.isFinite(value)) throw new BodyError(`field ${JSON.stringify(path)}: ${value} is not a JSON number`);
      return value;
    case "object":
      break;
    default:
      return null;
  }
  if (value === null) return null;
  if (Array.isArray(value)) return value.map((item, i) => toJson(item, `${path}[${i}]`, depth + 1, budget));
  const result: JsonObject = {};
  for (const [key, child] of Object.entries(value)) {
    const where = path === "" ? key : `${path}.${key}`;
    refusePrototypeKey(key, () => where);
    result[key] = toJson(child, where, depth + 1, budget);
  }
  return result;
}

function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < offset; at = text.indexOf("\n", at + 1)) line++;
  return line;
}

function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return (message.split("\n")[0] ?? message).replace(/:$/, "");
}

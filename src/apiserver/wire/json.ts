/**
 * From untrusted bytes to a JSON value that the rest of the program can trust: UTF-8, bounded depth, no key that could
 * reach a prototype, no number that would come out differently than it went in.
 */
import { isAscii, isUtf8 } from "node:buffer";
import type { Json } from "../../model/objects/json.ts";
import { badRequest } from "../../model/objects/status.ts";
import { JsonSyntaxError, scanJson } from "./jsonScan.ts";

/**
 * How deep a body may nest. Go's decoder stops at 10,000; our code that walks objects is recursive and a thousand
 * levels are safe for all of it, while real objects stay below fifty.
 */
export const nestingMax = 1000;

/** Upstream reports no more mistakes than this. */
const duplicatesMax = 100;
/** Keys whose places are remembered, so that complaints can stand in the order of the text. */
const positionsMax = 10_000;

/** Under which name the place of a repeated key is remembered. */
export function duplicateAt(path: string): string {
  return `${path} again`;
}

export type ParsedBody = {
  readonly value: Json;
  /** Paths of keys given more than once (the last one counts); filled only when asked for. */
  readonly duplicates: readonly string[];
  /** Where keys stand in the text, counted; only where one stands twice. */
  readonly positions?: ReadonlyMap<string, number>;
};

/** The body cannot be read. The message has no prefix, so that the caller can say what it was reading. */
export class BodyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "BodyError";
  }
}

/** Reads an object sent as JSON; refuses with 400 in upstream's words. */
export function decodeJsonBody(bytes: Uint8Array, options: { findDuplicates?: boolean } = {}): ParsedBody {
  try {
    return parseJson(bytes, options);
  } catch (error) {
    if (error instanceof BodyError) throw badRequest(`couldn't get version/kind; json parse error: ${error.message}`);
    throw error;
  }
}

/** Reads JSON; throws BodyError. */
export function parseJson(bytes: Uint8Array, options: { findDuplicates?: boolean } = {}): ParsedBody {
  return parseJsonText(textOf(bytes), bytes, options.findDuplicates === true);
}

/** Bytes to text; throws BodyError when they are not UTF-8. */
export function textOf(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (isAscii(buffer)) return buffer.toString("latin1");
  if (!isUtf8(buffer)) throw new BodyError("invalid UTF-8 in request body");
  return buffer.toString("utf8");
}

function parseJsonText(text: string, bytes: Uint8Array, findDuplicates: boolean): ParsedBody {
  // A body shorter than the limit cannot nest deeper than it.
  const colons = findDuplicates || bytes.length > nestingMax ? measure(bytes) : 0;
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw new BodyError(describeSyntaxError(text));
  }
  const duplicates: string[] = [];
  const positions = new Map<string, number>();
  let keys = 0;
  const hasDuplicates = findDuplicates && countKeys(value) !== colons;
  if (hasDuplicates || mayHoldPrototypeKey.test(text) || mayHoldHugeNumber.test(text)) {
    scanJson(text, {
      key: (key, path) => {
        refusePrototypeKey(key, path);
        if (!hasDuplicates || ++keys > positionsMax) return;
        const where = path();
        if (!positions.has(where)) positions.set(where, keys);
      },
      number: refuseInexactNumber,
      duplicate: (path) => {
        if (!findDuplicates || duplicates.length >= duplicatesMax) return;
        const where = path();
        if (duplicates.includes(where)) return;
        duplicates.push(where);
        positions.set(duplicateAt(where), keys);
      },
    });
  }
  return positions.size === 0 ? { value, duplicates } : { value, duplicates, positions };
}

/** The key itself, or an escape that could spell one of its letters. */
const mayHoldPrototypeKey = /__proto__|\\u00(?:5f|6f|7[024])/i;

/** `__proto__` as an own key is harmless, but a plain copy of it sets a prototype: no object needs such a key. */
export function refusePrototypeKey(key: string, path: () => string): void {
  if (key === "__proto__") throw new BodyError(`field ${JSON.stringify(path())} is not allowed`);
}

const mayHoldHugeNumber = /[0-9]{16}|[0-9][eE]\+?[0-9]{3}/;
const wholeNumber = /^-?[0-9]+$/;

/**
 * JavaScript keeps numbers as doubles. A whole number that would come back with other digits, or one that is too large
 * for a double, is refused rather than changed in silence.
 */
function refuseInexactNumber(text: string, path: () => string): void {
  const number = Number(text);
  const where = path();
  const prefix = where === "" ? "" : `field ${JSON.stringify(where)}: `;
  if (!Number.isFinite(number)) throw new BodyError(`${prefix}number ${text} is out of range`);
  if (wholeNumber.test(text) && !isExactInteger(text, number)) {
    throw new BodyError(`${prefix}number ${text} cannot be kept exactly: write it as a string if the field allows it`);
  }
}

/** Whether these digits survive being read and written again. */
export function isExactInteger(text: string, number: number): boolean {
  return Number.isSafeInteger(number) || String(number) === text;
}

/** Refuses what nests too deep, and counts the colons outside strings, one for each key. */
function measure(bytes: Uint8Array): number {
  let depth = 0;
  let colons = 0;
  const length = bytes.length;
  for (let i = 0; i < length; i++) {
    switch (bytes[i]) {
      case 0x22: {
        i++;
        for (; i < length && bytes[i] !== 0x22; i++) if (bytes[i] === 0x5c) i++;
        break;
      }
      case 0x7b:
      case 0x5b:
        if (++depth > nestingMax) throw new BodyError("exceeded max depth");
        break;
      case 0x7d:
      case 0x5d:
        depth--;
        break;
      case 0x3a:
        colons++;
        break;
    }
  }
  return colons;
}

/** Depth was bounded before. */
function countKeys(value: Json): number {
  if (typeof value !== "object" || value === null) return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === "object" && item !== null) count += countKeys(item);
    return count;
  }
  for (const key in value) {
    count++;
    const child = value[key];
    if (typeof child === "object" && child !== null) count += countKeys(child);
  }
  return count;
}

function describeSyntaxError(text: string): string {
  try {
    scanJson(text, {});
  } catch (error) {
    if (error instanceof JsonSyntaxError) return error.message;
    throw error;
  }
  return "invalid JSON";
}

/**
 * Parses untrusted bytes into a JSON value that the rest of the program can trust: UTF-8, bounded depth, no key that
 * could set a prototype, no number that would be encoded differently than it was sent.
 */
import { isAscii, isUtf8 } from "node:buffer";
import type { Json } from "../../model/objects/json.ts";
import { badRequest, type StatusError, tooLarge } from "../../model/objects/status.ts";
import { JsonSyntaxError, scanJson } from "./jsonScan.ts";

/**
 * The maximum depth of a body. Go's decoder allows 10,000; the code here that walks objects is recursive, and a
 * thousand levels are safe for all of it, while real objects have fewer than fifty.
 */
export const nestingMax = 1000;

/**
 * The maximum number of values of a body: keys of maps with their values, and items of lists. What is done with a body
 * takes microseconds for each of them, during which no other request is answered. Definitions of tens of thousands of
 * lines have fewer than half of it.
 */
export const valuesMax = 100_000;

/** Upstream reports no more mistakes than this. */
const duplicatesMax = 100;
/** The number of keys whose positions are recorded, to report errors in the order of the text. */
const positionsMax = 10_000;

/** The name under which the position of a duplicate key is recorded. */
export function duplicateAt(path: string): string {
  return `${path} again`;
}

export type ParsedBody = {
  readonly value: Json;
  /** Paths of duplicate keys (the last one counts); only when requested. */
  readonly duplicates: readonly string[];
  /** Positions of keys in the text; only where a key is duplicated. */
  readonly positions?: ReadonlyMap<string, number>;
};

/** The body cannot be parsed. The message has no prefix; the caller adds what was parsed. */
export class BodyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "BodyError";
  }
}

/** Parses an object sent as JSON; rejects with 400 in upstream's words. */
export function decodeJsonBody(bytes: Uint8Array, options: { findDuplicates?: boolean } = {}): ParsedBody {
  try {
    return parseJson(bytes, options);
  } catch (error) {
    if (error instanceof BodyError) throw badRequest(`couldn't get version/kind; json parse error: ${error.message}`);
    throw error;
  }
}

/** Parses JSON; throws BodyError. */
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

/** The key itself, or an escape that could be one of its letters. */
const mayHoldPrototypeKey = /__proto__|\\u00(?:5f|6f|7[024])/i;

/** `__proto__` as an own key is harmless, but a plain copy of it sets a prototype; no object needs such a key. */
export function refusePrototypeKey(key: string, path: () => string): void {
  if (key === "__proto__") throw new BodyError(`field ${JSON.stringify(path())} is not allowed`);
}

const mayHoldHugeNumber = /[0-9]{16}|[0-9][eE]\+?[0-9]{3}/;
const wholeNumber = /^-?[0-9]+$/;

/**
 * JavaScript numbers are doubles. An integer that would be encoded with other digits, or that is too large for a
 * double, is rejected rather than changed silently.
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

/** Whether these digits are the same after parsing and encoding. */
export function isExactInteger(text: string, number: number): boolean {
  return Number.isSafeInteger(number) || String(number) === text;
}

export function tooManyValues(): StatusError {
  return tooLarge(`Request entity too large: the object has more than ${valuesMax} fields and list items`);
}

/** Rejects a body that is too deep or has too many values; counts the colons outside strings, one for each key. */
function measure(bytes: Uint8Array): number {
  let depth = 0;
  let colons = 0;
  let values = 1;
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
        values++;
        break;
      case 0x2c:
        values++;
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
  if (values > valuesMax) throw tooManyValues();
  return colons;
}

/** The depth is bounded already. */
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

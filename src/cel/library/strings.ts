import { type CelFunction, define, regexCost, sameSize, traversal, traverseAny, traverseFirst } from "../functions.ts";
import { findMatches, patternOrFail } from "../regex.ts";
import { type CelValue, equalValues, fail, isInt, noOverload } from "../values.ts";
import { formatString } from "./formatString.ts";

/** String functions: the strings extension and the regex functions. Positions count code points. */
function text(value: CelValue): string {
  return typeof value === "string" ? value : noOverload();
}

function position(value: CelValue): number {
  return isInt(value) ? Number(value) : noOverload();
}

/** Code points; an ASCII string is used as it is, without a copy. */
function points(value: string): string | string[] {
  for (let i = 0; i < value.length; i++) if (value.charCodeAt(i) >= 0xd800) return [...value];
  return value;
}

function slicePoints(value: string | string[], from: number, to: number): string {
  return typeof value === "string" ? value.slice(from, to) : value.slice(from, to).join("");
}

function indexOf(value: CelValue, wanted: CelValue, offset: CelValue | undefined, last: boolean): CelValue {
  if (Array.isArray(value)) {
    if (offset !== undefined) noOverload();
    const same = (item: CelValue) => equalValues(item, wanted);
    return last ? value.findLastIndex(same) : value.findIndex(same);
  }
  const all = points(text(value));
  const word = points(text(wanted));
  if (offset !== undefined && (position(offset) < 0 || position(offset) > all.length)) {
    fail(`index out of range: ${offset}`);
  }
  if (typeof all === "string") {
    if (typeof word !== "string") return -1;
    if (last) return all.lastIndexOf(word, offset === undefined ? undefined : position(offset));
    return all.indexOf(word, offset === undefined ? 0 : position(offset));
  }
  const wordPoints = typeof word === "string" ? [...word] : word;
  const start = offset === undefined ? (last ? all.length - wordPoints.length : 0) : position(offset);
  const at = (i: number) => wordPoints.every((point, n) => all[i + n] === point);
  if (last) {
    for (let i = Math.min(start, all.length - wordPoints.length); i >= 0; i--) if (at(i)) return i;
  } else {
    for (let i = start; i + wordPoints.length <= all.length; i++) if (at(i)) return i;
  }
  return -1;
}

function substring(value: CelValue, from: CelValue, to: CelValue | undefined): string {
  const all = points(text(value));
  const start = position(from);
  const end = to === undefined ? all.length : position(to);
  if (start < 0 || start > all.length) fail(`index out of range: ${start}`);
  if (end < 0 || end > all.length) fail(`index out of range: ${end}`);
  if (start > end) fail(`invalid substring range. start: ${start}, end: ${end}`);
  return slicePoints(all, start, end);
}

function split(value: CelValue, separator: CelValue, limit: CelValue | undefined): CelValue {
  const max = limit === undefined ? -1 : position(limit);
  if (max === 0) return [];
  const parts = text(separator) === "" ? [...text(value)] : text(value).split(text(separator));
  if (max < 0 || parts.length <= max) return parts;
  return [...parts.slice(0, max - 1), parts.slice(max - 1).join(text(separator))];
}

function replace(value: CelValue, what: CelValue, by: CelValue, limit: CelValue | undefined): string {
  const max = limit === undefined ? -1 : position(limit);
  if (max < 0) return text(value).split(text(what)).join(text(by));
  const parts = split(value, what, max + 1) as string[];
  return max === 0 ? text(value) : parts.join(text(by));
}

function quote(value: string): string {
  const escapes: Readonly<Record<string, string>> = {
    "\x07": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
  };
  return `"${Array.from(value, (char) => escapes[char] ?? char).join("")}"`;
}

const space = /^[\s\u0085]+|[\s\u0085]+$/gu;

function charAt(value: CelValue, at: CelValue): string {
  const all = points(text(value));
  const index = position(at);
  if (index < 0 || index > all.length) fail(`index out of range: ${index}`);
  return slicePoints(all, index, index + 1);
}

const find = { cost: regexCost, resultSize: sameSize };

export const stringLibrary: readonly CelFunction[] = [
  define(["<string>.charAt(int): string"], charAt, { resultSize: () => 4 }),
  define(
    ["<string>.indexOf(string): int", "<string>.indexOf(string, int): int", "<list<A>>.indexOf(A): int"],
    (a, b, c) => indexOf(a, b, c, false),
    { cost: traverseAny },
  ),
  define(
    ["<string>.lastIndexOf(string): int", "<string>.lastIndexOf(string, int): int", "<list<A>>.lastIndexOf(A): int"],
    (a, b, c) => indexOf(a, b, c, true),
    { cost: traverseAny },
  ),
  define(
    ["<list<string>>.join(): string", "<list<string>>.join(string): string"],
    (a, b) => (Array.isArray(a) ? a.map(text).join(b === undefined ? "" : text(b)) : noOverload()),
    { resultCost: traversal },
  ),
  define(["<string>.split(string): list<string>", "<string>.split(string, int): list<string>"], split, {
    cost: (a) => traversal(2 * a),
    resultSize: sameSize,
  }),
  define(["<string>.substring(int): string", "<string>.substring(int, int): string"], substring, {
    cost: traverseFirst,
    resultSize: sameSize,
  }),
  define(["<string>.replace(string, string): string", "<string>.replace(string, string, int): string"], replace, {
    cost: (a) => traversal(2 * a),
    resultSize: (a, _, c) => a * Math.max(1, c),
  }),
  define(["<string>.trim(): string"], (a) => text(a).replace(space, ""), { cost: traverseFirst, resultSize: sameSize }),
  define(["<string>.upperAscii(): string"], (a) => text(a).replace(/[a-z]+/g, (s) => s.toUpperCase()), {
    cost: traverseFirst,
    resultSize: sameSize,
  }),
  define(["<string>.lowerAscii(): string"], (a) => text(a).replace(/[A-Z]+/g, (s) => s.toLowerCase()), {
    cost: traverseFirst,
    resultSize: sameSize,
  }),
  define(["<list<A>>.reverse(): list<A>"], (a) => (Array.isArray(a) ? [...a].reverse() : noOverload()), {
    cost: traverseAny,
    resultSize: sameSize,
  }),
  define(["strings.quote(string): string"], (a) => quote(text(a)), {
    cost: traverseFirst,
    resultSize: (a) => 2 * a + 2,
  }),
  define(
    ["<string>.format(list<dyn>): string"],
    (a, b) => (Array.isArray(b) ? formatString(text(a), b) : noOverload()),
    { cost: traverseFirst, resultSize: (a, b) => a + 1024 * b },
  ),
  define(["<string>.find(string): string"], (a, b) => findMatches(patternOrFail(text(b)), text(a), 1)[0] ?? "", find),
  define(
    ["<string>.findAll(string): list<string>", "<string>.findAll(string, int): list<string>"],
    (a, b, c) => {
      const max = c === undefined || position(c) < 0 ? Number.POSITIVE_INFINITY : position(c);
      return findMatches(patternOrFail(text(b)), text(a), max);
    },
    find,
  ),
];

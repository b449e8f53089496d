/**
 * The subset of jq that stages use to read objects: paths, pipes, selections, comparisons and a few functions. An
 * expression yields any number of results. A path that does not exist yields nothing instead of failing, so that a
 * stage can read a status that is not written yet.
 */
import { equalJson, isObject, type Json } from "../../model/objects/json.ts";

export class JqError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "JqError";
  }
}

type Filter = (input: Json) => Json[];

export interface JqQuery {
  readonly text: string;
  run(input: Json): Json[];
}

/** Compiles an expression; throws JqError for an invalid expression or an unsupported feature. */
export function compileJq(text: string): JqQuery {
  const parser = new Parser(tokenize(text), text);
  const filter = parser.pipe();
  parser.expectEnd();
  return { text, run: filter };
}

type Token = { readonly kind: "punct" | "name" | "field" | "string" | "number" | "end"; readonly text: string };

const punctuation = [
  "//",
  "==",
  "!=",
  "<=",
  ">=",
  "|",
  ",",
  ".",
  "[",
  "]",
  "(",
  ")",
  "{",
  "}",
  ":",
  ";",
  "?",
  "<",
  ">",
  "+",
  "-",
  "*",
  "/",
  "%",
];
const nameShape = /[A-Za-z_][A-Za-z0-9_]*/y;
const numberShape = /[0-9]+(?:\.[0-9]+)?/y;

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  const match = (shape: RegExp, from: number): string | undefined => {
    shape.lastIndex = from;
    return shape.exec(text)?.[0];
  };
  while (at < text.length) {
    const char = text[at] ?? "";
    if (/\s/.test(char)) {
      at++;
      continue;
    }
    if (char === '"') {
      const end = closingQuote(text, at);
      tokens.push({ kind: "string", text: unquote(text.slice(at, end)) });
      at = end;
      continue;
    }
    if (char === ".") {
      const field = match(nameShape, at + 1);
      if (field !== undefined) {
        tokens.push({ kind: "field", text: field });
        at += 1 + field.length;
        continue;
      }
    }
    const word = match(nameShape, at);
    const digits = match(numberShape, at);
    const mark = punctuation.find((each) => text.startsWith(each, at));
    if (word !== undefined) tokens.push({ kind: "name", text: word });
    else if (digits !== undefined) tokens.push({ kind: "number", text: digits });
    else if (mark !== undefined) tokens.push({ kind: "punct", text: mark });
    else throw new JqError(`unexpected ${JSON.stringify(char)} in ${JSON.stringify(text)}`);
    at += (word ?? digits ?? mark ?? "").length;
  }
  tokens.push({ kind: "end", text: "" });
  return tokens;
}

function closingQuote(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at + 1;
  }
  throw new JqError(`a string is not closed in ${JSON.stringify(text)}`);
}

function unquote(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    throw new JqError(`${text} is not a string`);
  }
}

class Parser {
  readonly #tokens: readonly Token[];
  readonly #text: string;
  #at = 0;

  constructor(tokens: readonly Token[], text: string) {
    this.#tokens = tokens;
    this.#text = text;
  }

  #peek(): Token {
    return this.#tokens[this.#at] ?? { kind: "end", text: "" };
  }

  #take(text: string): boolean {
    const token = this.#peek();
    if (token.kind === "string" || token.kind === "field" || token.text !== text || token.kind === "end") return false;
    this.#at++;
    return true;
  }

  #expect(text: string): void {
    if (!this.#take(text)) throw this.#unexpected(`${JSON.stringify(text)} is missing before`);
  }

  #unexpected(what = "unexpected"): JqError {
    const { text, kind } = this.#peek();
    return new JqError(`${what} ${kind === "end" ? "the end" : JSON.stringify(text)} in ${JSON.stringify(this.#text)}`);
  }

  expectEnd(): void {
    if (this.#peek().kind !== "end") throw this.#unexpected();
  }

  pipe(): Filter {
    const left = this.#comma();
    if (!this.#take("|")) return left;
    const right = this.pipe();
    return (input) => left(input).flatMap(right);
  }

  #comma(): Filter {
    let left = this.#alternative();
    while (this.#take(",")) {
      const [first, second] = [left, this.#alternative()];
      left = (input) => [...first(input), ...second(input)];
    }
    return left;
  }

  /** `a // b`: the results of `a` that are neither null nor false, or those of `b`. */
  #alternative(): Filter {
    const left = this.#or();
    if (!this.#take("//")) return left;
    const right = this.#alternative();
    return (input) => {
      const good = left(input).filter(isTrue);
      return good.length > 0 ? good : right(input);
    };
  }

  #or(): Filter {
    let left = this.#and();
    while (this.#take("or")) left = logical(left, this.#and(), (a, b) => isTrue(a) || isTrue(b()));
    return left;
  }

  #and(): Filter {
    let left = this.#comparison();
    while (this.#take("and")) left = logical(left, this.#comparison(), (a, b) => isTrue(a) && isTrue(b()));
    return left;
  }

  #comparison(): Filter {
    const left = this.#sum();
    for (const [operator, holds] of comparisons) {
      if (this.#take(operator)) return binary(left, this.#sum(), holds);
    }
    return left;
  }

  #sum(): Filter {
    let left = this.#product();
    for (;;) {
      if (this.#take("+")) left = binary(left, this.#product(), add);
      else if (this.#take("-")) left = binary(left, this.#product(), (a, b) => numbers(a, b, (x, y) => x - y));
      else return left;
    }
  }

  #product(): Filter {
    let left = this.#postfix();
    for (;;) {
      if (this.#take("*")) left = binary(left, this.#postfix(), (a, b) => numbers(a, b, (x, y) => x * y));
      else if (this.#take("/")) left = binary(left, this.#postfix(), (a, b) => numbers(a, b, (x, y) => x / y));
      else if (this.#take("%")) left = binary(left, this.#postfix(), (a, b) => numbers(a, b, (x, y) => x % y));
      else return left;
    }
  }

  #postfix(): Filter {
    let filter = this.#term();
    for (;;) {
      const token = this.#peek();
      if (token.kind === "field") {
        this.#at++;
        filter = then(filter, field(token.text));
      } else if (this.#take("?")) filter = suppressed(filter);
      else if (this.#take("[")) filter = this.#bracket(filter);
      else if (this.#take(".")) filter = this.#afterDot(filter);
      else return filter;
    }
  }

  /** `.[...]` and `."name"`. */
  #afterDot(base: Filter): Filter {
    const token = this.#peek();
    if (token.kind === "string") {
      this.#at++;
      return then(base, field(token.text));
    }
    this.#expect("[");
    return this.#bracket(base);
  }

  #bracket(base: Filter): Filter {
    if (this.#take("]")) return then(base, iterate);
    const index = this.pipe();
    this.#expect("]");
    return (input) => base(input).flatMap((value) => index(input).flatMap((key) => at(value, key)));
  }

  #term(): Filter {
    const token = this.#peek();
    if (token.kind === "field") {
      this.#at++;
      return field(token.text);
    }
    if (token.kind === "string") {
      this.#at++;
      return () => [token.text];
    }
    if (token.kind === "number") {
      this.#at++;
      return () => [Number(token.text)];
    }
    if (this.#take("-")) {
      const rest = this.#postfix();
      return (input) => rest(input).map((value) => numbers(0, value, (x, y) => x - y));
    }
    if (this.#take("(")) {
      const inner = this.pipe();
      this.#expect(")");
      return inner;
    }
    if (this.#take("[")) {
      if (this.#take("]")) return () => [[]];
      const inner = this.pipe();
      this.#expect("]");
      return (input) => [inner(input)];
    }
    if (this.#take(".")) return this.#dot();
    if (token.kind === "name") return this.#named();
    throw this.#unexpected();
  }

  #dot(): Filter {
    const token = this.#peek();
    const identity: Filter = (input) => [input];
    if (token.kind === "string") {
      this.#at++;
      return field(token.text);
    }
    return this.#take("[") ? this.#bracket(identity) : identity;
  }

  #named(): Filter {
    const { text: name } = this.#peek();
    this.#at++;
    if (name === "if") return this.#condition();
    const args: Filter[] = [];
    if (this.#take("(")) {
      do args.push(this.pipe());
      while (this.#take(";"));
      this.#expect(")");
    }
    const make = functions.get(`${name}/${args.length}`);
    if (make === undefined)
      throw new JqError(`${name}/${args.length} is not a supported function, in ${JSON.stringify(this.#text)}`);
    return make(...args);
  }

  #condition(): Filter {
    const test = this.pipe();
    this.#expect("then");
    const yes = this.pipe();
    let no: Filter = (input) => [input];
    if (this.#take("elif")) no = this.#condition();
    else {
      if (this.#take("else")) no = this.pipe();
      this.#expect("end");
    }
    return (input) => test(input).flatMap((value) => (isTrue(value) ? yes(input) : no(input)));
  }
}

function isTrue(value: Json): boolean {
  return value !== null && value !== false;
}

function then(first: Filter, second: Filter): Filter {
  return (input) => first(input).flatMap(second);
}

function suppressed(filter: Filter): Filter {
  return (input) => {
    try {
      return filter(input);
    } catch (error) {
      if (error instanceof JqError) return [];
      throw error;
    }
  };
}

function field(name: string): Filter {
  return (input) => at(input, name);
}

function at(value: Json, key: Json): Json[] {
  if (value === null) return [null];
  if (isObject(value) && typeof key === "string") return [Object.hasOwn(value, key) ? (value[key] ?? null) : null];
  if (Array.isArray(value) && typeof key === "number") return [value[key < 0 ? value.length + key : key] ?? null];
  throw new JqError(`cannot look up ${JSON.stringify(key)} in ${typeName(value)}`);
}

/** Iterating over null yields nothing: upstream's caller ignores jq's error about null. */
function iterate(value: Json): Json[] {
  if (Array.isArray(value)) return value;
  if (isObject(value)) return Object.values(value);
  if (value === null) return [];
  throw new JqError(`cannot iterate over ${typeName(value)}`);
}

function typeName(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

/** jq evaluates the right side first; for the results that stages use the order does not matter. */
function binary(left: Filter, right: Filter, combine: (a: Json, b: Json) => Json): Filter {
  return (input) => right(input).flatMap((b) => left(input).map((a) => combine(a, b)));
}

function logical(left: Filter, right: Filter, combine: (a: Json, b: () => Json) => Json): Filter {
  return (input) => left(input).map((a) => combine(a, () => right(input)[0] ?? null));
}

const typeOrder = ["null", "false", "true", "number", "string", "array", "object"];

function rank(value: Json): number {
  return typeOrder.indexOf(typeof value === "boolean" ? String(value) : typeName(value));
}

function compare(a: Json, b: Json): number {
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [x, y] = [JSON.stringify(a), JSON.stringify(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

const comparisons: readonly [string, (a: Json, b: Json) => Json][] = [
  ["==", (a, b) => equalJson(a, b)],
  ["!=", (a, b) => !equalJson(a, b)],
  ["<=", (a, b) => compare(a, b) <= 0],
  [">=", (a, b) => compare(a, b) >= 0],
  ["<", (a, b) => compare(a, b) < 0],
  [">", (a, b) => compare(a, b) > 0],
];

function numbers(a: Json, b: Json, combine: (x: number, y: number) => number): Json {
  if (typeof a !== "number" || typeof b !== "number")
    throw new JqError(`${typeName(a)} and ${typeName(b)} are not numbers`);
  return combine(a, b);
}

function add(a: Json, b: Json): Json {
  if (a === null) return b;
  if (b === null) return a;
  if (typeof a === "string" && typeof b === "string") return a + b;
  if (Array.isArray(a) && Array.isArray(b)) return [...a, ...b];
  if (isObject(a) && isObject(b)) return { ...a, ...b };
  return numbers(a, b, (x, y) => x + y);
}

function lengthOf(value: Json): number {
  if (value === null) return 0;
  if (typeof value === "string") return [...value].length;
  if (Array.isArray(value)) return value.length;
  if (isObject(value)) return Object.keys(value).length;
  if (typeof value === "number") return Math.abs(value);
  throw new JqError("a boolean has no length");
}

function texts(a: Json, b: Json, test: (x: string, y: string) => Json): Json {
  if (typeof a !== "string" || typeof b !== "string") throw new JqError(`${typeName(a)} is not a string`);
  return test(a, b);
}

function contains(a: Json, b: Json): boolean {
  if (typeof a === "string" && typeof b === "string") return a.includes(b);
  if (Array.isArray(a) && Array.isArray(b)) return b.every((each) => a.some((item) => contains(item, each)));
  if (isObject(a) && isObject(b))
    return Object.keys(b).every((key) => key in a && contains(a[key] ?? null, b[key] ?? null));
  return equalJson(a, b);
}

function tonumber(value: Json): Json {
  if (typeof value === "number") return value;
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : Number.NaN;
  if (Number.isNaN(number)) throw new JqError(`${JSON.stringify(value)} is not a number`);
  return number;
}

const one =
  (map: (value: Json) => Json): (() => Filter) =>
  () =>
  (input) => [map(input)];
const withArgument =
  (map: (value: Json, argument: Json) => Json) =>
  (argument?: Filter): Filter =>
  (input) =>
    (argument?.(input) ?? []).map((value) => map(input, value));

const functions = new Map<string, (...args: Filter[]) => Filter>([
  ["true/0", one(() => true)],
  ["false/0", one(() => false)],
  ["null/0", one(() => null)],
  ["not/0", one((value) => !isTrue(value))],
  ["empty/0", () => () => []],
  ["length/0", one(lengthOf)],
  [
    "keys/0",
    one((value) => (isObject(value) ? Object.keys(value).sort() : Array.isArray(value) ? value.map((_, i) => i) : [])),
  ],
  ["type/0", one((value) => typeName(value))],
  ["tostring/0", one((value) => (typeof value === "string" ? value : JSON.stringify(value)))],
  ["tonumber/0", one(tonumber)],
  ["ascii_downcase/0", one((value) => texts(value, "", (text) => text.toLowerCase()))],
  ["first/0", one((value) => (Array.isArray(value) ? (value[0] ?? null) : null))],
  ["last/0", one((value) => (Array.isArray(value) ? (value.at(-1) ?? null) : null))],
  ["add/0", one((value) => iterate(value).reduce(add, null))],
  ["any/0", one((value) => iterate(value).some(isTrue))],
  ["all/0", one((value) => iterate(value).every(isTrue))],
  [
    "to_entries/0",
    one((value) => (isObject(value) ? Object.entries(value).map(([key, each]) => ({ key, value: each })) : [])),
  ],
  ["select/1", (test) => (input) => (test?.(input) ?? []).flatMap((value) => (isTrue(value) ? [input] : []))],
  ["map/1", (map) => (input) => [iterate(input).flatMap((value) => map?.(value) ?? [])]],
  ["any/1", (test) => (input) => [iterate(input).some((value) => (test?.(value) ?? []).some(isTrue))]],
  ["all/1", (test) => (input) => [iterate(input).every((value) => (test?.(value) ?? []).every(isTrue))]],
  ["first/1", (filter) => (input) => (filter?.(input) ?? []).slice(0, 1)],
  [
    "has/1",
    withArgument((value, key) =>
      isObject(value)
        ? Object.hasOwn(value, String(key))
        : Array.isArray(value) && typeof key === "number" && key < value.length,
    ),
  ],
  ["contains/1", withArgument(contains)],
  ["startswith/1", withArgument((value, prefix) => texts(value, prefix, (x, y) => x.startsWith(y)))],
  ["endswith/1", withArgument((value, suffix) => texts(value, suffix, (x, y) => x.endsWith(y)))],
  [
    "join/1",
    withArgument((value, mark) =>
      iterate(value)
        .map((each) => (typeof each === "string" ? each : each === null ? "" : JSON.stringify(each)))
        .join(String(mark)),
    ),
  ],
  ["split/1", withArgument((value, mark) => texts(value, mark, (x, y) => x.split(y)))],
]);

/**
 * The subset of Go's text templates that stages use: fields, variables, pipelines, if, with, range, and functions of
 * the caller. A template is parsed once and rendered many times.
 */
import { isObject } from "../../model/objects/json.ts";

export class TemplateError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "TemplateError";
  }
}

/** Anything JSON, and undefined for a missing value. */
export type TemplateValue = unknown;
export type TemplateFunctions = Readonly<Record<string, (...args: TemplateValue[]) => TemplateValue>>;

export interface Template {
  readonly text: string;
  render(context: TemplateValue, functions: TemplateFunctions): string;
}

interface Scope {
  readonly dot: TemplateValue;
  readonly variables: Map<string, TemplateValue>;
  readonly outer: Scope | undefined;
  readonly functions: TemplateFunctions;
}

type Block = (scope: Scope, out: string[]) => void;
type Expr = (scope: Scope) => TemplateValue;

/** Throws TemplateError for an invalid template. `known` are the names of the available functions. */
export function compileTemplate(text: string, known: ReadonlySet<string>): Template {
  const parser = new TemplateParser(splitActions(text), known);
  const block = parser.block([]).block;
  return {
    text,
    render(context, functions) {
      const out: string[] = [];
      block({ dot: context, variables: new Map([["$", context]]), outer: undefined, functions }, out);
      return out.join("");
    },
  };
}

type Piece = { readonly kind: "text" | "action"; readonly text: string };

function splitActions(text: string): Piece[] {
  const pieces: Piece[] = [];
  let rest = text;
  let trimNext = false;
  for (;;) {
    const start = rest.indexOf("{{");
    let before = start < 0 ? rest : rest.slice(0, start);
    if (trimNext) before = before.replace(/^\s+/, "");
    if (start < 0) {
      pieces.push({ kind: "text", text: before });
      return pieces;
    }
    const end = closingBraces(rest, start + 2);
    let action = rest.slice(start + 2, end);
    if (/^-\s/.test(action)) {
      before = before.replace(/\s+$/, "");
      action = action.slice(1);
    }
    trimNext = /\s-$/.test(action);
    if (trimNext) action = action.slice(0, -1);
    pieces.push({ kind: "text", text: before });
    const trimmed = action.trim();
    if (!trimmed.startsWith("/*")) pieces.push({ kind: "action", text: trimmed });
    rest = rest.slice(end + 2);
  }
}

/** Braces inside strings do not close an action. */
function closingBraces(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (char === '"' || char === "`") {
      for (at++; at < text.length && text[at] !== char; at++) if (char === '"' && text[at] === "\\") at++;
    } else if (text.startsWith("}}", at)) return at;
  }
  throw new TemplateError("an action is not closed");
}

const keywords = new Set(["if", "else", "end", "range", "with"]);

class TemplateParser {
  readonly #pieces: readonly Piece[];
  readonly #known: ReadonlySet<string>;
  #at = 0;

  constructor(pieces: readonly Piece[], known: ReadonlySet<string>) {
    this.#pieces = pieces;
    this.#known = known;
  }

  /** Reads up to one of the closing keywords, which is returned; without any, to the end. */
  block(closers: readonly string[]): { block: Block; closer: string } {
    const blocks: Block[] = [];
    const all: Block = (scope, out) => {
      for (const each of blocks) each(scope, out);
    };
    for (; this.#at < this.#pieces.length; ) {
      const piece = this.#pieces[this.#at++];
      if (piece === undefined) break;
      if (piece.kind === "text") {
        const { text } = piece;
        if (text !== "") blocks.push((_scope, out) => void out.push(text));
        continue;
      }
      const [word = ""] = piece.text.split(/\s+/, 1);
      if (closers.includes(word)) return { block: all, closer: piece.text };
      blocks.push(
        keywords.has(word) ? this.#control(word, piece.text.slice(word.length).trim()) : this.#action(piece.text),
      );
    }
    if (closers.length > 0) throw new TemplateError(`{{${closers.join("}} or {{")}}} is missing`);
    return { block: all, closer: "" };
  }

  #control(word: string, rest: string): Block {
    switch (word) {
      case "if":
      case "with":
        return this.#branch(word, rest);
      case "range":
        return this.#range(rest);
      default:
        throw new TemplateError(`unexpected {{${word}}}`);
    }
  }

  #branch(word: string, rest: string): Block {
    const header = this.#header(rest);
    const { block: yes, closer } = this.block(["else", "end"]);
    let no: Block | undefined;
    if (closer.startsWith("else")) {
      const more = closer.slice(4).trim();
      if (more.startsWith("if")) no = this.#branch("if", more.slice(2).trim());
      else if (more.startsWith("with")) no = this.#branch("with", more.slice(4).trim());
      else no = this.block(["end"]).block;
    }
    return (scope, out) => {
      const value = header.expr(scope);
      const inner = nested(scope, word === "with" ? value : scope.dot);
      if (header.value !== undefined) inner.variables.set(header.value, value);
      if (isTruthy(value)) yes(inner, out);
      else no?.({ ...inner, dot: scope.dot }, out);
    };
  }

  #range(rest: string): Block {
    const { key, value, expr } = this.#header(rest);
    const { block: body, closer } = this.block(["else", "end"]);
    const empty = closer.startsWith("else") ? this.block(["end"]).block : undefined;
    return (scope, out) => {
      const over = expr(scope);
      const entries: [TemplateValue, TemplateValue][] = Array.isArray(over)
        ? over.map((each, i) => [i, each])
        : isObject(over)
          ? Object.keys(over)
              .sort()
              .map((name) => [name, over[name]])
          : typeof over === "number"
            ? Array.from({ length: over }, (_, i) => [i, i])
            : [];
      if (entries.length === 0) empty?.(scope, out);
      for (const [index, each] of entries) {
        const inner = nested(scope, each);
        if (key !== undefined) inner.variables.set(key, index);
        if (value !== undefined) inner.variables.set(value, each);
        body(inner, out);
      }
    };
  }

  /** `$i, $x := pipeline`, `$x := pipeline` or a pipeline alone. */
  #header(text: string): { key?: string; value?: string; expr: Expr } {
    const match = /^(?:(\$\w+)\s*,\s*)?(\$\w+)\s*:=\s*([\s\S]+)$/.exec(text);
    if (match === null) return { expr: this.#pipeline(text) };
    const [, key, value, rest] = match;
    return {
      ...(key === undefined ? {} : { key }),
      ...(value === undefined ? {} : { value }),
      expr: this.#pipeline(rest ?? ""),
    };
  }

  #action(text: string): Block {
    const match = /^(\$\w+)\s*(:?=)\s*([\s\S]+)$/.exec(text);
    if (match === null) {
      const expr = this.#pipeline(text);
      return (scope, out) => void out.push(printed(expr(scope)));
    }
    const [, name = "", sign, rest = ""] = match;
    const expr = this.#pipeline(rest);
    return (scope) => {
      const value = expr(scope);
      if (sign === ":=") scope.variables.set(name, value);
      else assign(scope, name, value);
    };
  }

  #pipeline(text: string): Expr {
    const tokens = new Tokens(text);
    const expr = this.#pipes(tokens);
    if (!tokens.isDone()) throw new TemplateError(`cannot read ${JSON.stringify(text)}`);
    return expr;
  }

  #pipes(tokens: Tokens): Expr {
    let expr = this.#command(tokens, undefined);
    while (tokens.take("|")) expr = this.#command(tokens, expr);
    return expr;
  }

  /** A value, or a function with its arguments; the piped value is the last argument. */
  #command(tokens: Tokens, piped: Expr | undefined): Expr {
    const name = tokens.name();
    if (name === undefined) {
      if (piped !== undefined) throw new TemplateError("only a function can stand after |");
      return this.#operand(tokens);
    }
    const args: Expr[] = [];
    while (!tokens.isDone() && !tokens.at("|") && !tokens.at(")")) args.push(this.#operand(tokens));
    if (piped !== undefined) args.push(piped);
    return this.#call(name, args);
  }

  #call(name: string, args: readonly Expr[]): Expr {
    // `and` and `or` stop at the first decisive value, so later arguments may read missing values.
    if (name === "and") return (scope) => shortCircuit(args, scope, (value) => !isTruthy(value));
    if (name === "or") return (scope) => shortCircuit(args, scope, isTruthy);
    const builtin = builtins.get(name);
    if (builtin === undefined && !this.#known.has(name)) throw new TemplateError(`no function is named ${name}`);
    return (scope) => {
      const call = builtin ?? scope.functions[name];
      if (call === undefined) throw new TemplateError(`no function is named ${name}`);
      return call(...args.map((each) => each(scope)));
    };
  }

  #operand(tokens: Tokens): Expr {
    let expr: Expr;
    if (tokens.take("(")) {
      expr = this.#pipes(tokens);
      if (!tokens.take(")")) throw new TemplateError("a bracket is not closed");
    } else {
      const literal = tokens.literal();
      if (literal !== undefined) return () => literal.value;
      const variable = tokens.variable();
      if (variable !== undefined) expr = (scope) => lookUp(scope, variable);
      else {
        const name = tokens.name();
        if (name !== undefined) return this.#call(name, []);
        if (!tokens.dot()) throw new TemplateError(`cannot read ${JSON.stringify(tokens.rest())}`);
        const first = tokens.fieldAfterDot();
        expr = first === undefined ? (scope) => scope.dot : (scope) => fieldOf(scope.dot, first);
      }
    }
    for (;;) {
      const name = tokens.field();
      if (name === undefined) return expr;
      const base = expr;
      expr = (scope) => fieldOf(base(scope), name);
    }
  }
}

/** A cursor over the text of one action. */
class Tokens {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    this.#skip();
  }

  #skip(): void {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at++;
  }

  #match(shape: RegExp): string | undefined {
    shape.lastIndex = this.#at;
    const found = shape.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  rest(): string {
    return this.#text.slice(this.#at);
  }

  isDone(): boolean {
    return this.#at >= this.#text.length;
  }

  at(text: string): boolean {
    return this.#text.startsWith(text, this.#at);
  }

  take(text: string): boolean {
    if (!this.at(text)) return false;
    this.#at += text.length;
    // A field may follow a closing bracket directly; white space there would start a new argument.
    if (text !== ")") this.#skip();
    return true;
  }

  name(): string | undefined {
    const before = this.#at;
    const found = this.#match(/[A-Za-z_]\w*/y);
    if (found === "true" || found === "false" || found === "nil") {
      this.#at = before;
      return undefined;
    }
    if (found !== undefined) this.#skip();
    return found;
  }

  literal(): { value: TemplateValue } | undefined {
    const word = this.#match(/(?:true|false|nil)\b/y);
    const quoted = word ?? this.#match(/"(?:[^"\\]|\\.)*"/y);
    const raw = quoted ?? this.#match(/`[^`]*`/y);
    const number = raw ?? this.#match(/-?[0-9]+(?:\.[0-9]+)?/y);
    if (number === undefined) return undefined;
    this.#skip();
    if (word !== undefined) return { value: word === "nil" ? undefined : word === "true" };
    if (quoted !== undefined) return { value: JSON.parse(quoted) as string };
    if (raw !== undefined) return { value: raw.slice(1, -1) };
    return { value: Number(number) };
  }

  variable(): string | undefined {
    const found = this.#match(/\$\w*/y);
    if (found !== undefined && !this.at(".")) this.#skip();
    return found;
  }

  dot(): boolean {
    if (!this.at(".")) return false;
    this.#at++;
    return true;
  }

  fieldAfterDot(): string | undefined {
    const found = this.#match(/[A-Za-z_]\w*/y);
    if (!this.at(".")) this.#skip();
    return found;
  }

  /** `.name` that follows a value without white space between. */
  field(): string | undefined {
    const found = this.#match(/\.[A-Za-z_]\w*/y);
    if (!this.at(".") || found === undefined) this.#skip();
    return found?.slice(1);
  }
}

function nested(outer: Scope, dot: TemplateValue): Scope {
  return { dot, variables: new Map(), outer, functions: outer.functions };
}

function lookUp(scope: Scope, name: string): TemplateValue {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
    if (at.variables.has(name)) return at.variables.get(name);
  }
  throw new TemplateError(`no variable is named ${name}`);
}

function assign(scope: Scope, name: string, value: TemplateValue): void {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
    if (!at.variables.has(name)) continue;
    at.variables.set(name, value);
    return;
  }
  throw new TemplateError(`no variable is named ${name}`);
}

function fieldOf(value: TemplateValue, name: string): TemplateValue {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

function shortCircuit(args: readonly Expr[], scope: Scope, stops: (value: TemplateValue) => boolean): TemplateValue {
  let value: TemplateValue;
  for (const each of args) {
    value = each(scope);
    if (stops(value)) return value;
  }
  return value;
}

export function isTruthy(value: TemplateValue): boolean {
  if (value === undefined || value === null || value === false || value === 0 || value === "") return false;
  if (Array.isArray(value)) return value.length > 0;
  return isObject(value) ? Object.keys(value).length > 0 : true;
}

function printed(value: TemplateValue): string {
  if (value === undefined || value === null) return "<no value>";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function ordered(a: TemplateValue, b: TemplateValue): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [x, y] = [String(a), String(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/** `%s`, `%d`, `%v`, `%q` and `%%`. */
function printf(format: TemplateValue, ...args: TemplateValue[]): string {
  let next = 0;
  return String(format).replace(/%([sdvq%])/g, (_all, verb: string) => {
    if (verb === "%") return "%";
    const value = args[next++];
    return verb === "q" ? JSON.stringify(String(value)) : printed(value);
  });
}

/** Go's own functions, and those of sprig that stages use. */
const builtins = new Map<string, (...args: TemplateValue[]) => TemplateValue>(
  Object.entries({
    not: (value) => !isTruthy(value),
    eq: (first, ...others) => others.some((other) => first === other),
    ne: (a, b) => a !== b,
    lt: (a, b) => ordered(a, b) < 0,
    le: (a, b) => ordered(a, b) <= 0,
    gt: (a, b) => ordered(a, b) > 0,
    ge: (a, b) => ordered(a, b) >= 0,
    len: (value) =>
      Array.isArray(value) || typeof value === "string"
        ? value.length
        : isObject(value)
          ? Object.keys(value).length
          : 0,
    index: (value, ...keys) =>
      keys.reduce<TemplateValue>(
        (at, key) => (Array.isArray(at) && typeof key === "number" ? at[key] : fieldOf(at, String(key))),
        value,
      ),
    printf,
    print: (...args) => args.map(printed).join(""),
    default: (fallback, value) => (isTruthy(value) ? value : fallback),
    coalesce: (...values) => values.find(isTruthy),
    empty: (value) => !isTruthy(value),
    ternary: (yes, no, test) => (isTruthy(test) ? yes : no),
    hasKey: (value, key) => isObject(value) && Object.hasOwn(value, String(key)),
    dict: (...pairs) => {
      const result: Record<string, TemplateValue> = {};
      for (let i = 0; i < pairs.length; i += 2) result[String(pairs[i])] = pairs[i + 1];
      return result;
    },
    list: (...values) => values,
    has: (value, list) => Array.isArray(list) && list.includes(value),
    upper: (text) => String(text).toUpperCase(),
    lower: (text) => String(text).toLowerCase(),
    trim: (text) => String(text).trim(),
    quote: (value) => JSON.stringify(String(value)),
    toString: (value: TemplateValue) => printed(value),
    int: (value) => Math.trunc(Number(value)) || 0,
    add: (...values) => values.reduce<number>((sum, value) => sum + (Number(value) || 0), 0),
    sub: (a, b) => Number(a) - Number(b),
    toJson: (value) => JSON.stringify(value ?? null),
  } satisfies TemplateFunctions),
);

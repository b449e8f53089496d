import { isObject, type Json, type JsonObject, setKey } from "../../model/objects/json.ts";
import { append } from "../../model/values/append.ts";

/**
 * The subset of JSONPath that CRDs use: printer columns (with wildcards, filters, slices and unions), selectable fields
 * and scale paths (plain fields only). Parsed once, then evaluated.
 */
export type JsonPath = readonly Step[];

type Step =
  | { readonly kind: "field"; readonly name: string }
  | { readonly kind: "index"; readonly at: number }
  | { readonly kind: "slice"; readonly from: number | undefined; readonly to: number | undefined; readonly by: number }
  | { readonly kind: "wildcard" }
  | { readonly kind: "descend" }
  | { readonly kind: "union"; readonly steps: readonly Step[] }
  | { readonly kind: "filter"; readonly left: Operand; readonly op: string; readonly right: Operand | undefined };

type Operand = { readonly path: JsonPath } | { readonly value: Json };

/** The parsed path, or an error message. */
export function parseJsonPath(text: string): JsonPath | string {
  const reader = new Reader(text.startsWith("{") && text.endsWith("}") ? text.slice(1, -1) : text);
  try {
    return reader.path();
  } catch (error) {
    if (error instanceof JsonPathError) return error.message;
    throw error;
  }
}

/** The names along a path of plain fields, `.spec.replicas` or `.spec['a-b']`; else an error message. */
export function parseSimplePath(text: string): string[] | string {
  const path = parseJsonPath(text);
  if (typeof path === "string") return path;
  const names: string[] = [];
  for (const step of path) {
    if (step.kind !== "field") return "only fields may be named";
    names.push(step.name);
  }
  return names.length === 0 ? "at least one field must be named" : names;
}

/** Every value that the path finds, in document order. */
export function findAll(path: JsonPath, root: Json): Json[] {
  let values: Json[] = [root];
  for (const step of path) {
    const next: Json[] = [];
    for (const value of values) apply(step, value, next, root);
    if (next.length === 0) return next;
    values = next;
  }
  return values;
}

/** The first value that the path finds. */
export function findFirst(path: JsonPath, root: Json): Json | undefined {
  // Nearly all paths are plain fields, which need no list.
  let value: Json = root;
  for (const step of path) {
    if (step.kind !== "field") return findAll(path, root)[0];
    if (!isObject(value) || !Object.hasOwn(value, step.name)) return undefined;
    value = value[step.name] as Json;
  }
  return value;
}

/** The value at plain field names; undefined where a field is absent. */
export function getField(names: readonly string[], root: Json): Json | undefined {
  let value: Json = root;
  for (const name of names) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name] as Json;
  }
  return value;
}

/** Sets the value, creating objects along the path. False if another value is in the way. */
export function setField(names: readonly string[], root: JsonObject, value: Json): boolean {
  let object = root;
  for (const name of names.slice(0, -1)) {
    const next = Object.hasOwn(object, name) ? object[name] : undefined;
    if (next === undefined || next === null) {
      const made: JsonObject = {};
      setKey(object, name, made);
      object = made;
    } else if (isObject(next)) object = next;
    else return false;
  }
  const last = names.at(-1);
  if (last === undefined) return false;
  setKey(object, last, value);
  return true;
}

function apply(step: Step, value: Json, out: Json[], root: Json): void {
  switch (step.kind) {
    case "field":
      if (isObject(value) && Object.hasOwn(value, step.name)) out.push(value[step.name] as Json);
      return;
    case "index": {
      if (!Array.isArray(value)) return;
      const found = value.at(step.at);
      if (found !== undefined) out.push(found);
      return;
    }
    case "slice":
      if (Array.isArray(value)) sliceInto(value, step, out);
      return;
    case "wildcard":
      if (Array.isArray(value)) append(out, value);
      else if (isObject(value)) append(out, Object.values(value));
      return;
    case "descend":
      descend(value, out);
      return;
    case "union":
      for (const each of step.steps) apply(each, value, out, root);
      return;
    case "filter": {
      const items = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [];
      for (const item of items) if (holds(step, item)) out.push(item);
      return;
    }
  }
}

function sliceInto(list: readonly Json[], { from, to, by }: Step & { kind: "slice" }, out: Json[]): void {
  const clamp = (at: number) => Math.min(list.length, Math.max(0, at < 0 ? at + list.length : at));
  for (let i = clamp(from ?? 0); i < clamp(to ?? list.length); i += by) out.push(list[i] as Json);
}

function descend(value: Json, out: Json[]): void {
  out.push(value);
  if (Array.isArray(value)) for (const item of value) descend(item, out);
  else if (isObject(value)) for (const item of Object.values(value)) descend(item, out);
}

function holds(step: Step & { kind: "filter" }, item: Json): boolean {
  const left = resolve(step.left, item);
  if (step.right === undefined) return left !== undefined;
  const right = resolve(step.right, item);
  if (left === undefined || right === undefined) return false;
  if (step.op === "==") return left === right;
  if (step.op === "!=") return left !== right;
  if (typeof left !== typeof right || (typeof left !== "number" && typeof left !== "string")) return false;
  const [a, b] = [left, right as typeof left];
  return step.op === "<" ? a < b : step.op === "<=" ? a <= b : step.op === ">" ? a > b : a >= b;
}

function resolve(operand: Operand, item: Json): Json | undefined {
  return "value" in operand ? operand.value : findFirst(operand.path, item);
}

class JsonPathError extends Error {}

class Reader {
  private readonly text: string;
  private at = 0;

  constructor(text: string) {
    this.text = text;
  }

  path(end = ""): Step[] {
    const steps: Step[] = [];
    this.accept("$");
    for (;;) {
      if (this.at >= this.text.length) break;
      if (end !== "" && (this.text.startsWith(end, this.at) || /[ =!<>)]/.test(this.text[this.at] ?? ""))) break;
      if (this.accept("..")) {
        steps.push({ kind: "descend" });
        if (this.text[this.at] !== "[") steps.push(this.name());
      } else if (this.accept(".")) {
        if (this.at >= this.text.length && steps.length === 0) break;
        if (this.text[this.at] !== "[") steps.push(this.name());
      } else if (this.accept("[")) {
        steps.push(this.bracket());
      } else {
        throw new JsonPathError(
          `unexpected character at ${this.at}: ${JSON.stringify(this.text.slice(this.at, this.at + 8))}`,
        );
      }
    }
    return steps;
  }

  private accept(word: string): boolean {
    if (!this.text.startsWith(word, this.at)) return false;
    this.at += word.length;
    return true;
  }

  private match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) return undefined;
    this.at += found[0].length;
    return found;
  }

  private name(): Step {
    if (this.accept("*")) return { kind: "wildcard" };
    const found = this.match(/(?:\\.|[^.[\](){}'"\s\\,=<>!*?@$])+/y);
    if (found === undefined) throw new JsonPathError("a field name is missing");
    return { kind: "field", name: found[0].replace(/\\(.)/g, "$1") };
  }

  private bracket(): Step {
    if (this.accept("?(")) return this.filter();
    const steps = [this.item()];
    while (this.accept(",")) steps.push(this.item());
    if (!this.accept("]")) throw new JsonPathError("unterminated array");
    return steps.length === 1 ? (steps[0] as Step) : { kind: "union", steps };
  }

  private item(): Step {
    this.match(/\s*/y);
    if (this.accept("*")) return { kind: "wildcard" };
    const quoted = this.match(/'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"/y);
    if (quoted !== undefined) return { kind: "field", name: (quoted[1] ?? quoted[2] ?? "").replace(/\\(.)/g, "$1") };
    const range = this.match(/(-?\d{1,9})?\s*:\s*(-?\d{1,9})?(?:\s*:\s*(\d{1,9}))?/y);
    if (range !== undefined) {
      const [, from, to, by] = range;
      if (by !== undefined && Number(by) === 0) throw new JsonPathError("step must be greater than zero");
      return { kind: "slice", from: numberOf(from), to: numberOf(to), by: numberOf(by) ?? 1 };
    }
    const index = this.match(/-?\d{1,9}/y);
    if (index === undefined) throw new JsonPathError("invalid array index");
    return { kind: "index", at: Number(index[0]) };
  }

  private filter(): Step {
    const left = this.operand();
    this.match(/\s*/y);
    const op = this.match(/==|!=|<=|>=|<|>/y)?.[0] ?? "";
    this.match(/\s*/y);
    const right = op === "" ? undefined : this.operand();
    this.match(/\s*/y);
    if (!this.accept(")]")) throw new JsonPathError("unterminated filter");
    return { kind: "filter", left, op, right };
  }

  private operand(): Operand {
    this.match(/\s*/y);
    if (this.accept("@")) return { path: this.path(")") };
    const quoted = this.match(/'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"/y);
    if (quoted !== undefined) return { value: (quoted[1] ?? quoted[2] ?? "").replace(/\\(.)/g, "$1") };
    const word = this.match(/-?\d+(?:\.\d+)?|true|false/y)?.[0];
    if (word === undefined) throw new JsonPathError("invalid filter operand");
    return { value: word === "true" ? true : word === "false" ? false : Number(word) };
  }
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

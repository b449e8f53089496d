/** Literals that are validated at compile time: patterns, durations, timestamps, lists of mixed types. */
import type { Expr } from "./ast.ts";
import type { CheckError, Checked } from "./check.ts";
import { compilePattern } from "./regex.ts";
import { parseDuration, parseTimestamp } from "./time.ts";
import { typeText } from "./types.ts";

const isValid: Readonly<Record<string, (text: string) => boolean>> = {
  matches: (text) => typeof compilePattern(text) !== "string",
  duration: (text) => parseDuration(text) !== undefined,
  timestamp: (text) => parseTimestamp(text) !== undefined,
};

export function literalErrors(expr: Expr, { types, calls }: Checked): CheckError[] {
  const errors: CheckError[] = [];
  const alike = (parts: readonly Expr[]): void => {
    const [first, ...rest] = parts;
    const wanted = first === undefined ? undefined : types.get(first);
    if (wanted === undefined) return;
    for (const part of rest) {
      const found = types.get(part);
      if (found === undefined || typeText(found) === typeText(wanted)) continue;
      errors.push({ at: part.at, message: `expected type '${typeText(wanted)}' but found '${typeText(found)}'` });
      return;
    }
  };
  const visit = (each: Expr, isFormat = false): void => {
    if (each.op === "call") {
      const { name = "" } = calls.get(each)?.fn ?? {};
      const text = each.args.at(-1);
      const isString = text?.op === "const" && typeof text.value === "string";
      if (isString && isValid[name]?.(text.value as string) === false) {
        errors.push({ at: text.at, message: `invalid ${name} argument` });
      }
      for (const inner of partsOf(each)) visit(inner, name === "format");
      return;
    }
    // The arguments of format() may have any types.
    if (each.op === "list" && !isFormat)
      alike(each.items.filter(({ optional }) => !optional).map(({ value }) => value));
    if (each.op === "map") {
      alike(each.entries.map(({ key }) => key));
      alike(each.entries.filter(({ optional }) => !optional).map(({ value }) => value));
    }
    for (const inner of partsOf(each)) visit(inner);
  };
  visit(expr);
  return errors;
}

function partsOf(expr: Expr): readonly Expr[] {
  switch (expr.op) {
    case "const":
    case "ident":
      return [];
    case "select":
      return [expr.target];
    case "has":
      return [expr.select];
    case "index":
      return [expr.target, expr.index];
    case "call":
      return expr.target === undefined ? expr.args : [expr.target, ...expr.args];
    case "and":
    case "or":
      return expr.args;
    case "if":
      return [expr.test, expr.then, expr.otherwise];
    case "list":
      return expr.items.map(({ value }) => value);
    case "map":
      return expr.entries.flatMap(({ key, value }) => [key, value]);
    case "struct":
      return expr.fields.map(({ value }) => value);
    case "fold":
      return [expr.range, ...(expr.filter === undefined ? [] : [expr.filter]), expr.body];
    case "bind":
      return [expr.value, expr.body];
    case "optMap":
    case "optFlatMap":
      return [expr.target, expr.body];
  }
}

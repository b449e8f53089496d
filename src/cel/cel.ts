import { type CheckOptions, check } from "./check.ts";
import { estimateCost } from "./estimate.ts";
import type { Frame, Run } from "./frame.ts";
import { CelSyntaxError } from "./lexer.ts";
import { parse } from "./parse.ts";
import { plan } from "./plan.ts";
import { assignable, type CelType, typeText } from "./types.ts";
import { CelCostExceeded, CelFailure, type CelValue } from "./values.ts";

/**
 * CEL as Kubernetes uses it: compile once, evaluate often, within a cost budget. Used by rules of custom resources,
 * match conditions of webhooks, admission policies and device selectors.
 */
export interface CelProgram {
  readonly expression: string;
  readonly type: CelType;
  /** The estimated maximum cost of an evaluation; infinite where a size is not declared. */
  readonly costMax: number;
  readonly variables: readonly string[];
  /** Whether the expression uses the variable. */
  uses(variable: string): boolean;
  readonly run: Run;
  readonly slots: number;
}

/** Messages of syntax and type errors end with the line of the expression and a marker under the position. */
export type CompileResult = { ok: true; program: CelProgram } | { ok: false; errors: readonly string[] };

export interface CompileOptions extends CheckOptions {
  readonly variables: Readonly<Record<string, CelType>> | ReadonlyMap<string, CelType>;
  /** The required result type; dyn is accepted and checked at run time. */
  readonly result?: CelType;
}

export function compile(expression: string, options: CompileOptions): CompileResult {
  try {
    return compileWithin(expression, options);
  } catch (error) {
    if (error instanceof CelSyntaxError) return { ok: false, errors: [located(expression, error.at, error.message)] };
    // Long chains such as `1+1+1+...` nest without brackets; a stack overflow marks them as too long.
    if (error instanceof RangeError)
      return { ok: false, errors: [located(expression, 0, "expression is nested too deeply")] };
    throw error;
  }
}

function compileWithin(expression: string, options: CompileOptions): CompileResult {
  const { variables } = options;
  const types = variables instanceof Map ? variables : new Map(Object.entries(variables));
  const expr = parse(expression);
  const { checked, errors } = check(expr, types, options);
  if (errors.length > 0) {
    return { ok: false, errors: errors.map(({ at, message }) => located(expression, at, message)) };
  }
  const type = checked.types.get(expr) as CelType;
  const { result } = options;
  if (result !== undefined && !assignable(result, type, new Map())) {
    return { ok: false, errors: [`must evaluate to ${typeText(result)}`] };
  }
  const names = [...types.keys()];
  const used = new Set<string>();
  for (const ref of checked.refs.values()) {
    if ("slot" in ref && ref.slot < names.length) used.add(names[ref.slot] as string);
  }
  const program: CelProgram = {
    expression,
    type,
    costMax: estimateCost(expr, checked),
    variables: names,
    uses: (variable) => used.has(variable),
    run: plan(expr, checked),
    slots: checked.slots,
  };
  return { ok: true, program };
}

export type Evaluation =
  | { readonly kind: "value"; readonly value: CelValue; readonly cost: number }
  | { readonly kind: "error"; readonly message: string; readonly cost: number }
  | { readonly kind: "costExceeded"; readonly cost: number };

/** Values of the variables by name; a missing one is an error only if it is used. */
export function evaluate(
  program: CelProgram,
  bindings: Readonly<Record<string, CelValue>>,
  options: { costLimit?: number } = {},
): Evaluation {
  const slots: CelValue[] = new Array(program.slots);
  const { variables } = program;
  for (let i = 0; i < variables.length; i++) slots[i] = bindings[variables[i] as string] as CelValue;
  return evaluateSlots(program, slots, options.costLimit ?? Number.POSITIVE_INFINITY);
}

/** The same for hot loops: values in the order of `variables`, in an array that evaluation may extend. */
export function evaluateSlots(program: CelProgram, slots: CelValue[], costLimit: number): Evaluation {
  const frame: Frame = { slots, cost: 0, costLimit };
  try {
    return { kind: "value", value: program.run(frame), cost: frame.cost };
  } catch (error) {
    if (error instanceof CelFailure) return { kind: "error", message: error.message, cost: frame.cost };
    if (error instanceof CelCostExceeded) return { kind: "costExceeded", cost: error.cost };
    if (error instanceof RangeError)
      return { kind: "error", message: "expression is nested too deeply", cost: frame.cost };
    throw error;
  }
}

function located(text: string, at: number, message: string): string {
  const before = text.slice(0, at);
  const line = before.split("\n").length;
  const start = before.lastIndexOf("\n") + 1;
  const column = at - start;
  const end = text.indexOf("\n", at);
  const source = text.slice(start, end < 0 ? text.length : end);
  return `ERROR: <input>:${line}:${column + 1}: ${message}\n | ${source}\n | ${".".repeat(column)}^`;
}

import { type CelProgram, compile, evaluate } from "../../cel/cel.ts";
import { boolType, type CelType, dynType } from "../../cel/types.ts";
import type { CelValue } from "../../cel/values.ts";
import type { MatchCondition } from "../../model/kubernetes.generated.ts";

/** The cost limit of one expression. */
export const costLimit = 10_000_000;

/** A compiled expression, or the compile error. */
export type Expression = { readonly program: CelProgram } | { readonly problem: string };

export type Bindings = Readonly<Record<string, CelValue>>;

export function compileExpression(text: string, variables: readonly string[], result?: CelType): Expression {
  const types = Object.fromEntries(variables.map((name) => [name, dynType]));
  const compiled = compile(text, { variables: types, ...(result === undefined ? {} : { result }) });
  return compiled.ok ? { program: compiled.program } : { problem: compiled.errors.join("\n") };
}

export type Outcome = { readonly value: CelValue } | { readonly problem: string };

export function runExpression(expression: Expression, bindings: Bindings): Outcome {
  if ("problem" in expression) return { problem: `compilation failed: ${expression.problem}` };
  const outcome = evaluate(expression.program, bindings, { costLimit });
  switch (outcome.kind) {
    case "value":
      return { value: outcome.value };
    case "error":
      return { problem: outcome.message };
    case "costExceeded":
      return { problem: "operation cancelled: actual cost limit exceeded" };
  }
}

/** A match condition of a webhook or policy. */
export interface Condition {
  readonly name: string;
  readonly expression: Expression;
}

export function compileConditions(
  conditions: readonly MatchCondition[] | undefined,
  variables: readonly string[],
): readonly Condition[] {
  return (conditions ?? []).map(({ name, expression }) => ({
    name,
    expression: compileExpression(expression, variables, boolType),
  }));
}

/** A condition that is false excludes the request, even if another condition cannot be evaluated. */
export function meetsConditions(
  conditions: readonly Condition[],
  bindings: Bindings,
): { readonly matches: boolean; readonly problem?: string } {
  const problems: string[] = [];
  for (const { name, expression } of conditions) {
    const outcome = runExpression(expression, bindings);
    if ("problem" in outcome) problems.push(`match condition '${name}' cannot be evaluated: ${outcome.problem}`);
    else if (outcome.value !== true) return { matches: false };
  }
  return problems.length === 0 ? { matches: true } : { matches: false, problem: problems.join("; ") };
}

import { parse } from "@marcbachmann/cel-js";
import { type FieldError, invalid, required, tooLong } from "../../../model/fieldError.ts";
import { utf8Bytes } from "../contentSize.ts";

export const expressionBytesMax = 10 * 1024;

/** Expressions come again with every claim that is stamped from one template. */
const parsed = new Map<string, string | undefined>();
const parsedMax = 1024;

/** Whether the text is an expression at all. What it means, and what it costs, is known only where it runs. */
export function checkCelExpression(expression: string | undefined, path: string, errors: FieldError[]): void {
  if (!expression) {
    errors.push(required(path));
    return;
  }
  if (utf8Bytes(expression) > expressionBytesMax) {
    errors.push(tooLong(path, expressionBytesMax));
    return;
  }
  const problem = syntaxProblem(expression);
  if (problem !== undefined) errors.push(invalid(path, expression, `compilation failed: ${problem}`));
}

function syntaxProblem(expression: string): string | undefined {
  if (parsed.has(expression)) return parsed.get(expression);
  let problem: string | undefined;
  try {
    parse(expression);
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error);
  }
  if (parsed.size >= parsedMax) parsed.clear();
  parsed.set(expression, problem);
  return problem;
}

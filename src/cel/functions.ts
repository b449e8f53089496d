import { parseSignature, type Signature } from "./types.ts";
import type { CelValue } from "./values.ts";

/** Declarations of library functions: signatures for the checker, one implementation for all of them, and a cost. */
export interface CelFunction {
  readonly name: string;
  readonly member: boolean;
  readonly signatures: readonly Signature[];
  /** The receiver, if any, is the first argument. Omitted arguments are undefined. */
  readonly run: (a: CelValue, b: CelValue, c: CelValue, d: CelValue) => CelValue;
  /** Functions with any number of arguments get them here. */
  readonly runAll: ((args: readonly CelValue[]) => CelValue) | undefined;
  /** Cost from the sizes of the arguments; monotonic, so that the estimate uses it as well. One by default. */
  readonly cost: Cost | undefined;
  /** The maximum size of the result, for the estimate. */
  readonly resultSize: Cost | undefined;
  /** Cost from the size of the result, for functions that build a string out of many; replaces `cost`. */
  readonly resultCost: ((size: number) => number) | undefined;
}

/** Sizes of the arguments, and whether the first is a string, of which ten characters cost as much as one list item. */
export type Cost = (a: number, b: number, c: number, isText: boolean) => number;

export interface FunctionOptions {
  readonly cost?: Cost;
  readonly resultSize?: Cost;
  readonly resultCost?: (size: number) => number;
  readonly runAll?: (args: readonly CelValue[]) => CelValue;
}

export function define(
  signatures: readonly string[],
  run: CelFunction["run"],
  options: FunctionOptions = {},
): CelFunction {
  const parsed = signatures.map(parseSignature);
  const first = parsed[0] as Signature;
  const member = first.receiver !== undefined;
  for (const signature of parsed) {
    if (signature.name !== first.name || (signature.receiver !== undefined) !== member) {
      throw new Error(`signatures of one function must agree: ${signatures.join(", ")}`);
    }
  }
  const { cost, resultSize, resultCost, runAll } = options;
  return { name: first.name, member, signatures: parsed, run, runAll, cost, resultSize, resultCost };
}

/** A tenth of a unit for each character that is read. */
export function traversal(size: number): number {
  return Math.ceil(size * 0.1);
}

/** A pattern of n characters over a string: assumes one state per four characters. */
export function regexCost(textSize: number, patternSize: number): number {
  return Math.ceil((textSize + 1) * 0.1) * Math.ceil(patternSize * 0.25);
}

export const traverseFirst: Cost = (a) => traversal(a);
/** The prefix is read, not the rest of the string. */
export const traverseSecond: Cost = (_, b) => traversal(b);
export const traverseAny: Cost = (a, _b, _c, isText) => (isText ? traversal(a) : a);
export const sameSize: Cost = (a) => a;

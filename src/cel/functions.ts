import { parseSignature, type Signature } from "./types.ts";
import type { CelValue } from "./values.ts";

/** How the functions of a library are declared: signatures for the checker, one body for all of them, and a price. */
export interface CelFunction {
  readonly name: string;
  readonly member: boolean;
  readonly signatures: readonly Signature[];
  /** The receiver, if any, is the first argument. Arguments that were not written are undefined. */
  readonly run: (a: CelValue, b: CelValue, c: CelValue, d: CelValue) => CelValue;
  /** Functions with any number of arguments get them here. */
  readonly runAll: ((args: readonly CelValue[]) => CelValue) | undefined;
  /**
   * Cost from the sizes of the arguments; grows with each of them, so that it serves the estimate as well. One by
   * default.
   */
  readonly cost: Cost | undefined;
  /** The largest size of a result, for the estimate. */
  readonly resultSize: Cost | undefined;
  /** Price from the size of the result, for those that build a text out of many; takes the place of `cost`. */
  readonly resultCost: ((size: number) => number) | undefined;
}

/** Sizes of the arguments, and whether the first is text, of which ten characters cost as much as one list item. */
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

/** A pattern of n characters over a text: a guess that every four characters make one state. */
export function regexCost(textSize: number, patternSize: number): number {
  return Math.ceil((textSize + 1) * 0.1) * Math.ceil(patternSize * 0.25);
}

export const traverseFirst: Cost = (a) => traversal(a);
/** A prefix is read, not the text behind it. */
export const traverseSecond: Cost = (_, b) => traversal(b);
export const traverseAny: Cost = (a, _b, _c, isText) => (isText ? traversal(a) : a);
export const sameSize: Cost = (a) => a;

import { add, compare, isIn } from "./arithmetic.ts";
import { charge, type Frame, type Run, sizeForCost } from "./frame.ts";
import type { CelFunction } from "./functions.ts";
import { CelFailure, type CelValue, equalValues } from "./values.ts";

/** Calls as closures: library functions with their costs, and fast paths for some operators. */
export function generalCall(fn: CelFunction, runs: readonly Run[]): Run {
  const { run, cost, resultCost } = fn;
  const [a, b, c, d] = runs;
  // A function reads as many arguments as it has parameters.
  const absent = undefined as unknown as CelValue;
  if (a !== undefined && resultCost !== undefined) {
    return (frame) => {
      const result = run(a(frame), b === undefined ? absent : b(frame), absent, absent);
      charge(frame, resultCost(sizeForCost(result)));
      return result;
    };
  }
  if (a !== undefined && b === undefined && cost === undefined) {
    return (frame) => {
      const x = a(frame);
      charge(frame, 1);
      return run(x, absent, absent, absent);
    };
  }
  if (a !== undefined && b !== undefined && c === undefined && cost === undefined) {
    return (frame) => {
      const x = a(frame);
      const y = b(frame);
      charge(frame, 1);
      return run(x, y, absent, absent);
    };
  }
  return (frame) => {
    const x = a === undefined ? absent : a(frame);
    const y = b === undefined ? absent : b(frame);
    const z = c === undefined ? absent : c(frame);
    const w = d === undefined ? absent : d(frame);
    charge(frame, cost === undefined ? 1 : cost(sizeForCost(x), sizeForCost(y), sizeForCost(z), typeof x === "string"));
    return run(x, y, z, w);
  };
}

/** A call whose arguments are all constants is evaluated once and charged every time. */
export function foldedCall(fn: CelFunction, runs: readonly Run[]): Run {
  const once = generalCall(fn, runs);
  const trial: Frame = { slots: [], cost: 0, costLimit: Number.POSITIVE_INFINITY };
  let value: CelValue;
  try {
    value = once(trial);
  } catch (error) {
    if (!(error instanceof CelFailure)) throw error;
    return (frame) => {
      charge(frame, trial.cost);
      throw error;
    };
  }
  return (frame) => {
    charge(frame, trial.cost);
    return value;
  };
}

/** The common operators of selectors and rules, without computing sizes where both operands are numbers. */
export function specialized(name: string, runs: readonly Run[]): Run | undefined {
  const [a, b] = runs;
  if (a === undefined || b === undefined) return undefined;
  switch (name) {
    case "_==_":
      return (frame) => {
        const x = a(frame);
        const y = b(frame);
        charge(frame, shorterCost(x, y));
        return x === y || equalValues(x, y);
      };
    case "_!=_":
      return (frame) => {
        const x = a(frame);
        const y = b(frame);
        charge(frame, shorterCost(x, y));
        return x !== y && !equalValues(x, y);
      };
    case "_<_":
      return (frame) => ordered(frame, a(frame), b(frame)) < 0;
    case "_<=_":
      return (frame) => ordered(frame, a(frame), b(frame)) <= 0;
    case "_>_":
      return (frame) => ordered(frame, a(frame), b(frame)) > 0;
    case "_>=_":
      return (frame) => ordered(frame, a(frame), b(frame)) >= 0;
    case "_+_":
      return (frame) => {
        const x = a(frame);
        const y = b(frame);
        const copies = typeof x === "string" || x instanceof Uint8Array;
        charge(frame, copies ? Math.ceil((sizeForCost(x) + sizeForCost(y)) * 0.1) : 1);
        return add(x, y);
      };
    case "@in":
      return (frame) => {
        const x = a(frame);
        const y = b(frame);
        charge(frame, Array.isArray(y) ? y.length : 1);
        return isIn(x, y);
      };
    default:
      return undefined;
  }
}

function ordered(frame: Frame, a: CelValue, b: CelValue): number {
  charge(frame, shorterCost(a, b));
  if (typeof a === "number" && typeof b === "number") return a - b;
  return compare(a, b);
}

function shorterCost(a: CelValue, b: CelValue): number {
  if (typeof a === "number" || typeof a === "boolean") return 1;
  // Short strings cost one, whatever their length.
  if (typeof a === "string" && a.length > 0 && a.length <= 10) return typeof b === "string" && b.length === 0 ? 0 : 1;
  return Math.ceil(Math.min(sizeForCost(a), sizeForCost(b)) * 0.1);
}

import { compare } from "./arithmetic.ts";
import type { Fold } from "./ast.ts";
import { charge, type Frame, listCost, mapCost, type Run } from "./frame.ts";
import { sortValues } from "./library/lists.ts";
import { CelFailure, CelMap, type CelValue, fail, isMap, mapGet, mapKeys, noOverload, typeNameOf } from "./values.ts";

/** Loops over lists and maps. Each is charged what upstream's general loop costs for its accumulator. */
export interface FoldParts {
  readonly range: Run;
  readonly body: Run;
  readonly filter: Run | undefined;
  readonly slots: readonly number[];
}

export function planFold(expr: Fold, parts: FoldParts): Run {
  const { range, body, filter } = parts;
  const [first = 0, second] = parts.slots;
  switch (expr.kind) {
    case "all":
      return quantifier(range, body, first, second, false);
    case "exists":
      return quantifier(range, body, first, second, true);
    case "existsOne":
      return (frame) => {
        let count = 0;
        each(frame, range, first, second, () => {
          const holds = bool(body(frame));
          charge(frame, holds ? 2 : 1);
          if (holds) count++;
        });
        charge(frame, 2);
        return count === 1;
      };
    case "filter":
    case "map":
    case "transformList":
      return (frame) => {
        const out: CelValue[] = [];
        charge(frame, listCost);
        each(frame, range, first, second, () => {
          const keeps = expr.kind === "filter" ? bool(body(frame)) : filter === undefined || bool(filter(frame));
          if (!keeps) {
            charge(frame, 1);
            return;
          }
          charge(frame, listCost + 2 + (expr.kind === "filter" ? 1 : 0));
          out.push(expr.kind === "filter" ? (frame.slots[first] as CelValue) : body(frame));
        });
        charge(frame, 1);
        return out;
      };
    case "transformMap":
    case "transformMapEntry":
      return (frame) => {
        const out = new CelMap();
        charge(frame, mapCost);
        each(frame, range, first, second, () => {
          if (filter !== undefined && !bool(filter(frame))) {
            charge(frame, 1);
            return;
          }
          charge(frame, 3);
          const value = body(frame);
          if (expr.kind === "transformMap") {
            out.set(frame.slots[first] as CelValue, value);
            return;
          }
          if (!isMap(value)) noOverload();
          for (const key of mapKeys(value)) {
            if (!out.set(key, mapGet(value, key) as CelValue)) fail(`insert failed: key ${String(key)} already exists`);
          }
        });
        charge(frame, 1);
        return out;
      };
    case "sortBy":
      return (frame) => {
        const pairs: { key: CelValue; item: CelValue }[] = [];
        each(frame, range, first, second, () => {
          pairs.push({ item: frame.slots[first] as CelValue, key: body(frame) });
          charge(frame, listCost + 2);
        });
        charge(frame, pairs.length * Math.max(1, Math.ceil(Math.log2(pairs.length + 1))));
        // Keys without an order are detected here, before a comparison depends on chance.
        sortValues(pairs.map((pair) => pair.key));
        return pairs.sort((a, b) => compare(a.key, b.key)).map((pair) => pair.item);
      };
  }
}

function bool(value: CelValue): boolean {
  return typeof value === "boolean" ? value : noOverload();
}

/** Iterates over a list or the keys of a map, with one variable or two. */
function each(frame: Frame, range: Run, first: number, second: number | undefined, step: () => unknown): void {
  const over = range(frame);
  const { slots } = frame;
  if (Array.isArray(over)) {
    for (let i = 0; i < over.length; i++) {
      if (second === undefined) slots[first] = over[i] as CelValue;
      else {
        slots[first] = i;
        slots[second] = over[i] as CelValue;
      }
      if (step() === stop) return;
    }
    return;
  }
  if (!isMap(over)) fail(`got '${typeNameOf(over)}', expected iterable type`);
  for (const key of mapKeys(over)) {
    slots[first] = key;
    if (second !== undefined) slots[second] = mapGet(over, key) as CelValue;
    if (step() === stop) return;
  }
}

const stop = Symbol("stop");

/** `all` stops at the first false and `exists` at the first true; errors count only if no item decides. */
function quantifier(range: Run, body: Run, first: number, second: number | undefined, decisive: boolean): Run {
  // Loop condition and accumulator, as charged by upstream's general loop; exists negates once more.
  const perItem = decisive ? 4 : 3;
  return (frame) => {
    let failure: CelFailure | undefined;
    let decided = false;
    each(frame, range, first, second, () => {
      charge(frame, perItem);
      try {
        const value = body(frame);
        if (value === decisive) {
          decided = true;
          return stop;
        }
        if (typeof value !== "boolean") failure ??= new CelFailure("no such overload");
      } catch (error) {
        if (!(error instanceof CelFailure)) throw error;
        failure ??= error;
      }
      return undefined;
    });
    charge(frame, 1);
    if (decided) return decisive;
    if (failure !== undefined) throw failure;
    return !decisive;
  };
}

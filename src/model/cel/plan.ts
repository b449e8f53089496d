import { add, compare, isIn } from "./arithmetic.ts";
import type { Call, Expr, Fold, Select } from "./ast.ts";
import type { Checked } from "./check.ts";
import type { CelFunction } from "./functions.ts";
import { sortValues } from "./library/lists.ts";
import { optional as asOptional } from "./library/optionals.ts";
import {
  CelCostExceeded,
  CelFailure,
  CelMap,
  CelMapBase,
  CelObject,
  CelOptional,
  CelUint,
  type CelValue,
  doubleOf,
  equalValues,
  fail,
  isInt,
  isMap,
  type JsonMap,
  mapGet,
  mapHas,
  mapKeys,
  mapSize,
  noOverload,
  stringSize,
  typeNameOf,
} from "./values.ts";

/**
 * Turns a checked expression into closures, one for each node. What is known beforehand (slots, keys, functions,
 * constants) is looked up here, so that evaluation only follows pointers and counts its cost.
 */
export type Run = (frame: Frame) => CelValue;

/** One evaluation. */
export interface Frame {
  readonly slots: CelValue[];
  cost: number;
  readonly costLimit: number;
}

export function plan(expr: Expr, checked: Checked): Run {
  return new Planner(checked).run(expr);
}

function charge(frame: Frame, cost: number): void {
  frame.cost += cost;
  if (frame.cost > frame.costLimit) throw new CelCostExceeded(frame.cost);
}

/** Size as the price list sees it: everything without parts is one. */
function sizeForCost(value: CelValue | undefined): number {
  if (typeof value === "string") return stringSize(value);
  if (typeof value !== "object" || value === null) return 1;
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length;
  return isMap(value) ? mapSize(value) : 1;
}

// Prices of literals.
const listCost = 10;
const mapCost = 30;

class Planner {
  private readonly checked: Checked;

  constructor(checked: Checked) {
    this.checked = checked;
  }

  run(expr: Expr): Run {
    switch (expr.op) {
      case "const": {
        const { value } = expr;
        return () => value;
      }
      case "ident":
        return this.reference(expr);
      case "select":
        return this.select(expr);
      case "has":
        return this.has(expr.select);
      case "index":
        return this.index(expr);
      case "call":
        return this.call(expr);
      case "and":
        return this.logic(expr.args, false);
      case "or":
        return this.logic(expr.args, true);
      case "if": {
        const test = this.run(expr.test);
        const then = this.run(expr.then);
        const otherwise = this.run(expr.otherwise);
        return (frame) => {
          const chosen = test(frame);
          return chosen === true ? then(frame) : chosen === false ? otherwise(frame) : noOverload();
        };
      }
      case "list":
        return this.list(expr);
      case "map":
        return this.map(expr);
      case "struct":
        return () => fail("unknown type");
      case "fold":
        return this.fold(expr);
      case "bind": {
        const value = this.run(expr.value);
        const body = this.run(expr.body);
        const [slot = 0] = this.checked.locals.get(expr) ?? [];
        return (frame) => {
          charge(frame, listCost);
          frame.slots[slot] = value(frame);
          return body(frame);
        };
      }
      case "optMap":
      case "optFlatMap": {
        const target = this.run(expr.target);
        const body = this.run(expr.body);
        const [slot = 0] = this.checked.locals.get(expr) ?? [];
        const wraps = expr.op === "optMap";
        return (frame) => {
          const { value } = asOptional(target(frame));
          charge(frame, 1);
          if (value === undefined) return CelOptional.none;
          charge(frame, listCost + 2);
          frame.slots[slot] = value;
          const result = body(frame);
          return wraps ? new CelOptional(result) : asOptional(result);
        };
      }
    }
  }

  private reference(expr: Expr): Run {
    const ref = this.checked.refs.get(expr);
    if (ref === undefined) return () => fail("no such attribute");
    if ("constant" in ref) {
      const { constant } = ref;
      return () => constant;
    }
    const { slot } = ref;
    return (frame) => {
      charge(frame, 1);
      const value = frame.slots[slot];
      return value === undefined ? fail("no such attribute") : value;
    };
  }

  private select(expr: Select): Run {
    if (this.checked.refs.has(expr)) return this.reference(expr);
    const target = this.run(expr.target);
    const key = this.checked.keys.get(expr) ?? expr.field;
    if (expr.optional || this.mayBeOptional(expr.target)) {
      return (frame) => {
        const value = target(frame);
        charge(frame, 1);
        return expr.optional || value instanceof CelOptional ? optionalField(value, key) : field(value, key);
      };
    }
    return (frame) => {
      const value = target(frame);
      charge(frame, 1);
      return field(value, key);
    };
  }

  private mayBeOptional(expr: Expr): boolean {
    const kind = this.checked.types.get(expr)?.kind;
    return kind === "optional" || kind === "dyn";
  }

  /** Asking for presence is free, so the last step and the root are not charged. */
  private has(expr: Select): Run {
    const target = this.run(expr.target);
    const key = this.checked.keys.get(expr) ?? expr.field;
    return (frame) => {
      const value = target(frame);
      frame.cost -= 1;
      const inner = value instanceof CelOptional ? value.value : value;
      if (inner === undefined) return false;
      if (typeof inner !== "object" || inner === null) return noOverload();
      if (!(inner instanceof CelObject) && !Array.isArray(inner) && !(inner instanceof Uint8Array)) {
        return Object.hasOwn(inner, key);
      }
      return isMap(inner) ? mapHas(inner, key) : noOverload();
    };
  }

  private index(expr: Expr & { op: "index" }): Run {
    const target = this.run(expr.target);
    const { optional } = expr;
    const chained = optional || this.mayBeOptional(expr.target);
    if (expr.index.op === "const" && typeof expr.index.value === "string" && !chained) {
      const key = expr.index.value;
      return (frame) => {
        const value = target(frame);
        charge(frame, 1);
        return field(value, key);
      };
    }
    const index = this.run(expr.index);
    return (frame) => {
      const value = target(frame);
      const key = index(frame);
      charge(frame, 1);
      if (!chained) return element(value, key);
      if (!optional && !(value instanceof CelOptional)) return element(value, key);
      const inner = value instanceof CelOptional ? value.value : value;
      const found = inner === undefined ? undefined : tryElement(inner, key);
      return found === undefined ? CelOptional.none : new CelOptional(found);
    };
  }

  private logic(args: readonly Expr[], decisive: boolean): Run {
    const runs = args.map((arg) => this.run(arg));
    const [first, second] = runs;
    if (runs.length === 2 && first !== undefined && second !== undefined) {
      return (frame) => {
        let failure: CelFailure;
        try {
          const left = first(frame);
          if (left === decisive) return decisive;
          if (left === !decisive) {
            const right = second(frame);
            return typeof right === "boolean" ? right : noOverload();
          }
          failure = new CelFailure("no such overload");
        } catch (error) {
          if (!(error instanceof CelFailure)) throw error;
          failure = error;
        }
        // The other side may still decide; an error on both sides is the first one.
        let right: CelValue = null;
        try {
          right = second(frame);
        } catch (error) {
          if (!(error instanceof CelFailure)) throw error;
        }
        if (right === decisive) return decisive;
        throw failure;
      };
    }
    return (frame) => {
      let failure: CelFailure | undefined;
      for (const run of runs) {
        try {
          const value = run(frame);
          if (value === decisive) return decisive;
          if (typeof value !== "boolean") failure ??= new CelFailure("no such overload");
        } catch (error) {
          if (!(error instanceof CelFailure)) throw error;
          failure ??= error;
        }
      }
      if (failure !== undefined) throw failure;
      return !decisive;
    };
  }

  private call(expr: Call): Run {
    const resolved = this.checked.calls.get(expr);
    if (resolved === undefined) return () => fail("no such overload");
    const { fn } = resolved;
    const runs = resolved.args.map((arg) => this.run(arg));
    const special = specialized(fn.name, runs);
    if (special !== undefined) return special;
    if (fn.runAll !== undefined) {
      const { runAll } = fn;
      return (frame) => {
        const args = runs.map((run) => run(frame));
        charge(frame, args.length === 1 ? sizeForCost(args[0]) : args.length);
        return runAll(args);
      };
    }
    if (resolved.args.every((arg) => arg.op === "const")) return foldedCall(fn, runs);
    return generalCall(fn, runs);
  }

  private list(expr: Expr & { op: "list" }): Run {
    const items = expr.items.map((item) => ({ run: this.run(item.value), optional: item.optional }));
    const values = expr.items.map((item) => (item.value.op === "const" ? item.value.value : undefined));
    if (values.every((value) => value !== undefined) && !expr.items.some((item) => item.optional)) {
      const constant = values as CelValue[];
      return (frame) => {
        charge(frame, listCost);
        return constant;
      };
    }
    return (frame) => {
      const out: CelValue[] = [];
      for (const { run, optional } of items) {
        const value = run(frame);
        if (!optional) out.push(value);
        else {
          const inner = asOptional(value).value;
          if (inner !== undefined) out.push(inner);
        }
      }
      charge(frame, listCost);
      return out;
    };
  }

  private map(expr: Expr & { op: "map" }): Run {
    const entries = expr.entries.map((entry) => ({
      key: this.run(entry.key),
      value: this.run(entry.value),
      optional: entry.optional,
    }));
    return (frame) => {
      const out = new CelMap();
      for (const entry of entries) {
        const key = entry.key(frame);
        const value = entry.value(frame);
        const kept = entry.optional ? asOptional(value).value : value;
        if (kept !== undefined && !out.set(key, kept)) fail(`Failed with repeated key: ${String(key)}`);
      }
      charge(frame, mapCost);
      return out;
    };
  }

  private fold(expr: Fold): Run {
    const range = this.run(expr.range);
    const body = this.run(expr.body);
    const filter = expr.filter === undefined ? undefined : this.run(expr.filter);
    const [first = 0, second] = this.checked.locals.get(expr) ?? [];
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
              if (!out.set(key, mapGet(value, key) as CelValue))
                fail(`insert failed: key ${String(key)} already exists`);
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
          // Keys without an order are found out here, before a comparison meets them by chance.
          sortValues(pairs.map((pair) => pair.key));
          return pairs.sort((a, b) => compare(a.key, b.key)).map((pair) => pair.item);
        };
    }
  }
}

function bool(value: CelValue): boolean {
  return typeof value === "boolean" ? value : noOverload();
}

function field(value: CelValue, key: string): CelValue {
  if (typeof value !== "object" || value === null) return noOverload();
  if (value instanceof CelMapBase) {
    const found = value.get(key);
    return found === undefined ? fail(`no such key: ${key}`) : found;
  }
  if (Array.isArray(value) || value instanceof CelObject || value instanceof Uint8Array) return noOverload();
  if (!Object.hasOwn(value, key)) fail(`no such key: ${key}`);
  return (value as JsonMap)[key] as CelValue;
}

function optionalField(value: CelValue, key: string): CelOptional {
  const inner = value instanceof CelOptional ? value.value : value;
  if (inner === undefined) return CelOptional.none;
  if (!isMap(inner)) return inner === null ? CelOptional.none : noOverload();
  const found = mapGet(inner, key);
  return found === undefined ? CelOptional.none : new CelOptional(found);
}

function element(value: CelValue, key: CelValue): CelValue {
  const found = tryElement(value, key);
  if (found !== undefined) return found;
  return Array.isArray(value) ? fail(`index out of bounds: ${String(key)}`) : fail(`no such key: ${keyText(key)}`);
}

function tryElement(value: CelValue, key: CelValue): CelValue | undefined {
  if (Array.isArray(value)) return value[listIndex(key)];
  return isMap(value) ? mapGet(value, key) : noOverload();
}

function listIndex(key: CelValue): number {
  if (isInt(key)) return Number(key);
  if (key instanceof CelUint) return Number(key.value);
  const double = doubleOf(key);
  return double !== undefined && Number.isInteger(double) ? double : noOverload();
}

function keyText(key: CelValue): string {
  return key instanceof CelUint ? String(key.value) : String(key);
}

/** Walks a list or the keys of a map, with one variable or two. */
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

/** `all` stops at the first false and `exists` at the first true; errors count only if nothing decides. */
function quantifier(range: Run, body: Run, first: number, second: number | undefined, decisive: boolean): Run {
  // Loop condition and accumulator, as the general loop of upstream would pay them; exists negates once more.
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

function generalCall(fn: CelFunction, runs: readonly Run[]): Run {
  const { run, cost, resultCost } = fn;
  const [a, b, c, d] = runs;
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

/** A call whose arguments are all constants runs once and is paid for every time. */
function foldedCall(fn: CelFunction, runs: readonly Run[]): Run {
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

/** The operators that selectors and rules consist of, without the detour over sizes where both sides are numbers. */
function specialized(name: string, runs: readonly Run[]): Run | undefined {
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
  // Short texts cost one whatever their exact length is.
  if (typeof a === "string" && a.length > 0 && a.length <= 10) return typeof b === "string" && b.length === 0 ? 0 : 1;
  return Math.ceil(Math.min(sizeForCost(a), sizeForCost(b)) * 0.1);
}

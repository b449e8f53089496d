import { element, field, optionalField, tryElement } from "./access.ts";
import type { Call, Expr, Select } from "./ast.ts";
import type { Checked } from "./check.ts";
import { charge, listCost, mapCost, type Run, sizeForCost } from "./frame.ts";
import { optional as asOptional } from "./library/optionals.ts";
import { foldedCall, generalCall, specialized } from "./planCall.ts";
import { planFold } from "./planFold.ts";
import {
  CelFailure,
  CelMap,
  CelObject,
  CelOptional,
  type CelValue,
  fail,
  isMap,
  mapHas,
  noOverload,
} from "./values.ts";

/**
 * Compiles a checked expression into closures, one for each node. Slots, keys, functions and constants are resolved
 * here, so that evaluation only follows pointers and counts its cost.
 */
export function plan(expr: Expr, checked: Checked): Run {
  return new Planner(checked).run(expr);
}

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
        return planFold(expr, {
          range: this.run(expr.range),
          body: this.run(expr.body),
          filter: expr.filter === undefined ? undefined : this.run(expr.filter),
          slots: this.checked.locals.get(expr) ?? [],
        });
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

  /** has() is free, so the last selection and the root are not charged. */
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
        // The other operand may still decide; if both fail, the first error is returned.
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
}

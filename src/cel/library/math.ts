import { compare, negate } from "../arithmetic.ts";
import { type CelFunction, define } from "../functions.ts";
import { CelUint, type CelValue, checkedInt, doubleOf, fail, isInt, makeDouble, noOverload } from "../values.ts";

/** The math extension. */
function double(value: CelValue): number {
  return doubleOf(value) ?? noOverload();
}

function rounding(name: string, round: (value: number) => number): CelFunction {
  return define([`math.${name}(double): double`], (a) => makeDouble(round(double(a))));
}

function roundAwayFromZero(value: number): number {
  const whole = Math.floor(Math.abs(value));
  const up = Math.abs(value) - whole >= 0.5 ? whole + 1 : whole;
  return value < 0 ? -up : up;
}

function absolute(value: CelValue): CelValue {
  if (value instanceof CelUint) return value;
  const number = doubleOf(value);
  if (number !== undefined) return makeDouble(Math.abs(number));
  return compare(value, 0) < 0 ? negate(value) : value;
}

function sign(value: CelValue): CelValue {
  if (value instanceof CelUint) return new CelUint(value.value > 0n ? 1n : 0n);
  const number = doubleOf(value);
  return number !== undefined ? makeDouble(Math.sign(number)) : Math.sign(Number(isInt(value) ? value : noOverload()));
}

function best(args: readonly CelValue[], wins: (order: number) => boolean): CelValue {
  const values = args.length === 1 && Array.isArray(args[0]) ? args[0] : args;
  if (values.length === 0) fail("math.@min(list) argument must not be empty");
  return values.reduce((winner, value) => {
    if (typeof value === "string" || typeof value === "boolean" || value === null) noOverload();
    return wins(compare(value, winner)) ? value : winner;
  });
}

function extreme(name: string, wins: (order: number) => boolean): CelFunction {
  const signatures = [`math.${name}(list<A>): A`, `math.${name}(A): A`, `math.${name}(dyn...): dyn`];
  for (const type of ["int", "uint", "double"]) signatures.splice(2, 0, `math.${name}(${type}...): ${type}`);
  return define(signatures, noOverload, { runAll: (args) => best(args, wins), cost: (a) => a });
}

function bits(name: string, run: (a: bigint, b: bigint) => bigint): CelFunction {
  return define([`math.${name}(int, int): int`, `math.${name}(uint, uint): uint`], (a, b) => {
    if (a instanceof CelUint && (b instanceof CelUint || isInt(b))) {
      return new CelUint(BigInt.asUintN(64, run(a.value, b instanceof CelUint ? b.value : BigInt(b))));
    }
    return isInt(a) && isInt(b) ? checkedInt(BigInt.asIntN(64, run(BigInt(a), BigInt(b)))) : noOverload();
  });
}

function shift(name: string, run: (a: bigint, by: bigint) => bigint): CelFunction {
  return define([`math.${name}(int, int): int`, `math.${name}(uint, int): uint`], (a, by) => {
    if (!isInt(by)) noOverload();
    if (by < 0) fail(`math.${name}() negative offset: ${by}`);
    const amount = by > 63 ? 64n : BigInt(by);
    if (a instanceof CelUint) return new CelUint(BigInt.asUintN(64, run(a.value, amount)));
    if (!isInt(a)) noOverload();
    // A right shift of a negative int fills with zeros, not with the sign.
    return checkedInt(BigInt.asIntN(64, run(BigInt.asUintN(64, BigInt(a)), amount)));
  });
}

export const mathLibrary: readonly CelFunction[] = [
  extreme("greatest", (order) => order > 0),
  extreme("least", (order) => order < 0),
  rounding("ceil", Math.ceil),
  rounding("floor", Math.floor),
  rounding("trunc", Math.trunc),
  rounding("round", roundAwayFromZero),
  define(["math.abs(int): int", "math.abs(uint): uint", "math.abs(double): double"], absolute),
  define(["math.sign(int): int", "math.sign(uint): uint", "math.sign(double): double"], sign),
  define(["math.isNaN(double): bool"], (a) => Number.isNaN(double(a))),
  define(["math.isInf(double): bool"], (a) => Math.abs(double(a)) === Number.POSITIVE_INFINITY),
  define(["math.isFinite(double): bool"], (a) => Number.isFinite(double(a))),
  define(["math.sqrt(double): double", "math.sqrt(int): double", "math.sqrt(uint): double"], (a) => {
    const value = a instanceof CelUint ? Number(a.value) : isInt(a) ? Number(a) : double(a);
    return makeDouble(Math.sqrt(value));
  }),
  bits("bitAnd", (a, b) => a & b),
  bits("bitOr", (a, b) => a | b),
  bits("bitXor", (a, b) => a ^ b),
  define(["math.bitNot(int): int", "math.bitNot(uint): uint"], (a) => {
    if (a instanceof CelUint) return new CelUint(BigInt.asUintN(64, ~a.value));
    return isInt(a) ? checkedInt(~BigInt(a)) : noOverload();
  }),
  shift("bitShiftLeft", (a, by) => a << by),
  shift("bitShiftRight", (a, by) => a >> by),
];

import { type CelFunction, define, sameSize } from "../functions.ts";
import { CelDouble, CelOptional, CelUint, type CelValue, fail, isMap, mapSize, noOverload } from "../values.ts";

/** Optional values. */
export function optional(value: CelValue): CelOptional {
  return value instanceof CelOptional ? value : noOverload();
}

function isZero(value: CelValue): boolean {
  if (value === null || value === false || value === 0 || value === "") return true;
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length === 0;
  if (value instanceof CelDouble) return value.value === 0;
  if (value instanceof CelUint) return value.value === 0n;
  return isMap(value) && mapSize(value) === 0;
}

function unwrap(value: CelValue): CelValue {
  if (!Array.isArray(value)) return noOverload();
  const out: CelValue[] = [];
  for (const item of value) {
    const inner = optional(item).value;
    if (inner !== undefined) out.push(inner);
  }
  return out;
}

export const optionalLibrary: readonly CelFunction[] = [
  define(["optional.of(A): optional<A>"], (a) => new CelOptional(a)),
  define(["optional.ofNonZeroValue(A): optional<A>"], (a) => (isZero(a) ? CelOptional.none : new CelOptional(a))),
  define(["optional.none(): optional<A>"], () => CelOptional.none),
  define(["optional.unwrap(list<optional<A>>): list<A>"], unwrap, { resultSize: sameSize }),
  define(["<list<optional<A>>>.unwrapOpt(): list<A>"], unwrap, { resultSize: sameSize }),
  define(["<optional<A>>.hasValue(): bool"], (a) => optional(a).value !== undefined),
  define(["<optional<A>>.value(): A"], (a) => optional(a).value ?? absent(optional(a))),
  define(["<optional<A>>.or(optional<A>): optional<A>"], (a, b) => (optional(a).value === undefined ? optional(b) : a)),
  define(["<optional<A>>.orValue(A): A"], (a, b) => {
    const { value } = optional(a);
    return value === undefined ? b : value;
  }),
];

/** `null` is a value; only undefined means absent. */
function absent(value: CelOptional): CelValue {
  return value.value === null ? null : fail("optional.none() dereference");
}

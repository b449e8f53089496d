import {
  addQuantities,
  compareQuantities,
  parseQuantity,
  type Quantity,
  QuantityError,
  quantityOf,
  subtractQuantities,
} from "../../model/values/quantity.ts";
import { CelOrdered } from "../arithmetic.ts";
import { type CelFunction, define, traverseFirst } from "../functions.ts";
import { CelObject, type CelValue, fail, isInt, makeDouble, noOverload, normalInt } from "../values.ts";
import { formatLibrary } from "./formats.ts";
import { networkLibrary } from "./network.ts";
import { compareSemver, parseSemver, type Semver } from "./semver.ts";

/** Kubernetes' additions to CEL: quantities, versions, addresses, URLs and named formats. */
export class CelQuantity extends CelOrdered {
  readonly typeName = "kubernetes.Quantity";
  readonly quantity: Quantity;
  constructor(quantity: Quantity) {
    super();
    this.quantity = quantity;
  }
  equals(other: CelObject): boolean {
    return this.compare(other) === 0;
  }
  compare(other: CelObject): number | undefined {
    return other instanceof CelQuantity ? compareQuantities(this.quantity, other.quantity) : undefined;
  }
}

export class CelSemver extends CelOrdered {
  readonly typeName = "kubernetes.Semver";
  readonly version: Semver;
  constructor(version: Semver) {
    super();
    this.version = version;
  }
  equals(other: CelObject): boolean {
    return this.compare(other) === 0;
  }
  compare(other: CelObject): number | undefined {
    return other instanceof CelSemver ? compareSemver(this.version, other.version) : undefined;
  }
}

function text(value: CelValue): string {
  return typeof value === "string" ? value : noOverload();
}

function tryQuantity(value: CelValue): Quantity | string {
  try {
    return parseQuantity(text(value));
  } catch (error) {
    if (error instanceof QuantityError) return error.message;
    throw error;
  }
}

function quantity(value: CelValue): Quantity {
  return value instanceof CelQuantity ? value.quantity : noOverload();
}

function semver(value: CelValue): Semver {
  return value instanceof CelSemver ? value.version : noOverload();
}

/** Quantities also accept an int as the right operand. */
function operand(value: CelValue): Quantity {
  return isInt(value) ? quantityOf(value) : quantity(value);
}

function order(a: CelValue, b: CelValue): number {
  if (!(a instanceof CelOrdered) || !(b instanceof CelObject)) return noOverload();
  return a.compare(b) ?? noOverload();
}

const nanoPerUnit = 1_000_000_000n;
const int64Max = 2n ** 63n - 1n;

function wholeUnits(value: Quantity): bigint | undefined {
  if (value.nano % nanoPerUnit !== 0n) return undefined;
  const units = value.nano / nanoPerUnit;
  return units > int64Max || units < -int64Max - 1n ? undefined : units;
}

function overload(name: string, result: string): string[] {
  return ["Quantity", "Semver"].map((type) => `<${type}>.${name}(${type}): ${result}`);
}

export const kubernetesLibrary: readonly CelFunction[] = [
  define(
    ["quantity(string): Quantity"],
    (a) => {
      const parsed = tryQuantity(a);
      return typeof parsed === "string" ? fail(parsed) : new CelQuantity(parsed);
    },
    { cost: traverseFirst },
  ),
  define(["isQuantity(string): bool"], (a) => typeof tryQuantity(a) !== "string", { cost: traverseFirst }),
  define(["<Quantity>.sign(): int"], (a) => {
    const { nano } = quantity(a);
    return nano > 0n ? 1 : nano < 0n ? -1 : 0;
  }),
  define(["<Quantity>.isInteger(): bool"], (a) => wholeUnits(quantity(a)) !== undefined),
  define(["<Quantity>.asInteger(): int"], (a) => {
    const units = wholeUnits(quantity(a));
    return units === undefined ? fail("cannot convert value to integer") : normalInt(units);
  }),
  define(["<Quantity>.asApproximateFloat(): double"], (a) => makeDouble(Number(quantity(a).nano) / 1e9)),
  define(
    ["<Quantity>.add(Quantity): Quantity", "<Quantity>.add(int): Quantity"],
    (a, b) => new CelQuantity(addQuantities(quantity(a), operand(b))),
  ),
  define(
    ["<Quantity>.sub(Quantity): Quantity", "<Quantity>.sub(int): Quantity"],
    (a, b) => new CelQuantity(subtractQuantities(quantity(a), operand(b))),
  ),
  define(overload("isGreaterThan", "bool"), (a, b) => order(a, b) > 0),
  define(overload("isLessThan", "bool"), (a, b) => order(a, b) < 0),
  define(overload("compareTo", "int"), (a, b) => order(a, b)),
  define(
    ["semver(string): Semver", "semver(string, bool): Semver"],
    (a, normalize) => {
      const parsed = parseSemver(text(a), normalize === true);
      return typeof parsed === "string" ? fail(parsed) : new CelSemver(parsed);
    },
    { cost: traverseFirst },
  ),
  define(
    ["isSemver(string): bool", "isSemver(string, bool): bool"],
    (a, normalize) => typeof parseSemver(text(a), normalize === true) !== "string",
    { cost: traverseFirst },
  ),
  define(["<Semver>.major(): int"], (a) => normalInt(semver(a).major)),
  define(["<Semver>.minor(): int"], (a) => normalInt(semver(a).minor)),
  define(["<Semver>.patch(): int"], (a) => normalInt(semver(a).patch)),
  ...networkLibrary,
  ...formatLibrary,
];

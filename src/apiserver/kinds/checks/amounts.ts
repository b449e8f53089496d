/** Arithmetic on canonical quantities. Clusters use few distinct amounts, so parsed values are cached. */
import {
  addQuantities,
  formatQuantity,
  parseQuantity,
  type Quantity,
  QuantityError,
} from "../../../model/values/quantity.ts";

const known = new Map<string, Quantity>();
const knownMax = 4096;
const nanoPerUnit = 1_000_000_000n;

function quantityOf(text: string): Quantity {
  let quantity = known.get(text);
  if (quantity === undefined) {
    quantity = parseQuantity(text);
    if (known.size >= knownMax) known.clear();
    known.set(text, quantity);
  }
  return quantity;
}

/** Negative, zero or positive as the first is less than, equal to or more than the second. */
export function compareAmounts(a: string, b: string): number {
  if (a === b) return 0;
  const left = quantityOf(a).nano;
  const right = quantityOf(b).nano;
  return left < right ? -1 : left > right ? 1 : 0;
}

export function addAmounts(a: string, b: string): string {
  return formatQuantity(addQuantities(quantityOf(a), quantityOf(b)));
}

export function isZeroAmount(amount: string): boolean {
  return amount === "0";
}

export function isNegativeAmount(amount: string): boolean {
  return amount.startsWith("-");
}

export function isWholeAmount(amount: string): boolean {
  const last = amount.charCodeAt(amount.length - 1);
  // A canonical text that ends in a digit and has no exponent is whole.
  if (last >= 48 && last <= 57 && !amount.includes("e")) return true;
  return quantityOf(amount).nano % nanoPerUnit === 0n;
}

/** False also when the unit is no quantity: it can come from a user's resource name. */
export function isMultipleOf(amount: string, unit: string): boolean {
  try {
    const size = quantityOf(unit).nano;
    return size > 0n && quantityOf(amount).nano % size === 0n;
  } catch (error) {
    if (error instanceof QuantityError) return false;
    throw error;
  }
}

export function amountRatio(a: string, b: string): number {
  return Number(quantityOf(a).nano) / Number(quantityOf(b).nano);
}

/** The amount in billionths, for exact arithmetic beyond comparing. */
export function nanoOf(amount: string): bigint {
  return quantityOf(amount).nano;
}

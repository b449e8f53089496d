/**
 * An amount of a resource, exact: `500m`, `2Gi`, `1e3`. Amounts are integers of billionths, so that adding and
 * comparing never round; finer amounts are rounded up when parsed.
 */
export type Quantity = {
  /** The amount in billionths (10^-9). */
  readonly nano: bigint;
  /** The suffix family of the parsed text. */
  readonly format: QuantityFormat;
};

export type QuantityFormat = "decimalSI" | "binarySI" | "decimalExponent";

/** The text is not a quantity. The message is Kubernetes'. */
export class QuantityError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "QuantityError";
  }
}

const wrongFormat = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const wrongSuffix = "unable to parse quantity's suffix";

const nanoPerUnit = 1_000_000_000n;
const nanoPerMilli = 1_000_000n;
/** Amounts with a binary suffix stop here, as they do upstream; decimal ones have no ceiling. */
const binaryNanoMax = (2n ** 63n - 1n) * nanoPerUnit;

/** Exponents beyond this are refused: `1e999999999` would have a billion digits. */
const exponentMax = 999;
/** Longer texts are refused before any arithmetic, for the same reason. */
const textLengthMax = 1024;

/** Power of ten relative to a billionth. */
const decimalSuffixes = new Map([
  ["n", 0],
  ["u", 3],
  ["m", 6],
  ["", 9],
  ["k", 12],
  ["M", 15],
  ["G", 18],
  ["T", 21],
  ["P", 24],
  ["E", 27],
]);
const binarySuffixes = new Map([
  ["Ki", 10n],
  ["Mi", 20n],
  ["Gi", 30n],
  ["Ti", 40n],
  ["Pi", 50n],
  ["Ei", 60n],
]);
const decimalNames = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const binaryNames = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

const shape = /^([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)$/;
const exponentShape = /^[eE][-+]?[0-9]+$/;
/** One to three digits and a suffix cannot be written shorter. `Ei` is left out: from `8Ei` on it meets the ceiling. */
const alreadyCanonical = /^[1-9][0-9]{0,2}(?:[numkMGTPE]|[KMGTP]i)?$/;

/** Parses a quantity; throws QuantityError if the text is not one. */
export function parseQuantity(text: string): Quantity {
  if (text.length > textLengthMax) throw new QuantityError(wrongFormat);
  const match = shape.exec(text);
  if (match === null) throw new QuantityError(wrongFormat);
  const sign = match[1] === "-" ? -1n : 1n;
  const whole = match[2] ?? "";
  const fraction = match[3] ?? "";
  const suffix = match[4] ?? "";
  if (whole === "" && fraction === "") throw new QuantityError(wrongFormat);
  const digits = BigInt(whole + fraction);

  const binary = binarySuffixes.get(suffix);
  if (binary !== undefined) {
    let nano = scaleUp((digits * nanoPerUnit) << binary, -fraction.length);
    if (nano > binaryNanoMax) nano = binaryNanoMax;
    // Less than one byte has no form with a binary suffix.
    const format = nano > 0n && nano < nanoPerUnit ? "decimalSI" : "binarySI";
    return { nano: sign * nano, format };
  }
  const decimal = decimalSuffixes.get(suffix);
  if (decimal !== undefined) {
    return { nano: sign * scaleUp(digits, decimal - fraction.length), format: "decimalSI" };
  }
  if (!exponentShape.test(suffix)) throw new QuantityError(wrongSuffix);
  const exponent = Number(suffix.slice(1));
  if (Math.abs(exponent) > exponentMax) throw new QuantityError(wrongSuffix);
  return { nano: sign * scaleUp(digits, exponent + 9 - fraction.length), format: "decimalExponent" };
}

/** Whether the text is a quantity; for validation that only needs the message. */
export function quantityError(text: string): string | undefined {
  try {
    parseQuantity(text);
    return undefined;
  } catch (error) {
    if (error instanceof QuantityError) return error.message;
    throw error;
  }
}

/** The canonical form: `1000m` is `1`, `0.5` is `500m`, `1024Mi` is `1Gi`. */
export function formatQuantity(quantity: Quantity): string {
  const { nano, format } = quantity;
  if (nano === 0n) return "0";
  const sign = nano < 0n ? "-" : "";
  const amount = nano < 0n ? -nano : nano;
  if (format === "binarySI" && amount >= 1024n * nanoPerUnit && amount % nanoPerUnit === 0n) {
    let units = amount / nanoPerUnit;
    let step = 0;
    while (step < binaryNames.length - 1 && (units & 1023n) === 0n) {
      units >>= 10n;
      step++;
    }
    return `${sign}${units}${binaryNames[step]}`;
  }
  // The largest exponent that divides by three and leaves no fraction.
  let mantissa = amount;
  let step = 0;
  const stepMax = format === "decimalExponent" ? Number.POSITIVE_INFINITY : decimalNames.length - 1;
  while (step < stepMax && mantissa % 1000n === 0n) {
    mantissa /= 1000n;
    step++;
  }
  if (format === "decimalExponent") return step === 3 ? `${sign}${mantissa}` : `${sign}${mantissa}e${step * 3 - 9}`;
  return `${sign}${mantissa}${decimalNames[step]}`;
}

const canonicalTexts = new Map<string, string>();
const canonicalTextsMax = 4096;

/** Parses and formats a quantity. Clusters use few distinct amounts, so results are cached. */
export function canonicalQuantity(text: string): string {
  if (alreadyCanonical.test(text) || text === "0") return text;
  const known = canonicalTexts.get(text);
  if (known !== undefined) return known;
  const canonical = formatQuantity(parseQuantity(text));
  if (text.length <= 32) {
    if (canonicalTexts.size >= canonicalTextsMax) canonicalTexts.clear();
    canonicalTexts.set(text, canonical);
  }
  return canonical;
}

const milliTexts = new Map<string, string>();

/** The canonical text after rounding up to thousandths, which is what resource lists hold. */
export function canonicalMilliQuantity(text: string): string {
  // Only the suffixes n and u, fractions and exponents can hold less than a thousandth.
  if (alreadyCanonical.test(text) && !text.endsWith("n") && !text.endsWith("u")) return text;
  const known = milliTexts.get(text);
  if (known !== undefined) return known;
  const canonical = formatQuantity(roundUpToMilli(parseQuantity(text)));
  if (text.length <= 32) {
    if (milliTexts.size >= canonicalTextsMax) milliTexts.clear();
    milliTexts.set(text, canonical);
  }
  return canonical;
}

export function quantityOf(units: number | bigint, format: QuantityFormat = "decimalSI"): Quantity {
  return { nano: BigInt(units) * nanoPerUnit, format };
}

export function quantityOfMilli(milli: number | bigint): Quantity {
  return { nano: BigInt(milli) * nanoPerMilli, format: "decimalSI" };
}

export function compareQuantities(a: Quantity, b: Quantity): -1 | 0 | 1 {
  return a.nano < b.nano ? -1 : a.nano > b.nano ? 1 : 0;
}

/** The sum is written like `a`, or like `b` when `a` is nothing. */
export function addQuantities(a: Quantity, b: Quantity): Quantity {
  return { nano: a.nano + b.nano, format: a.nano === 0n ? b.format : a.format };
}

export function subtractQuantities(a: Quantity, b: Quantity): Quantity {
  return { nano: a.nano - b.nano, format: a.nano === 0n ? b.format : a.format };
}

export function roundUpToMilli(quantity: Quantity): Quantity {
  if (quantity.nano % nanoPerMilli === 0n) return quantity;
  return { nano: divideUp(quantity.nano, nanoPerMilli) * nanoPerMilli, format: quantity.format };
}

/** Whole units, rounded away from zero. */
export function unitsOf(quantity: Quantity): bigint {
  return divideUp(quantity.nano, nanoPerUnit);
}

/** Thousandths, rounded away from zero. */
export function milliOf(quantity: Quantity): bigint {
  return divideUp(quantity.nano, nanoPerMilli);
}

/** `digits` times ten to the `power`, rounded up. */
function scaleUp(digits: bigint, power: number): bigint {
  if (digits === 0n) return 0n;
  return power >= 0 ? digits * 10n ** BigInt(power) : divideUp(digits, 10n ** BigInt(-power));
}

function divideUp(amount: bigint, by: bigint): bigint {
  const quotient = amount / by;
  if (quotient * by === amount) return quotient;
  return amount < 0n ? quotient - 1n : quotient + 1n;
}

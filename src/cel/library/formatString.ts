import { durationText, timestampText } from "../time.ts";
import { decodeUtf8 } from "../utf8.ts";
import {
  CelDuration,
  CelObject,
  CelTimestamp,
  CelTypeValue,
  CelUint,
  type CelValue,
  doubleOf,
  fail,
  isInt,
  isMap,
  mapGet,
  mapKeys,
  typeNameOf,
} from "../values.ts";
import { doubleText } from "./standard.ts";

/** `"%s has %d".format([...])`, with the clauses of the strings extension: s d f e b o x X. */
export function formatString(template: string, args: readonly CelValue[]): string {
  let used = 0;
  const clause = /%(?:%|(?:\.(\d{1,2}))?([a-zA-Z]))|%/g;
  return template.replace(clause, (whole: string, digits: string | undefined, verb: string | undefined) => {
    if (whole === "%%") return "%";
    if (verb === undefined) fail("could not parse formatting clause: unexpected end of format string");
    if (used >= args.length) fail(`index ${used} out of range`);
    return formatOne(verb, digits === undefined ? 6 : Number(digits), args[used++] as CelValue);
  });
}

function formatOne(verb: string, digits: number, value: CelValue): string {
  switch (verb) {
    case "s":
      return printable(value);
    case "d":
      if (isInt(value)) return String(value);
      if (value instanceof CelUint) return String(value.value);
      return wrong(value, "decimal clause can only be used on integers");
    case "f":
      return special(value) ?? number(value, "fixed-point").toFixed(digits);
    case "e":
      return (
        special(value) ??
        number(value, "scientific")
          .toExponential(digits)
          .replace(/e([+-])(\d)$/, "e$10$2")
      );
    case "b":
      return typeof value === "boolean" ? (value ? "1" : "0") : integer(value, "binary").toString(2);
    case "o":
      return integer(value, "octal").toString(8);
    case "x":
    case "X": {
      const hex =
        typeof value === "string"
          ? Array.from(value, (char) => (char.codePointAt(0) as number).toString(16)).join("")
          : value instanceof Uint8Array
            ? Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("")
            : integer(value, "hex").toString(16);
      return verb === "X" ? hex.toUpperCase() : hex;
    }
    default:
      return fail(`could not parse formatting clause: unrecognized formatting clause "${verb}"`);
  }
}

function wrong(value: CelValue, what: string): never {
  return fail(`error during formatting: ${what}, was given ${typeNameOf(value)}`);
}

function integer(value: CelValue, what: string): bigint {
  if (isInt(value)) return BigInt(value);
  return value instanceof CelUint ? value.value : wrong(value, `${what} clause can only be used on integers`);
}

function number(value: CelValue, what: string): number {
  const double = doubleOf(value);
  if (double !== undefined) return double;
  if (isInt(value)) return Number(value);
  return value instanceof CelUint ? Number(value.value) : wrong(value, `${what} clause can only be used on numbers`);
}

function special(value: CelValue): string | undefined {
  const double = doubleOf(value);
  if (double === undefined || Number.isFinite(double)) return undefined;
  return Number.isNaN(double) ? "NaN" : double > 0 ? "Infinity" : "-Infinity";
}

function printable(value: CelValue): string {
  if (typeof value === "string") return value;
  if (value === null) return "null";
  if (typeof value === "boolean" || isInt(value)) return String(value);
  const double = doubleOf(value);
  if (double !== undefined) return special(value) ?? doubleText(double);
  if (value instanceof CelUint) return String(value.value);
  if (value instanceof Uint8Array) return decodeUtf8(value) ?? "�";
  if (Array.isArray(value)) return `[${value.map(printable).join(", ")}]`;
  if (value instanceof CelTimestamp) return timestampText(value);
  if (value instanceof CelDuration) return durationText(value);
  if (value instanceof CelTypeValue) return value.name;
  if (isMap(value)) {
    const entries = mapKeys(value).map((key) => `${printable(key)}: ${printable(mapGet(value, key) as CelValue)}`);
    return `{${entries.sort().join(", ")}}`;
  }
  if (value instanceof CelObject && "text" in value && typeof value.text === "string") return value.text;
  return wrong(
    value,
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
  );
}

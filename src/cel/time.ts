import { checkedDuration, checkedTimestamp } from "./arithmetic.ts";
import { type CelDuration, type CelTimestamp, type CelValue, fail } from "./values.ts";

/** Timestamps and durations as text, and their calendar fields. */
const timePattern = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)$/;
const nsPerSecond = 1_000_000_000n;

/** Nanoseconds since 1970 of an RFC 3339 text; undefined if it is not one. */
export function parseTimestamp(text: string): bigint | undefined {
  const match = timePattern.exec(text);
  if (match === null) return undefined;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  if (month < 1 || month > 12 || day < 1 || day > (days[month - 1] as number)) return undefined;
  if (hour > 23 || minute > 59 || second > 59) return undefined;
  const offset = offsetMinutes(match[8] as string);
  if (offset === undefined) return undefined;
  const date = new Date(0);
  // Date.UTC takes years below 100 for 1900 and later.
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const seconds = BigInt(date.getTime() / 1000 - offset * 60);
  return seconds * nsPerSecond + BigInt((match[7] ?? "").padEnd(9, "0"));
}

export function timestampFromText(text: string): CelTimestamp {
  const ns = parseTimestamp(text);
  if (ns === undefined) fail(`parsing time ${JSON.stringify(text)}: cannot parse`);
  return checkedTimestamp(ns);
}

export function timestampText(value: CelTimestamp): string {
  const seconds = floorDiv(value.ns, nsPerSecond);
  const fraction = value.ns - seconds * nsPerSecond;
  const base = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  const digits = fraction === 0n ? "" : `.${fraction.toString().padStart(9, "0").replace(/0+$/, "")}`;
  return `${base}${digits}Z`;
}

const durationUnits: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1000n,
  µs: 1000n,
  μs: 1000n,
  ms: 1_000_000n,
  s: nsPerSecond,
  m: 60n * nsPerSecond,
  h: 3600n * nsPerSecond,
};
const durationPart = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/y;

/** Nanoseconds of a Go duration such as `1h30m`; undefined if it is not one. */
export function parseDuration(text: string): bigint | undefined {
  const sign = text.startsWith("-") ? -1n : 1n;
  let at = /^[+-]/.test(text) ? 1 : 0;
  if (text.slice(at) === "0") return 0n;
  if (at === text.length) return undefined;
  let total = 0n;
  while (at < text.length) {
    durationPart.lastIndex = at;
    const match = durationPart.exec(text);
    if (match === null) return undefined;
    const [whole = "", fraction = ""] = (match[1] as string).split(".");
    const unit = durationUnits[match[2] as string] as bigint;
    const digits = fraction.slice(0, 18);
    total += BigInt(whole === "" ? "0" : whole) * unit;
    if (digits !== "") total += (BigInt(digits) * unit) / 10n ** BigInt(digits.length);
    at = durationPart.lastIndex;
  }
  return total > 2n ** 63n ? undefined : sign * total;
}

export function durationFromText(text: string): CelDuration {
  const ns = parseDuration(text);
  if (ns === undefined) fail(`time: invalid duration ${JSON.stringify(text)}`);
  return checkedDuration(ns);
}

/** Seconds with as many digits as needed: `90s`, `0.5s`. */
export function durationText(value: CelDuration): string {
  const sign = value.ns < 0n ? "-" : "";
  const ns = value.ns < 0n ? -value.ns : value.ns;
  const fraction = (ns % nsPerSecond).toString().padStart(9, "0").replace(/0+$/, "");
  return `${sign}${ns / nsPerSecond}${fraction === "" ? "" : `.${fraction}`}s`;
}

/** Minutes east of UTC of `Z` or `+01:00`. */
function offsetMinutes(zone: string): number | undefined {
  if (zone === "Z" || zone === "z" || zone === "UTC" || zone === "GMT" || zone === "Etc/UTC" || zone === "") return 0;
  const match = /^([+-]?)(\d\d):(\d\d)$/.exec(zone);
  if (match === null) return undefined;
  const minutes = Number(match[2]) * 60 + Number(match[3]);
  if (Number(match[2]) > 23 || Number(match[3]) > 59) return undefined;
  return match[1] === "-" ? -minutes : minutes;
}

/** The local time of a timestamp in a zone, as a Date whose UTC fields are the local ones. */
export function calendar(value: CelTimestamp, zone: CelValue | undefined): Date {
  const ms = Number(floorDiv(value.ns, 1_000_000n));
  const text = zone === undefined ? "" : String(zone);
  const offset = offsetMinutes(text);
  if (offset !== undefined) return new Date(ms + offset * 60_000);
  const local = localMs(text, ms);
  return local === undefined ? fail(`unknown time zone ${text}`) : new Date(local);
}

/** The local time of a named zone, as if it were UTC; undefined for an unknown zone. */
function localMs(zone: string, ms: number): number | undefined {
  try {
    const format = new Intl.DateTimeFormat("en-US-u-ca-iso8601", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
    const parts = new Map(format.formatToParts(new Date(ms)).map((part) => [part.type, Number(part.value)]));
    const of = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0;
    const seconds = Date.UTC(of("year"), of("month") - 1, of("day"), of("hour"), of("minute"), of("second"));
    return seconds + (((ms % 1000) + 1000) % 1000);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

export function floorDiv(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
}

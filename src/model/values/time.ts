/**
 * Timestamps of the API: RFC 3339 in UTC, whole seconds for Time, six digits for MicroTime. The caller passes the time.
 */
export type Instant = {
  /** Since 1970-01-01T00:00:00Z; may be negative. */
  readonly seconds: number;
  readonly nanos: number;
};

/** The text is not a timestamp. The message is Go's, which users see in 400 responses. */
export class TimeError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "TimeError";
  }
}

const timeLayout = "2006-01-02T15:04:05Z07:00";
const microTimeLayout = "2006-01-02T15:04:05.000000Z07:00";
/** 0001-01-01T00:00:00Z: Go's zero time, which is written as null. */
const zeroSeconds = -62_135_596_800;

const shape =
  /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})([.,][0-9]+)?(?:Z|([+-])([0-9]{2}):([0-9]{2}))$/;

/** Reads RFC 3339 with any number of fractional digits; throws TimeError. */
export function parseTime(text: string): Instant {
  return parse(text, timeLayout, undefined);
}

/** Reads RFC 3339 with exactly six fractional digits, as upstream requires; throws TimeError. */
export function parseMicroTime(text: string): Instant {
  return parse(text, microTimeLayout, 6);
}

/** Seconds and UTC, or null for Go's zero time. */
export function canonicalTime(text: string): string | null {
  const instant = parseTime(text);
  if (instant.seconds === zeroSeconds && instant.nanos === 0) return null;
  if (text.length === 20 && text.endsWith("Z")) return text;
  return formatInstant(instant);
}

/** Six digits and UTC, or null for Go's zero time. */
export function canonicalMicroTime(text: string): string | null {
  const instant = parseMicroTime(text);
  if (instant.seconds === zeroSeconds && instant.nanos === 0) return null;
  if (text.length === 27 && text.endsWith("Z") && text[19] === ".") return text;
  return formatMicroInstant(instant);
}

/** A clock reading as Time; what is finer than a second is cut off. */
export function formatTime(epochMs: number): string {
  const seconds = Math.floor(epochMs / 1000);
  // Most calls in a row are within one second.
  if (seconds !== lastFormatted.seconds) lastFormatted = { seconds, text: formatInstant({ seconds, nanos: 0 }) };
  return lastFormatted.text;
}

let lastFormatted = { seconds: Number.NaN, text: "" };

/** A clock reading as MicroTime. */
export function formatMicroTime(epochMs: number): string {
  const micros = Math.floor(epochMs * 1000);
  const seconds = Math.floor(micros / 1_000_000);
  return formatMicroInstant({ seconds, nanos: (micros - seconds * 1_000_000) * 1000 });
}

export function formatInstant({ seconds }: Instant): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
}

export function formatMicroInstant({ seconds, nanos }: Instant): string {
  const micros = String(Math.floor(nanos / 1000)).padStart(6, "0");
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}.${micros}Z`;
}

export function epochMsOf({ seconds, nanos }: Instant): number {
  return seconds * 1000 + Math.floor(nanos / 1_000_000);
}

/** The time in milliseconds; undefined when it is missing or invalid. */
export function timeToMs(text: string | null | undefined): number | undefined {
  if (text === undefined || text === null) return undefined;
  try {
    return epochMsOf(parseTime(text));
  } catch (error) {
    if (error instanceof TimeError) return undefined;
    throw error;
  }
}

function parse(text: string, layout: string, digits: number | undefined): Instant {
  const match = shape.exec(text);
  if (match === null) throw new TimeError(describeMismatch(text, layout));
  const [, year, month, day, hour, minute, second, fraction = "", sign, offsetHour, offsetMinute] = match;
  if (digits !== undefined && fraction.length !== digits + 1) throw new TimeError(describeMismatch(text, layout));
  const monthNumber = Number(month);
  const refuse = (what: string): never => {
    throw new TimeError(`parsing time ${JSON.stringify(text)}: ${what} out of range`);
  };
  if (monthNumber < 1 || monthNumber > 12) refuse("month");
  if (Number(hour) > 23) refuse("hour");
  if (Number(minute) > 59) refuse("minute");
  if (Number(second) > 59) refuse("second");
  if (Number(day) < 1 || Number(day) > daysInMonth(Number(year), monthNumber)) refuse("day");
  let offset = 0;
  if (sign !== undefined) {
    if (Number(offsetHour) > 24) refuse("time zone offset hour");
    if (Number(offsetMinute) > 60) refuse("time zone offset minute");
    offset = (Number(offsetHour) * 3600 + Number(offsetMinute) * 60) * (sign === "-" ? -1 : 1);
  }
  const seconds =
    daysSinceEpoch(Number(year), monthNumber, Number(day)) * 86_400 +
    Number(hour) * 3600 +
    Number(minute) * 60 +
    Number(second) -
    offset;
  if (seconds < -62_167_219_200 || seconds >= 253_402_300_800) refuse("year");
  const nanos = fraction === "" ? 0 : Number(fraction.slice(1, 10).padEnd(9, "0"));
  return { seconds, nanos };
}

const layoutParts = ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"];

/** Finds the first mismatch with the layout, for the message. */
function describeMismatch(text: string, layout: string): string {
  let at = 0;
  let part = "Z07:00";
  let found = false;
  for (const expected of layoutParts) {
    const piece = text.slice(at, at + expected.length);
    if (/^[0-9]/.test(expected) ? !/^[0-9]+$/.test(piece) || piece.length < expected.length : piece !== expected) {
      part = expected;
      found = true;
      break;
    }
    at += expected.length;
  }
  if (!found) {
    const fraction = /^[.,][0-9]+/.exec(text.slice(at))?.[0] ?? "";
    if (layout === microTimeLayout) {
      if (fraction.length < 7) part = ".000000";
      else at += 7;
    } else at += fraction.length;
  }
  const rest = text.slice(at);
  return `parsing time ${JSON.stringify(text)} as "${layout}": cannot parse ${JSON.stringify(rest)} as "${part}"`;
}

function daysInMonth(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** Days of the proleptic Gregorian calendar, counted from March so that the leap day comes last. */
function daysSinceEpoch(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

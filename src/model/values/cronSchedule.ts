/**
 * When a cron schedule is due: five fields or a macro, in a time zone. Days are computed in local time: a time that
 * daylight saving skips is not due, one that occurs twice is due twice.
 */
export type Schedule =
  | {
      readonly kind: "fields";
      readonly minutes: ReadonlySet<number>;
      readonly hours: ReadonlySet<number>;
      readonly days: ReadonlySet<number>;
      readonly months: ReadonlySet<number>;
      readonly weekdays: ReadonlySet<number>;
      /** A day must match both day fields if one of them is a star, otherwise either. */
      readonly anyDay: boolean;
    }
  | { readonly kind: "every"; readonly everyMs: number };

const macros: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};
const months = "jan feb mar apr may jun jul aug sep oct nov dec".split(" ");
const weekdays = "sun mon tue wed thu fri sat".split(" ");
const dayMs = 86_400_000;
/** Leap days occur at least every eight years; a schedule that is not due by then never is. */
const daysMax = 366 * 9;

/** Undefined when the text is not a schedule; the API server refuses such objects. */
export function parseSchedule(text: string): Schedule | undefined {
  if (text.startsWith("@every ")) {
    const everyMs = Math.max(1000, Math.floor(parseDurationMs(text.slice(7)) / 1000) * 1000);
    return Number.isNaN(everyMs) ? undefined : { kind: "every", everyMs };
  }
  const parts = (macros[text] ?? text).split(/\s+/).filter((part) => part !== "");
  const [minute, hour, day, month, weekday] = parts;
  if (parts.length !== 5) return undefined;
  const fields = [
    parseField(minute, 0, 59, []),
    parseField(hour, 0, 23, []),
    parseField(day, 1, 31, []),
    parseField(month, 1, 12, months),
    parseField(weekday, 0, 6, weekdays),
  ];
  const [minutes, hours, days, monthSet, weekdaySet] = fields;
  if (!minutes || !hours || !days || !monthSet || !weekdaySet) return undefined;
  const anyDay = isStar(day) || isStar(weekday);
  return { kind: "fields", minutes, hours, days, months: monthSet, weekdays: weekdaySet, anyDay };
}

function isStar(text: string | undefined): boolean {
  return text?.split(",").some((part) => /^[*?](?:\/1)?$/.test(part)) === true;
}

function parseField(text = "", min: number, max: number, names: readonly string[]): Set<number> | undefined {
  const values = new Set<number>();
  for (const part of text.split(",")) {
    const [range = "", stepText] = part.split("/");
    const step = stepText === undefined ? 1 : Number(stepText);
    const [firstText = "", lastText] = range.split("-");
    const star = range === "*" || range === "?";
    const first = star ? min : numberOf(firstText, min, names);
    // A start with a step and no end extends to the end of the field.
    const last =
      star || (lastText === undefined && stepText !== undefined) ? max : numberOf(lastText ?? firstText, min, names);
    if (first === undefined || last === undefined || !(step >= 1) || first < min || last > max) return undefined;
    for (let value = first; value <= last; value += step) values.add(value);
  }
  return values;
}

function numberOf(text: string, min: number, names: readonly string[]): number | undefined {
  if (/^[0-9]+$/.test(text)) return Number(text);
  const at = names.indexOf(text.toLowerCase());
  return at < 0 ? undefined : at + min;
}

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

function parseDurationMs(text: string): number {
  let total = 0;
  let read = 0;
  for (const [all, number = "", unit = ""] of text.matchAll(/([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)/g)) {
    total += Number(number) * (unitMs[unit] ?? 0);
    read += all.length;
  }
  return read === text.length && read > 0 ? total : Number.NaN;
}

/** The first due time after `afterMs`; undefined if there is none. */
export function nextAfter(schedule: Schedule, afterMs: number, zone = "UTC"): number | undefined {
  if (schedule.kind === "every") return Math.floor(afterMs / 1000) * 1000 + schedule.everyMs;
  const first = localDay(afterMs, zone);
  for (let i = 0; i <= daysMax; i++) {
    const found = timesOfDay(schedule, first + i * dayMs, zone).find((at) => at > afterMs);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The last due time after one time and up to another; undefined if there is none. */
export function latestIn(
  schedule: Schedule,
  span: { afterMs: number; untilMs: number },
  zone = "UTC",
): number | undefined {
  const { afterMs, untilMs } = span;
  if (untilMs <= afterMs) return undefined;
  if (schedule.kind === "every") {
    const from = Math.floor(afterMs / 1000) * 1000;
    const times = Math.floor((untilMs - from) / schedule.everyMs);
    return times < 1 ? undefined : from + times * schedule.everyMs;
  }
  const last = localDay(untilMs, zone);
  for (let day = last; day + 2 * dayMs > afterMs && day >= last - daysMax * dayMs; day -= dayMs) {
    const found = timesOfDay(schedule, day, zone).findLast((at) => at <= untilMs);
    if (found !== undefined) return found > afterMs ? found : undefined;
  }
  return undefined;
}

/** The local calendar day of a time, as UTC midnight of that day. */
function localDay(ms: number, zone: string): number {
  return Math.floor((ms + offsetMs(ms, zone)) / dayMs) * dayMs;
}

function timesOfDay(schedule: Schedule & { kind: "fields" }, day: number, zone: string): number[] {
  const date = new Date(day);
  if (!schedule.months.has(date.getUTCMonth() + 1)) return [];
  const byDay = schedule.days.has(date.getUTCDate());
  const byWeekday = schedule.weekdays.has(date.getUTCDay());
  if (schedule.anyDay ? !(byDay && byWeekday) : !(byDay || byWeekday)) return [];
  const early = offsetMs(day - offsetMs(day, zone) - dayMs / 2, zone);
  const late = offsetMs(day + 1.5 * dayMs - offsetMs(day, zone), zone);
  const offsets = early === late ? [early] : [early, late];
  const times = new Set<number>();
  for (const hour of schedule.hours) {
    for (const minute of schedule.minutes) {
      const local = day + (hour * 60 + minute) * 60_000;
      for (const offset of offsets) {
        const at = local - offset;
        if (offsets.length === 1 || offsetMs(at, zone) === offset) times.add(at);
      }
    }
  }
  return [...times].sort((a, b) => a - b);
}

/** Formats are cached by zone: creating one is a thousand times slower than using it. */
const formats = new Map<string, Intl.DateTimeFormat | undefined>();

function formatOf(zone: string): Intl.DateTimeFormat | undefined {
  if (formats.has(zone)) return formats.get(zone);
  let format: Intl.DateTimeFormat | undefined;
  try {
    const field = "numeric" as const;
    const fields = { year: field, month: field, day: field, hour: field, minute: field, second: field };
    format = new Intl.DateTimeFormat("en-US", { timeZone: zone, hourCycle: "h23", ...fields });
  } catch {
    format = undefined;
  }
  formats.set(zone, format);
  return format;
}

export function isTimeZone(zone: string): boolean {
  return zone === "UTC" || formatOf(zone) !== undefined;
}

/** The UTC offset of a zone at a time. */
export function offsetMs(ms: number, zone: string): number {
  const format = zone === "UTC" ? undefined : formatOf(zone);
  if (format === undefined) return 0;
  const part: Record<string, number> = {};
  for (const { type, value } of format.formatToParts(ms)) part[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part as Record<string, number | undefined>;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000;
}

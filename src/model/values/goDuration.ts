/** Durations as Go writes and reads them: `1h30m`, `10s`, `250ms`, `.5s`, `-1s`. */

const whole = /^([+-]?)((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:h|ms|m|s|us|[µμ]s|ns))+|0)$/;
const part = /([0-9]+\.?[0-9]*|\.[0-9]+)(h|ms|m|s|us|[µμ]s|ns)/g;
const msPer: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1_000,
  ms: 1,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ns: 1e-6,
};

/** Go counts nanoseconds in 64 bits: about 292 years. */
const msMax = 2 ** 63 / 1e6;

/** Undefined when the text is missing, cannot be parsed, or is longer than Go can count. */
export function durationToMs(text: string | null | undefined): number | undefined {
  if (text === undefined || text === null) return undefined;
  const match = whole.exec(text);
  if (match === null) return undefined;
  let sum = 0;
  for (const [, amount, unit] of (match[2] ?? "").matchAll(part)) sum += Number(amount) * (msPer[unit ?? ""] ?? 0);
  if (sum >= msMax) return undefined;
  return match[1] === "-" ? -sum : sum;
}

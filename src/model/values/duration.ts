/** Durations on the command line and in environment variables. */

/**
 * Seconds as a whole number (`08` is eight), or amounts with units: `90s`, `1m30s`, `500ms`, `1h`. Undefined when the
 * text is neither.
 */
export function durationMs(text: string): number | undefined {
  if (/^[0-9]{1,9}$/.test(text)) return Number.parseInt(text, 10) * 1000;
  if (!/^(?:[0-9]{1,9}(?:h|ms|m|s))+$/.test(text)) return undefined;
  let total = 0;
  for (const [, count = "0", unit = "s"] of text.matchAll(/([0-9]+)(h|ms|m|s)/g)) {
    total += Number.parseInt(count, 10) * (unitMs[unit] ?? 0);
  }
  return total;
}

/** The aicr harness's variables contain whole seconds only. */
export function wholeSecondsMs(text: string): number | undefined {
  return /^[0-9]{1,9}$/.test(text) ? Number.parseInt(text, 10) * 1000 : undefined;
}

const unitMs: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** `5` for five seconds, `2.5` when it is not whole. */
export function secondsText(ms: number): string {
  return String(Math.round(ms / 100) / 10);
}

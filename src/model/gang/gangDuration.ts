/** Durations as Go writes them: `4h`, `1h30m`, `10s`, `250ms`. */
const unitMs: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1_000,
  ms: 1,
  us: 0.001,
  µs: 0.001,
  ns: 0.000_001,
};
const whole = /^[+-]?(?:\d+(?:\.\d+)?(?:h|ms|us|µs|ns|m|s))+$/;
const part = /(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)/g;

/** Undefined when the text is not a duration. */
export function parseGangDuration(text: string): number | undefined {
  if (text === "0") return 0;
  if (!whole.test(text)) return undefined;
  let sumMs = 0;
  for (const [, number, unit] of text.matchAll(part)) sumMs += Number(number) * (unitMs[unit as string] ?? 0);
  return text.startsWith("-") ? -sumMs : sumMs;
}

/** Formats as Go does: `4h0m0s`. */
export function formatGangDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const parts = [
    [hours, "h"],
    [minutes, "m"],
    [seconds % 60, "s"],
  ] as const;
  const text = parts
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount}${unit}`)
    .join("");
  return text === "" ? "0s" : text;
}

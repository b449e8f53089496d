/** Durations of gangs in tables: whole units, without those that are zero. */

/** `4h`, `1h30m`, `10s`. */
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

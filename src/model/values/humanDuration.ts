import { timeToMs } from "./time.ts";

/** A duration as kubectl prints ages: two units at most. */
export function humanDuration(durationMs: number): string {
  const seconds = Math.trunc(durationMs / 1000);
  // Clocks of two machines differ a little, so a second in the future counts as now.
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return withRest(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return withRest(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 8) return withRest(days, "d", hours % 24, "h");
  if (days < 2 * 365) return `${days}d`;
  const years = Math.floor(days / 365);
  return years < 8 ? withRest(years, "y", days % 365, "d") : `${years}y`;
}

/** The age column: time passed since a timestamp of an object. */
export function humanAge(timestamp: string | null | undefined, nowMs: number): string {
  const thenMs = timeToMs(timestamp);
  return thenMs === undefined ? "<unknown>" : humanDuration(nowMs - thenMs);
}

function withRest(count: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${count}${unit}` : `${count}${unit}${rest}${restUnit}`;
}

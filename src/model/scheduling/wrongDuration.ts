import { type FieldError, invalid } from "../objects/fieldError.ts";
import { durationToMs } from "../values/goDuration.ts";

/** In the CRD a duration is a string; KAI's webhooks refuse one that cannot be parsed. */
export function wrongDuration(field: string, text: string | null | undefined): FieldError[] {
  if (text === undefined || text === null || durationToMs(text) !== undefined) return [];
  return [invalid(field, text, "must be a duration such as 90s, 5m or 1h30m")];
}

import { type FieldError, invalid } from "../objects/fieldError.ts";
import { durationToMs } from "../values/goDuration.ts";

/** A definition knows a duration as text; KAI's webhooks refuse what they cannot read as one. */
export function wrongDuration(field: string, text: string | null | undefined): FieldError[] {
  if (text === undefined || text === null || durationToMs(text) !== undefined) return [];
  return [invalid(field, text, "it is no duration; these are: 90s, 5m, 1h30m")];
}

import { prometheusQueries } from "../adapters/prometheusQueries.ts";
import type { Part } from "../control/part.ts";
import { schedulerPart } from "../control/schedule/schedulerPart.ts";
import type { Settings } from "../decide/schedule/settings.ts";

/** The same parts, with a scheduler that does all it can, and can ask a Prometheus about the past. */
export function withFullScheduler(
  parts: readonly Part[],
  given: Pick<Settings, "placesPlainPods" | "formsPlainGangs">,
): Part[] {
  const scheduler = schedulerPart(
    { ...given, allocatesDevices: true, readsShards: true },
    { usageDatabase: prometheusQueries, environment: (name) => process.env[name] },
  );
  return parts.map((part) => (part.name === "scheduler" ? scheduler : part));
}

import { prometheusQueries } from "../../adapters/prometheusQueries.ts";
import type { Component } from "../../control/component.ts";
import { schedulerComponent } from "../../control/schedule/schedulerComponent.ts";
import type { Settings } from "../../decide/schedule/settings.ts";

/** The same components, with a scheduler that does all it can, and can ask a Prometheus about the past. */
export function withFullScheduler(
  components: readonly Component[],
  given: Pick<Settings, "placesPlainPods" | "formsPlainGangs">,
): Component[] {
  const scheduler = schedulerComponent(
    { ...given, allocatesDevices: true, readsShards: true },
    { usageDatabase: prometheusQueries, environment: (name) => process.env[name] },
  );
  return components.map((component) => (component.name === "scheduler" ? scheduler : component));
}

import { UserError } from "../model/userError.ts";
import { binderComponent } from "./bind/binderComponent.ts";
import type { Component } from "./component.ts";
import { devicesComponent } from "./devices/devicesComponent.ts";
import { gangComponent } from "./gang/gangComponent.ts";
import { scaleAdjusterComponent } from "./schedule/scaleAdjuster.ts";
import { schedulerComponent } from "./schedule/schedulerComponent.ts";
import { workloads } from "./workloads/workloads.ts";

/** Every component that can be started by its name alone, in the order in which they are told about. */
export const components: readonly Component[] = [
  workloads,
  schedulerComponent({ allocatesDevices: true, readsShards: true }),
  devicesComponent(),
  binderComponent(),
  gangComponent(),
];

/** Opt-in components: `muster run` starts them only when they are named. */
export const optionalComponents: readonly Component[] = [scaleAdjusterComponent()];

/** The components of these names, in their own order; an unknown name is refused. */
export function componentsNamed(names: readonly string[], known: readonly Component[] = components): Component[] {
  for (const name of names) {
    if (known.some((component) => component.name === name)) continue;
    const choice = known.map((component) => component.name).join(", ");
    throw new UserError(
      "controller-unknown",
      `there is no controller ${JSON.stringify(name)}`,
      `choose from: ${choice}`,
    );
  }
  return known.filter(({ name }) => names.includes(name));
}

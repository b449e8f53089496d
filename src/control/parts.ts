import { UserError } from "../model/userError.ts";
import { binderPart } from "./bind/binderPart.ts";
import { devicesPart } from "./devices/devicesPart.ts";
import { gangPart } from "./gang/gangPart.ts";
import type { Part } from "./part.ts";
import { scaleAdjusterPart } from "./schedule/scaleAdjuster.ts";
import { schedulerPart } from "./schedule/schedulerPart.ts";
import { workloads } from "./workloads/workloads.ts";

/** Every part that can be started by its name alone, in the order in which they are told about. */
export const parts: readonly Part[] = [
  workloads,
  schedulerPart({ allocatesDevices: true, readsShards: true }),
  devicesPart(),
  binderPart(),
  gangPart(),
];

/** Parts that do harm where nobody wants them: `muster run` starts them when they are named. */
export const optionalParts: readonly Part[] = [scaleAdjusterPart()];

/** The parts of these names, in their own order; a name that nobody has is refused. */
export function partsNamed(names: readonly string[], known: readonly Part[] = parts): Part[] {
  for (const name of names) {
    if (known.some((part) => part.name === name)) continue;
    const choice = known.map((part) => part.name).join(", ");
    throw new UserError(
      "controller-unknown",
      `there is no controller ${JSON.stringify(name)}`,
      `choose from: ${choice}`,
    );
  }
  return known.filter(({ name }) => names.includes(name));
}

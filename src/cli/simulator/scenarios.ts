import { exhibits, variantsOf } from "../../../races/museum.ts";
import type { Scenario } from "../../sim/scenario.ts";
import { componentScenarios } from "../../sim/scenarios.ts";

/** All scenarios by name: those of the components and those of the race museum. */
export function scenarios(): readonly Scenario[] {
  return [
    ...componentScenarios(),
    ...exhibits.flatMap((exhibit) => variantsOf(exhibit).map(({ scenario }) => scenario)),
  ];
}

export function findScenario(name: string): Scenario | undefined {
  return scenarios().find((scenario) => scenario.name === name);
}

import { exhibits, variantsOf } from "../../../races/museum.ts";
import type { Scenario } from "../../sim/scenario.ts";
import { componentScenarios } from "../../sim/scenarios.ts";

/** Everything that can be played by name: the components' scenarios, and the races of the museum. */
export function scenarios(): readonly Scenario[] {
  return [
    ...componentScenarios(),
    ...exhibits.flatMap((exhibit) => variantsOf(exhibit).map(({ scenario }) => scenario)),
  ];
}

export function findScenario(name: string): Scenario | undefined {
  return scenarios().find((scenario) => scenario.name === name);
}

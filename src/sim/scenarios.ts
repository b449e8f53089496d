import { bindMistakes } from "./bind/mistakes.ts";
import { bindScenario, bindWith } from "./bind/scenario.ts";
import { devicesScenarios } from "./devices/scenario.ts";
import { everythingScenario } from "./everything/scenario.ts";
import { gpuLabels } from "./example/gpuLabels.ts";
import { gangMistakes } from "./gang/mistakes.ts";
import { gangScenario } from "./gang/scenario.ts";
import { doubtMistakes, doubtsScenario } from "./inventory/doubts.ts";
import { inventoryMistakes, inventoryScenario } from "./inventory/scenario.ts";
import { nodesScenario } from "./nodes/scenario.ts";
import { mistakes } from "./podSets/mistakes.ts";
import { podSetScenario } from "./podSets/scenario.ts";
import type { Scenario } from "./scenario.ts";
import { claimsScenario, extendedScenario } from "./schedule/claimsScenario.ts";
import { growthScenario } from "./schedule/growthScenario.ts";
import { scheduleMistakes } from "./schedule/mistakes.ts";
import { poisonedScenario } from "./schedule/poisonedScenario.ts";
import { scheduleScenario, scheduleWith } from "./schedule/scenario.ts";
import { volumesScenario } from "./schedule/volumesScenario.ts";
import { barrierScenario } from "./verify/barrierScenario.ts";
import { verifyMistakes } from "./verify/mistakes.ts";
import { verifyScenario } from "./verify/scenario.ts";
import { nodeLivesScenario } from "./workloads/nodeLifecycle.ts";
import { workloadsScenario } from "./workloads/scenario.ts";
import { volumeMistakes, volumesWith } from "./workloads/volumeScenario.ts";

/** The scenarios of the components. */
export function componentScenarios(): readonly Scenario[] {
  return [
    bindScenario,
    ...bindMistakes.map((mistake) => bindWith(mistake)),
    ...devicesScenarios,
    gangScenario(),
    gangScenario("Terminate"),
    ...gangMistakes.map((mistake) => gangScenario("Suppress", mistake)),
    gpuLabels,
    nodesScenario,
    inventoryScenario(),
    ...inventoryMistakes.map((mistake) => inventoryScenario(mistake)),
    doubtsScenario(),
    ...doubtMistakes.map((mistake) => doubtsScenario(mistake)),
    everythingScenario,
    podSetScenario(),
    scheduleScenario,
    poisonedScenario,
    growthScenario,
    ...scheduleMistakes.map((mistake) => scheduleWith(mistake)),
    claimsScenario,
    extendedScenario,
    volumesScenario,
    workloadsScenario,
    volumesWith(),
    ...volumeMistakes.map((mistake) => volumesWith(mistake)),
    nodeLivesScenario,
    ...mistakes.map((mistake) => podSetScenario(mistake)),
    verifyScenario(),
    ...verifyMistakes.map((mistake) => verifyScenario(mistake)),
    barrierScenario(),
  ];
}

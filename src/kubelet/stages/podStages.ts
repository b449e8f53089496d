import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Stage } from "./stage.ts";

/**
 * The stages that may play a pod now. One that has ended does not come back: KWOK's general set would take a pod that
 * the node refused, and that has no address therefore, for one that has just been made.
 */
export function stagesForPod({ status }: Pod, stages: readonly Stage[]): readonly Stage[] {
  if (status?.phase !== "Succeeded" && status?.phase !== "Failed") return stages;
  return stages.filter(({ steps }) => steps.every(({ patch }) => patch?.subresource !== "status"));
}

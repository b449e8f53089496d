import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Stage } from "./stage.ts";

/**
 * The stages that may play a pod now. A pod that has ended does not start again: KWOK's general set would take a pod
 * that the node refused, and that has no address therefore, for a new one.
 */
export function stagesForPod({ status }: Pod, stages: readonly Stage[]): readonly Stage[] {
  if (status?.phase !== "Succeeded" && status?.phase !== "Failed") return stages;
  return stages.filter(({ steps }) => steps.every(({ patch }) => patch?.subresource !== "status"));
}

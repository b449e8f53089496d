import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Stage } from "./stage.ts";

/**
 * The stages that apply to a pod now. A finished pod does not start again: KWOK's general stages would treat a pod that
 * the node refused, which has no address, as a new one.
 */
export function stagesForPod({ status }: Pod, stages: readonly Stage[]): readonly Stage[] {
  if (status?.phase !== "Succeeded" && status?.phase !== "Failed") return stages;
  return stages.filter(({ steps }) => steps.every(({ patch }) => patch?.subresource !== "status"));
}

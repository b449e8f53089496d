import { expectedOf, type PatchIntent } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { gpuGroupsOfLabels, labelKeys } from "../../model/scheduling/keys.ts";
import { releasedAnnotation } from "./judgeGroup.ts";
import { devicesAnnotation, podsRef } from "./reservation.ts";

/** On a pod: how often groups were removed from it. */
export const releasesAnnotation = "muster.dev/releases";

/**
 * Removes groups from a pod that is not bound. It is a write even where nothing is to be removed: labels and binds of
 * an earlier attempt may still be in flight, and from here on they conflict.
 */
export function releasePod(pod: Pod, groups: readonly string[], why: string): PatchIntent {
  const labels: JsonObject = {};
  for (const group of gpuGroupsOfLabels(pod.metadata.labels)) {
    if (!groups.includes(group)) continue;
    if (pod.metadata.labels?.[labelKeys.gpuGroup] === group) labels[labelKeys.gpuGroup] = null;
    else labels[`${labelKeys.gpuGroupPrefix}${group}`] = null;
  }
  const annotations = pod.metadata.annotations ?? {};
  const before = (annotations[releasedAnnotation] ?? "").split(",").filter((group) => group !== "");
  const released = [...new Set([...before, ...groups])].sort().join(",");
  // Counted, so that a second release of the same group is a write as well.
  const times = String(Number(annotations[releasesAnnotation] ?? "0") + 1);
  const patch: JsonObject = {
    metadata: {
      labels,
      annotations: { [devicesAnnotation]: null, [releasedAnnotation]: released, [releasesAnnotation]: times },
    },
  };
  const target = { ...podsRef, namespace: pod.metadata.namespace ?? "", name: pod.metadata.name };
  return { type: "patch", target, expected: expectedOf(pod), patch, why };
}

import type { PodClique, PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import { type ClusterSnapshot, objectsOf } from "./clusterSnapshot.ts";

/** The gangs of a saved cluster. */
export function gangsIn(snapshot: ClusterSnapshot): {
  readonly sets: readonly PodCliqueSet[];
  readonly groups: readonly PodCliqueScalingGroup[];
  readonly cliques: readonly PodClique[];
} {
  return {
    sets: objectsOf(snapshot, "podcliquesets"),
    groups: objectsOf(snapshot, "podcliquescalinggroups"),
    cliques: objectsOf(snapshot, "podcliques"),
  };
}

import type { PriorityClass } from "../../model/kubernetes.generated.ts";
import { shippedPriorityClasses } from "../../model/scheduling/podGroup.ts";
import type { SchedulingShard } from "../../model/scheduling/schedulingShard.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../verify/clusterSnapshot.ts";
import type { ClusterObjects } from "./model/clusterOf.ts";

/** The objects of a saved snapshot that the scheduler reads; kinds that an older file does not have count as empty. */
export function savedObjects(snapshot: ClusterSnapshot): {
  objects: ClusterObjects;
  shards: readonly SchedulingShard[];
} {
  const hasDevices = isServed(snapshot, "resourceslices") && isServed(snapshot, "deviceclasses");
  return {
    objects: {
      revision: snapshot.revision,
      pods: objectsOf(snapshot, "pods"),
      nodes: objectsOf(snapshot, "nodes"),
      queues: objectsOf(snapshot, "queues"),
      groups: objectsOf(snapshot, "podgroups"),
      ...(isServed(snapshot, "plaingroups") && { plainGroups: objectsOf(snapshot, "plaingroups") }),
      requests: objectsOf(snapshot, "bindrequests"),
      topologies: objectsOf(snapshot, "topologies"),
      priorityClasses: isServed(snapshot, "priorityclasses") ? objectsOf(snapshot, "priorityclasses") : shipped,
      volumeClaims: objectsOf(snapshot, "persistentvolumeclaims"),
      volumes: objectsOf(snapshot, "persistentvolumes"),
      classes: objectsOf(snapshot, "storageclasses"),
      csiNodes: objectsOf(snapshot, "csinodes"),
      budgets: objectsOf(snapshot, "poddisruptionbudgets"),
      namespaces: objectsOf(snapshot, "namespaces"),
      ...(hasDevices && {
        devices: {
          claims: objectsOf(snapshot, "resourceclaims"),
          slices: objectsOf(snapshot, "resourceslices"),
          classes: objectsOf(snapshot, "deviceclasses"),
        },
      }),
    },
    shards: objectsOf(snapshot, "schedulingshards"),
  };
}

const shipped = shippedPriorityClasses.map(({ name, value }) => ({
  metadata: { name },
  value,
})) as PriorityClass[];

import { servedDevices } from "../../control/devices/servedDevices.ts";
import { type Taken, takeSnapshot } from "../../control/verify/takeSnapshot.ts";
import { namedConfigMaps } from "../../decide/schedule/cluster/podShape.ts";
import type { ClusterObjects } from "../../decide/schedule/model/clusterOf.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../../decide/verify/clusterSnapshot.ts";
import { keyOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import { type SchedulingShard, schedulingShardRef } from "../../model/scheduling/schedulingShard.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

/** The objects of a cluster that the scheduler reads. */
export interface SchedulingObjects {
  readonly revision: string;
  readonly objects: ClusterObjects;
  readonly shards: readonly SchedulingShard[];
  /** Kinds that could not be listed, and why. An answer that depends on their objects may be wrong. */
  readonly unknown: readonly UnknownKind[];
}

export interface UnknownKind {
  /** `storageclasses.storage.k8s.io`. */
  readonly resource: string;
  readonly why: string;
}

const kinds = ["pods", "nodes", "podgroups", "plaingroups", "bindrequests", "queues", "topologies"] as const;

/**
 * Pods, nodes, groups and queues are read at one revision. Priorities, volumes and ConfigMaps change rarely and are
 * listed separately.
 */
export async function schedulingObjects(
  given: KubeApi,
  nowMs: () => number,
): Promise<SchedulingObjects | Extract<Taken, { ok: false }>> {
  const taken = await takeSnapshot(given, kinds, { nowMs });
  if (!taken.ok) return taken;
  const { snapshot } = taken;
  const kube = servedDevices(given);
  const unknown: UnknownKind[] = [];
  const list = async <T extends KubeObject>(ref: Resource<T>): Promise<readonly T[]> => {
    const outcome = await kube.list(ref);
    if (outcome.ok) return outcome.value.items;
    // A cluster that does not serve the kind has no objects of it.
    if (outcome.reason !== "NotFound") unknown.push({ resource: nameOf(ref), why: outcome.message });
    return [];
  };
  const configMaps = await configMapsFor(objectsOf(snapshot, "pods"), kube);
  if ("unread" in configMaps) unknown.push({ resource: "configmaps", why: configMaps.unread });
  const objects: ClusterObjects = {
    revision: snapshot.revision,
    ...snapshotObjects(snapshot),
    priorityClasses: await list(builtin.PriorityClass),
    volumeClaims: await list(builtin.PersistentVolumeClaim),
    volumes: await list(builtin.PersistentVolume),
    classes: await list(builtin.StorageClass),
    csiNodes: await list(builtin.CSINode),
    budgets: await list(builtin.PodDisruptionBudget),
    namespaces: await list(builtin.Namespace),
    ...("found" in configMaps && { configMaps: configMaps.found }),
    devices: {
      claims: await list(builtin.ResourceClaim),
      slices: await list(builtin.ResourceSlice),
      classes: await list(builtin.DeviceClass),
      rules: await list(builtin.DeviceTaintRule),
    },
  };
  const shards = await list(schedulingShardRef);
  return { revision: snapshot.revision, objects, shards, unknown };
}

function nameOf({ group, plural }: Resource): string {
  return group === "" ? plural : `${plural}.${group}`;
}

function snapshotObjects(
  snapshot: ClusterSnapshot,
): Pick<ClusterObjects, "pods" | "nodes" | "queues" | "groups" | "plainGroups" | "requests" | "topologies"> {
  return {
    pods: objectsOf(snapshot, "pods"),
    nodes: objectsOf(snapshot, "nodes"),
    queues: objectsOf(snapshot, "queues"),
    groups: objectsOf(snapshot, "podgroups"),
    ...(isServed(snapshot, "plaingroups") && { plainGroups: objectsOf(snapshot, "plaingroups") }),
    requests: objectsOf(snapshot, "bindrequests"),
    topologies: objectsOf(snapshot, "topologies"),
  };
}

/**
 * Which of the ConfigMaps that pending pods reference exist. They may be large, so each is read by its name. `unread`
 * says why one could not be read.
 */
async function configMapsFor(
  pods: readonly Pod[],
  kube: KubeApi,
): Promise<{ readonly found: ReadonlySet<string> } | { readonly unread: string }> {
  const named = new Map<string, { namespace: string; name: string }>();
  for (const pod of pods) {
    if ((pod.spec?.nodeName ?? "") !== "") continue;
    const { namespace = "" } = pod.metadata;
    for (const name of namedConfigMaps(pod)) named.set(keyOf(namespace, name), { namespace, name });
  }
  const found = new Set<string>();
  for (const [key, where] of named) {
    const outcome = await kube.get({ ...builtin.ConfigMap, ...where });
    if (outcome.ok) found.add(key);
    else if (outcome.reason !== "NotFound") return { unread: `a pod references ${key}: ${outcome.message}` };
  }
  return { found };
}

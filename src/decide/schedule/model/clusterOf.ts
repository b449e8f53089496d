/** The cluster model of a cluster that was listed once, or saved to a file. */
import type {
  ConfigMap,
  CSINode,
  DeviceClass,
  DeviceTaintRule,
  Namespace,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  PodGroup as PlainGroup,
  Pod,
  PodDisruptionBudget,
  PriorityClass,
  ResourceClaim,
  ResourceSlice,
  StorageClass,
} from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { firstRevision, isRevision, laterOf, type Revision } from "../../../model/revision.ts";
import type { BindRequest } from "../../../model/scheduling/bindRequest.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import type { Queue } from "../../../model/scheduling/queue.ts";
import type { Topology } from "../../../model/scheduling/topology.ts";
import { tableOf } from "../../../snapshot/kindTable.ts";
import { DeviceModel } from "../../devices/deviceModel.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { defaultSettings, type Settings } from "../settings.ts";
import { ClusterModel, type ClusterModelOptions, type ClusterTables } from "./clusterModel.ts";

/** The objects of a cluster at one revision. */
export interface ClusterObjects {
  /** By default the highest revision of the objects. */
  readonly revision?: Revision;
  readonly pods: readonly Pod[];
  readonly nodes: readonly Node[];
  readonly queues: readonly Queue[];
  readonly groups: readonly PodGroup[];
  /** PodGroups of `scheduling.k8s.io`; undefined where they are not served or could not be listed. */
  readonly plainGroups?: readonly PlainGroup[];
  readonly requests: readonly BindRequest[];
  readonly topologies: readonly Topology[];
  readonly priorityClasses: readonly PriorityClass[];
  readonly volumeClaims: readonly PersistentVolumeClaim[];
  readonly volumes: readonly PersistentVolume[];
  readonly classes: readonly StorageClass[];
  readonly csiNodes?: readonly CSINode[];
  readonly budgets?: readonly PodDisruptionBudget[];
  readonly namespaces?: readonly Namespace[];
  /** `namespace/name` of the ConfigMaps; undefined where they could not be listed. */
  readonly configMaps?: ReadonlySet<string>;
  /** ResourceClaims, slices and classes; undefined where they could not be listed. */
  readonly devices?: DeviceObjects;
}

export interface DeviceObjects {
  readonly claims: readonly ResourceClaim[];
  readonly slices: readonly ResourceSlice[];
  readonly classes: readonly DeviceClass[];
  readonly rules?: readonly DeviceTaintRule[];
}

/** The cluster of a scheduler that serves every node pool. */
export function clusterOf(objects: ClusterObjects, settings: Settings = defaultSettings): Cluster {
  const devices = deviceModelOf(objects);
  return clusterWithPlaces(objects, settings, { isOfAllPools: true, ...(devices && { devices }) });
}

/** Undefined where the objects contain no device kinds. */
export function deviceModelOf(objects: ClusterObjects): DeviceModel | undefined {
  const { pods, devices } = objects;
  if (devices === undefined) return undefined;
  const { claims, slices, classes, rules = [] } = devices;
  const revision = revisionOf(objects);
  return new DeviceModel({
    pods: tableOf(pods, revision),
    claims: tableOf(claims, revision),
    slices: tableOf(slices, revision),
    classes: tableOf(classes, revision),
    rules: tableOf(rules, revision),
  });
}

/** The cluster with the node of every pod applied. */
export function clusterWithPlaces(objects: ClusterObjects, settings: Settings, options: ClusterModelOptions): Cluster {
  const formsPlainGangs = objects.plainGroups !== undefined;
  const model = new ClusterModel(tablesOf(objects), { ...settings, formsPlainGangs }, options);
  model.applyAssumed();
  return model.cluster;
}

export function tablesOf(objects: ClusterObjects): ClusterTables {
  const { configMaps, plainGroups } = objects;
  const revision = revisionOf(objects);
  return {
    pods: tableOf(objects.pods, revision),
    nodes: tableOf(objects.nodes, revision),
    requests: tableOf(objects.requests, revision),
    groups: tableOf(objects.groups, revision),
    queues: tableOf(objects.queues, revision),
    ...(plainGroups && { plainGroups: tableOf(plainGroups, revision) }),
    priorityClasses: tableOf(objects.priorityClasses, revision),
    topologies: tableOf(objects.topologies, revision),
    namespaces: tableOf(objects.namespaces ?? [], revision),
    ...(configMaps && { configMaps: tableOf([...configMaps].map(configMapNamed), revision) }),
    volumeClaims: tableOf(objects.volumeClaims, revision),
    volumes: tableOf(objects.volumes, revision),
    classes: tableOf(objects.classes, revision),
    csiNodes: tableOf(objects.csiNodes ?? [], revision),
    budgets: tableOf(objects.budgets ?? [], revision),
  };
}

function revisionOf({ revision, ...objects }: ClusterObjects): Revision {
  if (revision !== undefined) return revision;
  let newest = firstRevision;
  for (const list of [...Object.values(objects), ...Object.values(objects.devices ?? {})]) {
    if (!Array.isArray(list)) continue;
    for (const { metadata } of list as readonly KubeObject[]) {
      if (isRevision(metadata.resourceVersion)) newest = laterOf(newest, metadata.resourceVersion);
    }
  }
  return newest;
}

/** Only the existence of a ConfigMap is read. */
function configMapNamed(key: string): ConfigMap {
  const [namespace = "", name = ""] = key.split("/");
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace, name, uid: key, resourceVersion: firstRevision, creationTimestamp: "" },
  };
}

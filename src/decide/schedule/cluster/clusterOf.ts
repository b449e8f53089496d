/** The cluster model of lists: of a cluster that was read once, or saved. */
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
import { firstRevision } from "../../../model/revision.ts";
import type { BindRequest } from "../../../model/scheduling/bindRequest.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import type { Queue } from "../../../model/scheduling/queue.ts";
import type { Topology } from "../../../model/scheduling/topology.ts";
import { tableOf } from "../../../snapshot/kindTable.ts";
import { DeviceModel } from "../../devices/deviceModel.ts";
import { defaultSettings, type Settings } from "../settings.ts";
import type { Cluster } from "./cluster.ts";
import { ClusterModel, type ClusterModelOptions, type ClusterTables } from "./clusterModel.ts";

/** The objects of a cluster at one revision, from which questions about scheduling are answered. */
export interface ClusterObjects {
  readonly pods: readonly Pod[];
  readonly nodes: readonly Node[];
  readonly queues: readonly Queue[];
  readonly groups: readonly PodGroup[];
  /** Kubernetes' own groups; undefined where the cluster has none or they were not listed. */
  readonly plainGroups?: readonly PlainGroup[];
  readonly requests: readonly BindRequest[];
  readonly topologies: readonly Topology[];
  readonly priorityClasses: readonly PriorityClass[];
  readonly claims: readonly PersistentVolumeClaim[];
  readonly volumes: readonly PersistentVolume[];
  readonly classes: readonly StorageClass[];
  readonly csiNodes?: readonly CSINode[];
  readonly budgets?: readonly PodDisruptionBudget[];
  readonly namespaces?: readonly Namespace[];
  /** `namespace/name` of the ConfigMaps; undefined where they were not listed. */
  readonly configMaps?: ReadonlySet<string>;
  /** Device claims and what they are served from; undefined where they were not listed. */
  readonly devices?: DeviceObjects;
}

export interface DeviceObjects {
  readonly claims: readonly ResourceClaim[];
  readonly slices: readonly ResourceSlice[];
  readonly classes: readonly DeviceClass[];
  readonly rules?: readonly DeviceTaintRule[];
}

/** The cluster as a scheduler would see it that serves every node pool. */
export function clusterOf(objects: ClusterObjects, settings: Settings = defaultSettings): Cluster {
  const devices = deviceModelOf(objects);
  return settledCluster(objects, settings, { isOfAllPools: true, ...(devices && { devices }) });
}

/** Undefined where the objects say nothing of devices. */
export function deviceModelOf({ pods, devices }: ClusterObjects): DeviceModel | undefined {
  if (devices === undefined) return undefined;
  const { claims, slices, classes, rules = [] } = devices;
  return new DeviceModel({
    pods: tableOf(pods),
    claims: tableOf(claims),
    slices: tableOf(slices),
    classes: tableOf(classes),
    rules: tableOf(rules),
  });
}

/** With every pod where the objects have it. */
export function settledCluster(objects: ClusterObjects, settings: Settings, options: ClusterModelOptions): Cluster {
  const formsPlainGangs = objects.plainGroups !== undefined;
  const model = new ClusterModel(tablesOf(objects), { ...settings, formsPlainGangs }, options);
  model.settle();
  return model.cluster;
}

export function tablesOf(objects: ClusterObjects): ClusterTables {
  const { configMaps, plainGroups } = objects;
  return {
    pods: tableOf(objects.pods),
    nodes: tableOf(objects.nodes),
    requests: tableOf(objects.requests),
    groups: tableOf(objects.groups),
    queues: tableOf(objects.queues),
    ...(plainGroups && { plainGroups: tableOf(plainGroups) }),
    priorityClasses: tableOf(objects.priorityClasses),
    topologies: tableOf(objects.topologies),
    namespaces: tableOf(objects.namespaces ?? []),
    ...(configMaps && { configMaps: tableOf([...configMaps].map(configMapNamed)) }),
    claims: tableOf(objects.claims),
    volumes: tableOf(objects.volumes),
    classes: tableOf(objects.classes),
    csiNodes: tableOf(objects.csiNodes ?? []),
    budgets: tableOf(objects.budgets ?? []),
  };
}

/** That it exists is all that is asked. */
function configMapNamed(key: string): ConfigMap {
  const [namespace = "", name = ""] = key.split("/");
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace, name, uid: key, resourceVersion: firstRevision, creationTimestamp: "" },
  };
}

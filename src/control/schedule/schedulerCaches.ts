import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";
import { type ClusterKind, ClusterModel, type ClusterTables } from "../../decide/schedule/model/clusterModel.ts";
import type { PodEffect } from "../../decide/schedule/model/podEffects.ts";
import type { Settings } from "../../decide/schedule/settings.ts";
import type { Node, PodGroup as PlainGroup, Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import { type BindRequest, bindRequestRef } from "../../model/scheduling/bindRequest.ts";
import { type PodGroup, podGroupRef } from "../../model/scheduling/podGroup.ts";
import { type Queue, queueRef } from "../../model/scheduling/queue.ts";
import { topologyRef } from "../../model/scheduling/topology.ts";
import type { AssumeCache } from "../../snapshot/assumeCache.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import { type DeviceCaches, deviceCachesOf } from "../devices/deviceCaches.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { measuredDevices } from "./measures.ts";

export const refs = {
  pods: builtin.Pod,
  nodes: builtin.Node,
  namespaces: builtin.Namespace,
  configMaps: builtin.ConfigMap,
  volumeClaims: builtin.PersistentVolumeClaim,
  volumes: builtin.PersistentVolume,
  classes: builtin.StorageClass,
  csiNodes: builtin.CSINode,
  budgets: builtin.PodDisruptionBudget,
  priorityClasses: builtin.PriorityClass,
  requests: bindRequestRef,
  groups: podGroupRef,
  queues: queueRef,
  topologies: topologyRef,
  plainGroups: builtin.PodGroup,
} as const satisfies Record<string, Resource>;

/** The caches of every kind that the scheduler reads, and the cluster model that they are folded into. */
export class SchedulerCaches {
  readonly model: ClusterModel;
  readonly pods: ObjectCache<Pod>;
  readonly nodes: ObjectCache<Node>;
  readonly requests: ObjectCache<BindRequest>;
  readonly groups: ObjectCache<PodGroup>;
  readonly queues: ObjectCache<Queue>;
  readonly devices: DeviceCaches | undefined;
  readonly plainGroups: ObjectCache<PlainGroup> | undefined;
  /** Every kind that a decision reads. */
  readonly all: readonly ObjectCache[];
  /** Nothing is decided while the watch of one of these is broken. */
  readonly neededWatches: readonly ObjectCache[];

  constructor(controllers: Controllers, settings: Settings) {
    const cache = <T extends KubeObject>(ref: Resource<T>): ObjectCache<T> => controllers.cache(ref);
    this.pods = cache(refs.pods);
    this.nodes = cache(refs.nodes);
    this.requests = cache(refs.requests);
    this.groups = cache(refs.groups);
    this.queues = cache(refs.queues);
    const { pods, nodes, requests, groups, queues } = this;
    const others = {
      priorityClasses: cache(refs.priorityClasses),
      topologies: cache(refs.topologies),
      namespaces: cache(refs.namespaces),
      configMaps: cache(refs.configMaps),
      volumeClaims: cache(refs.volumeClaims),
      volumes: cache(refs.volumes),
      classes: cache(refs.classes),
      csiNodes: cache(refs.csiNodes),
      budgets: cache(refs.budgets),
    };
    this.plainGroups = settings.formsPlainGangs ? cache(refs.plainGroups) : undefined;
    const caches = {
      pods,
      nodes,
      requests,
      groups,
      queues,
      ...others,
      ...(this.plainGroups && { plainGroups: this.plainGroups }),
    };
    this.devices = settings.allocatesDevices ? deviceCachesOf(controllers) : undefined;
    const { devices } = this;
    const ofDevices = devices && [devices.claims, devices.slices, devices.classes, devices.rules];
    this.all = [...Object.values(caches), ...(ofDevices ?? [])];
    this.neededWatches = [pods, nodes, requests, groups, queues, ...(devices ? [devices.claims, devices.slices] : [])];
    const { clock } = controllers.ports;
    this.model = new ClusterModel(tablesOf(caches), settings, {
      ...(devices && {
        devices: devices.model,
        wrapDevices: (found) => measuredDevices(found, devices.report, clock),
      }),
    });
    for (const kind of Object.keys(caches) as ClusterKind[]) {
      const followed = caches[kind] as ObjectCache | undefined;
      followed?.onChanges((changes, isNewList) => this.model.observed(kind, changes as never, isNewList));
    }
    devices?.claims.onChanges((changes) => this.model.observedDevices("claims", changes));
    devices?.slices.onChanges((changes) => this.model.observedDevices("slices", changes));
    devices?.classes.onChanges((changes) => this.model.observedDevices("classes", changes));
    devices?.rules.onChanges((changes) => this.model.observedDevices("rules", changes));
  }

  get cluster(): Cluster {
    return this.model.cluster;
  }

  get assumeCache(): AssumeCache<PodEffect> {
    return this.model.assumeCache;
  }
}

type Caches = { readonly [K in ClusterKind]: { readonly table: NonNullable<ClusterTables[K]> } | undefined };

function tablesOf(caches: Partial<Caches>): ClusterTables {
  const tables = Object.entries(caches).map(([kind, cache]) => [kind, cache?.table]);
  return Object.fromEntries(tables) as ClusterTables;
}

import type { ExtendedAllocation } from "../../decide/bind/claimStatus.ts";
import { extendedEntry } from "../../decide/devices/claims/extendedClaim.ts";
import { ClaimDevices, gpusIn } from "../../decide/schedule/cluster/claimDevices.ts";
import { Cluster } from "../../decide/schedule/cluster/cluster.ts";
import type { Place } from "../../decide/schedule/cluster/task.ts";
import type { Settings } from "../../decide/schedule/settings.ts";
import { keyOf, kindOf } from "../../model/intent.ts";
import type { Node, PodGroup as PlainGroup, Pod, ResourceSlice } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import { isLater, type Revision } from "../../model/revision.ts";
import { type BindRequest, bindRequestRef, isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import {
  annotationKeys,
  gpuGroupsOfLabels,
  kaiSchedulerName,
  labelKeys,
  nodeHeldBy,
} from "../../model/scheduling/keys.ts";
import { type PodGroup, podGroupRef } from "../../model/scheduling/podGroup.ts";
import { type Queue, queueRef } from "../../model/scheduling/queue.ts";
import { topologyRef } from "../../model/scheduling/topology.ts";

import type { Effect } from "../../snapshot/ledger.ts";
import { Picture } from "../../snapshot/picture.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import { type DeviceCaches, deviceCachesOf } from "../devices/deviceCaches.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { measuredDevices } from "./measuredDevices.ts";
import { type ChosenDevices, PendingClaims } from "./pendingClaims.ts";

export const refs = {
  pods: builtin.Pod,
  nodes: builtin.Node,
  namespaces: builtin.Namespace,
  configMaps: builtin.ConfigMap,
  claims: builtin.PersistentVolumeClaim,
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

/** What a pod holds, or that it is about to lose it. */
export type Mark = (Place & { readonly claims?: readonly ChosenDevices[] }) | { readonly isEvicted: true };

/** The key under which an eviction counts beside the place of the same pod. */
export function evictionKey(uid: string): string {
  return `${uid}!`;
}

/**
 * What the scheduler sees: every kind that decides, folded into one cluster. Where a pod is comes from the picture,
 * which also counts what was decided and not seen yet; so a decision that is on its way is as true here as one that has
 * arrived.
 */
export class SchedulerCaches {
  readonly cluster: Cluster;
  readonly picture: Picture<Mark>;
  readonly pods: ObjectCache<Pod>;
  readonly nodes: ObjectCache<Node>;
  readonly requests: ObjectCache<BindRequest>;
  readonly groups: ObjectCache<PodGroup>;
  readonly queues: ObjectCache<Queue>;
  /** Every kind that a decision reads. */
  readonly all: readonly ObjectCache[];
  private readonly dirty = new Set<string>();
  /**
   * GPU shares whose BindRequest has ended while the pod cache may be older than that: the binder may have created a
   * reservation pod. They count until a list has shown which reservations exist.
   */
  private readonly lingering = new Map<string, Place>();
  /**
   * Revisions of our own writes to pods that decide, by UID, until the watch has come so far: what it shows before is
   * the past.
   */
  private readonly own = new Map<string, Revision>();
  /** Pods that are gone, and whose request for a share is not. */
  private readonly ghosts = new Map<string, KubeObject>();
  /** Told the UID of each pod that counts somewhere else from now on, perhaps without any event. */
  onMoved: (uid: string) => void = () => {};
  /** Called with the UID of each pod whose GPU share lingers. */
  onLingering: (uid: string) => void = () => {};
  /** Pods whose chosen devices may have changed. */
  private readonly dirtyClaims = new Set<string>();
  readonly pendingClaims: PendingClaims | undefined;
  /** Called with the UID of each pod whose chosen devices count though its request has ended. */
  onLingeringClaims: (uid: string) => void = () => {};
  /** A device became free, perhaps without any event. */
  onFreed: () => void = () => {};
  /** Node pools that a scheduler serves; undefined until the shards are known. */
  servedPools: ReadonlySet<string> | undefined;
  readonly devices: DeviceCaches | undefined;
  readonly plainGroups: ObjectCache<PlainGroup> | undefined;
  /** What is placed, and where: nothing is decided while one of these is not followed. */
  readonly placed: readonly ObjectCache[];

  constructor(controllers: Controllers, settings: Settings) {
    this.cluster = new Cluster(settings);
    const cache = <T extends KubeObject>(ref: Resource<T>): ObjectCache<T> => controllers.cache(ref);
    this.pods = cache(refs.pods);
    this.nodes = cache(refs.nodes);
    this.requests = cache(refs.requests);
    this.groups = cache(refs.groups);
    this.queues = cache(refs.queues);
    const namespaces = cache(refs.namespaces);
    const configMaps = cache(refs.configMaps);
    const claims = cache(refs.claims);
    const volumes = cache(refs.volumes);
    const classes = cache(refs.classes);
    const csiNodes = cache(refs.csiNodes);
    const budgets = cache(refs.budgets);
    const others = [namespaces, configMaps, claims, volumes, classes, csiNodes, budgets];
    const priorityClasses = cache(refs.priorityClasses);
    const topologies = cache(refs.topologies);
    this.plainGroups = settings.formsPlainGangs ? cache(refs.plainGroups) : undefined;
    this.devices = settings.allocatesDevices ? deviceCachesOf(controllers) : undefined;
    const { devices } = this;
    const ofDevices = devices === undefined ? [] : [devices.claims, devices.slices, devices.classes, devices.rules];
    this.all = [
      this.pods,
      this.nodes,
      this.requests,
      this.groups,
      this.queues,
      priorityClasses,
      topologies,
      ...others,
      ...ofDevices,
      ...(this.plainGroups === undefined ? [] : [this.plainGroups]),
    ];
    const ofClaims = devices === undefined ? [] : [devices.claims, devices.slices];
    this.placed = [this.pods, this.nodes, this.requests, this.groups, this.queues, ...ofClaims];
    this.picture = new Picture<Mark>(
      {
        [kindOf(refs.pods)]: { table: this.pods.table, effects: podEffects },
        [kindOf(refs.requests)]: { table: this.requests.table, effects: requestEffects },
        [kindOf(refs.nodes)]: { table: this.nodes.table },
        [kindOf(refs.groups)]: { table: this.groups.table },
        [kindOf(refs.queues)]: { table: this.queues.table },
      },
      {
        onEffect: (key) => {
          this.moved(key.endsWith("!") ? key.slice(0, -1) : key);
          this.dirtyClaims.add(key);
        },
      },
    );
    this.requests.onChanges((changes) => {
      for (const change of changes) {
        if (change.type !== "deleted") this.noteGhost(change.object);
        if (change.type === "added") continue;
        const after = change.type === "deleted" ? [] : requestEffects(change.object);
        const [before] = requestEffects(change.before);
        if (before === undefined || after.length > 0 || !("node" in before.value)) continue;
        const hasSucceeded = change.before.status?.phase === "Succeeded";
        if (before.value.groups.length === 0 || hasSucceeded) continue;
        this.lingering.set(before.key, before.value);
        this.moved(before.key);
        this.onLingering(before.key);
      }
    });
    const { cluster } = this;
    const inPool = (object: KubeObject): boolean => poolOf(object) === settings.nodePool;
    follow(
      this.nodes,
      (object) => cluster.putNode(object),
      (_, name) => cluster.removeNode(name),
      inPool,
    );
    follow(
      this.queues,
      (object) => cluster.putQueue(object),
      (_, name) => cluster.removeQueue(name),
      inPool,
    );
    const { queuesElsewhere } = cluster;
    follow(
      this.queues,
      (object, name) => {
        if (queuesElsewhere.get(name) !== poolOf(object)) cluster.touched();
        queuesElsewhere.set(name, poolOf(object));
      },
      (_, name) => {
        if (queuesElsewhere.delete(name)) cluster.touched();
      },
      (object) => !inPool(object),
    );
    follow(
      this.groups,
      (object) => cluster.putPodGroup(object),
      (_, key) => cluster.removePodGroup(key),
      inPool,
    );
    follow(
      this.pods,
      (object) => {
        const { uid, resourceVersion } = object.metadata;
        const own = this.own.get(uid);
        if (own !== undefined && isLater(own, resourceVersion)) return;
        this.own.delete(uid);
        this.ghosts.delete(uid);
        cluster.putPod(object);
        this.dirty.add(uid);
      },
      (object) => {
        this.own.delete(object.metadata.uid);
        this.podGone(object);
      },
    );
    for (const object of this.requests.table.view().objects.values()) this.noteGhost(object);
    if (this.plainGroups !== undefined) {
      follow(
        this.plainGroups,
        (object) => cluster.putPlainGroup(object),
        (_, key) => cluster.removePlainGroup(key),
      );
    }
    follow(
      priorityClasses,
      (object) => cluster.putPriorityClass(object),
      (_, name) => cluster.removePriorityClass(name),
    );
    follow(
      topologies,
      (object) => cluster.putTopology(object),
      (_, name) => cluster.removeTopology(name),
    );
    follow(
      namespaces,
      (object) => cluster.putNamespace(object.metadata.name, object.metadata.labels ?? {}),
      () => {},
    );
    const names = new Set<string>();
    cluster.configMaps = names;
    follow(
      configMaps,
      (_, key) => {
        if (!names.has(key)) cluster.touched();
        names.add(key);
      },
      (_, key) => {
        names.delete(key);
        cluster.touched();
      },
    );
    const keep = <T extends KubeObject>(of: ObjectCache<T>, map: Map<string, T>): void =>
      follow(
        of,
        (object, key) => {
          map.set(key, object);
          cluster.touched();
        },
        (_, key) => {
          map.delete(key);
          cluster.touched();
        },
      );
    keep(claims, cluster.volumes.claims);
    keep(volumes, cluster.volumes.volumes);
    keep(classes, cluster.volumes.classes);
    keep(csiNodes, cluster.volumes.csiNodes);
    // Budgets influence which victims are chosen, not whether there are any: a change needs no new cycle.
    follow(
      budgets,
      (object, key) => void cluster.budgets.byKey.set(key, object),
      (_, key) => void cluster.budgets.byKey.delete(key),
    );
    for (const [kind, each] of [
      [kindOf(refs.pods), this.pods],
      [kindOf(refs.requests), this.requests],
      [kindOf(refs.nodes), this.nodes],
      [kindOf(refs.groups), this.groups],
      [kindOf(refs.queues), this.queues],
    ] as const) {
      each.onChanges((changes, isNewList) => {
        this.picture.observed(kind, changes, isNewList);
        this.settleClaims();
      });
    }
    this.pendingClaims = devices === undefined ? undefined : this.followDevices(devices);
  }

  /** Lets the cluster search devices, and requeues pods that wait for one. */
  private followDevices(devices: DeviceCaches): PendingClaims {
    const { cluster } = this;
    const found = new ClaimDevices({
      view: (nowMs) => devices.view(nowMs),
      onDevice: (device) => cluster.deviceChanged(device),
      usersOf: ({ metadata }) => devices.podsByClaim.get(`${metadata.namespace ?? ""}/${metadata.name}`),
    });
    cluster.devices = measuredDevices(found, devices.report, devices.controllers.ports.clock);
    const usersChanged = (claimKey: string): void => {
      for (const { metadata } of devices.podsByClaim.get(claimKey)) cluster.claimsChanged(metadata.uid);
    };
    devices.claims.onChanges((changes) => {
      for (const { key } of changes) usersChanged(key);
    });
    devices.pods.onChanges((changes) => {
      for (const { object } of changes) {
        for (const { resourceClaimName } of object.spec?.resourceClaims ?? []) {
          if (resourceClaimName !== undefined) usersChanged(`${object.metadata.namespace ?? ""}/${resourceClaimName}`);
        }
      }
    });
    const serve = (): void => cluster.setServed(devices.servedResources());
    serve();
    devices.classes.onChanges(serve);
    for (const each of [devices.slices, devices.classes, devices.rules]) each.onChanges(() => cluster.touched());
    const byNode = devices.slices.index(({ spec }) => (spec.nodeName === undefined ? [] : [spec.nodeName]));
    const countGpus = ({ spec }: ResourceSlice): void => {
      if (spec.nodeName === undefined) return;
      const slices = byNode.get(spec.nodeName);
      cluster.setClaimGpus(spec.nodeName, gpusIn(slices));
      cluster.setSlices(spec.nodeName, slices);
    };
    for (const slice of devices.slices.view().objects.values()) countGpus(slice);
    devices.slices.onChanges((changes) => {
      for (const { object } of changes) countGpus(object);
    });
    devices.onDevice((device) => cluster.deviceChanged(device));
    devices.onFreed(() => {
      cluster.touched();
      this.onFreed();
    });
    return new PendingClaims(devices, {
      podOf: (uid) => cluster.tasks.get(uid)?.pod,
      requestsRevision: () => this.requests.revision,
      onLingering: (uid) => this.onLingeringClaims(uid),
    });
  }

  /** Every other allocator in the process must see at once which devices were chosen here. */
  settleClaims(): void {
    for (const key of this.dirtyClaims) {
      // Not by the pod's shape: a request for a resource that devices serve may be known before the class that says so.
      const marks = this.pendingClaims === undefined ? [] : this.picture.values(key);
      const chosen = marks.flatMap((mark) => ("claims" in mark ? (mark.claims ?? []) : []));
      this.pendingClaims?.set(key, chosen);
    }
    this.dirtyClaims.clear();
    this.pendingClaims?.settleUnsettled();
  }

  /** A pod as this process has just written it. A nomination counts from here on, and not when the watch shows it. */
  wrote(object: KubeObject): void {
    const { uid, resourceVersion } = object.metadata;
    const shown = this.pods.get(keyOf(object.metadata.namespace, object.metadata.name));
    if (shown?.metadata.uid !== uid || isLater(shown.metadata.resourceVersion, resourceVersion)) return;
    this.own.set(uid, resourceVersion);
    this.cluster.putPod(object);
    this.dirty.add(uid);
  }

  /**
   * A pod that is gone holds nothing; but while its request for a GPU share exists, the binder may not have observed
   * that, and may still reserve a GPU for it.
   */
  private podGone(object: KubeObject): void {
    const { uid } = object.metadata;
    if (!this.sharesOf(uid)) {
      this.ghosts.delete(uid);
      this.cluster.removePod(uid);
      return;
    }
    this.ghosts.set(uid, object);
    this.dirty.add(uid);
    const deletionTimestamp = object.metadata.deletionTimestamp ?? object.metadata.creationTimestamp;
    this.cluster.putPod({ ...object, metadata: { ...object.metadata, deletionTimestamp } });
  }

  /** The pod of a request may have gone while we did not look: what is known of it is the request. */
  private noteGhost(object: KubeObject): void {
    const [effect] = requestEffects(object);
    if (effect === undefined || this.cluster.tasks.has(effect.key)) return;
    if (!("node" in effect.value) || effect.value.groups.length === 0) return;
    const ghost = ghostOf(object, effect.key);
    this.ghosts.set(effect.key, ghost);
    this.cluster.putPod(ghost);
    this.moved(effect.key);
  }

  private moved(uid: string): void {
    this.dirty.add(uid);
    this.onMoved(uid);
  }

  private sharesOf(uid: string): boolean {
    return this.picture.values(uid).some((mark) => "node" in mark && mark.groups.length > 0) || this.lingering.has(uid);
  }

  /** The GPUs of a share that lingers. */
  lingeringGroups(uid: string): readonly string[] {
    return this.lingering.get(uid)?.groups ?? [];
  }

  /** Our pods show what is there: the share of the pod counts no longer by itself. */
  letGo(uid: string): void {
    if (this.lingering.delete(uid)) this.moved(uid);
  }

  /** Puts every pod where the picture has it now, and says up to which revision that is true. */
  settle(): Revision {
    for (const uid of this.dirty) {
      const ghost = this.ghosts.get(uid);
      if (ghost !== undefined && !this.sharesOf(uid)) this.podGone(ghost);
      const places = this.picture.values(uid).filter((mark): mark is Place => "node" in mark);
      const lingers = this.lingering.get(uid);
      if (lingers !== undefined && places.length === 0) places.push(lingers);
      this.cluster.setPlaces(uid, places, this.picture.values(evictionKey(uid)).length > 0);
    }
    this.dirty.clear();
    return this.picture.snapshot().revision;
  }
}

/** The node pool that an object says it belongs to. */
export function poolOf({ metadata }: Pick<KubeObject, "metadata">): string {
  return metadata.labels?.[labelKeys.nodePool] ?? "";
}

/** A pod that has a node and has not ended holds it, with the GPUs that its labels name. */
function podEffects({ metadata, spec, status }: Pod): readonly Effect<Mark>[] {
  const node = nodeHeldBy({ metadata, ...(spec && { spec }) });
  if (node === undefined || status?.phase === "Succeeded" || status?.phase === "Failed") return [];
  return [{ key: metadata.uid, value: { node, groups: gpuGroupsOfLabels(metadata.labels) } }];
}

/** A BindRequest holds its node for its pod until it has failed for good. */
function requestEffects(request: BindRequest): readonly Effect<Mark>[] {
  const uid = podUidOf(request);
  if (uid === undefined || isFinallyFailed(request)) return [];
  const { selectedNode, selectedGPUGroups, resourceClaimAllocations, extendedResourceClaimAllocation } =
    request.spec ?? {};
  if (selectedNode === undefined || selectedNode === "") return [];
  const claims = (resourceClaimAllocations ?? []).map(({ name = "", allocation }) => ({ name, allocation }));
  const extended = extendedResourceClaimAllocation as ExtendedAllocation | null | undefined;
  if (extended?.allocation !== undefined) claims.push({ name: extendedEntry, allocation: extended.allocation });
  const groups = [...(selectedGPUGroups ?? [])].sort();
  return [{ key: uid, value: { node: selectedNode, groups, ...(claims.length > 0 && { claims }) } }];
}

/** A pod that is gone, as far as the request for its GPU share describes it. */
function ghostOf({ metadata, spec }: BindRequest, uid: string): KubeObject {
  const { namespace = "", creationTimestamp } = metadata;
  const name = spec?.podName ?? metadata.name;
  const { count = 1, portion = "" } = spec?.receivedGPU ?? {};
  const annotations = {
    [annotationKeys.gpuFraction]: portion,
    [annotationKeys.gpuFractionDevices]: String(count),
  };
  const gone = { deletionTimestamp: metadata.deletionTimestamp ?? creationTimestamp };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...gone, namespace, name, uid, creationTimestamp, annotations, resourceVersion: "0" },
    spec: { schedulerName: kaiSchedulerName, containers: [] },
  };
}

function follow<T extends KubeObject>(
  cache: ObjectCache<T>,
  put: (object: T, key: string) => void,
  remove: (object: T, key: string) => void,
  isOurs: (object: T) => boolean = () => true,
): void {
  const tell = (object: T, key: string): void => {
    if (isOurs(object)) put(object, key);
    else remove(object, key);
  };
  for (const [key, object] of cache.table.view().objects) tell(object, key);
  cache.onChanges((changes) => {
    for (const change of changes) {
      if (change.type === "deleted") remove(change.before, change.key);
      else tell(change.object, change.key);
    }
  });
}

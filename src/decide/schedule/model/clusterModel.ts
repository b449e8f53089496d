/**
 * The scheduler's cache of the cluster: the objects of every kind that a decision reads, and the intents that are not
 * observed yet. The scheduler applies the events of its watches; `muster why`, `q`, `queues` and `nodes` apply lists.
 * The result is the same, because it is a function of the objects and of the ledger.
 */
import { resourceKey } from "../../../model/intent.ts";
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
import { builtin } from "../../../model/resources.generated.ts";
import { isAtLeast, isLater, type Revision } from "../../../model/revision.ts";
import { type BindRequest, bindRequestRef } from "../../../model/scheduling/bindRequest.ts";
import { nodePoolOf } from "../../../model/scheduling/keys.ts";
import { type PodGroup, podGroupRef } from "../../../model/scheduling/podGroup.ts";
import { type Queue, queueRef } from "../../../model/scheduling/queue.ts";
import type { Topology } from "../../../model/scheduling/topology.ts";
import { AssumeCache } from "../../../snapshot/assumeCache.ts";
import type { KindChange, KindTable } from "../../../snapshot/kindTable.ts";
import { claimKeysOf, type DeviceModel } from "../../devices/deviceModel.ts";
import { ClaimDevices } from "../cluster/claimDevices.ts";
import { Cluster } from "../cluster/cluster.ts";
import type { DeviceClaims } from "../cluster/deviceClaims.ts";
import { onePerNode, type Place } from "../cluster/task.ts";
import type { Settings } from "../settings.ts";
import { PendingClaims } from "./pendingClaims.ts";
import { deletedPodOf, evictionKey, type PodEffect, podEffects, requestEffects, uidOfKey } from "./podEffects.ts";

/** The objects of each kind. */
export interface ClusterTables {
  readonly pods: KindTable<Pod>;
  readonly nodes: KindTable<Node>;
  readonly requests: KindTable<BindRequest>;
  readonly groups: KindTable<PodGroup>;
  readonly queues: KindTable<Queue>;
  /** PodGroups of `scheduling.k8s.io`; undefined where `formsPlainGangs` is off. */
  readonly plainGroups?: KindTable<PlainGroup>;
  readonly priorityClasses: KindTable<PriorityClass>;
  readonly topologies: KindTable<Topology>;
  readonly namespaces: KindTable<Namespace>;
  /** Undefined where they could not be listed: then a pod is not rejected for a missing ConfigMap. */
  readonly configMaps?: KindTable<ConfigMap>;
  readonly volumeClaims: KindTable<PersistentVolumeClaim>;
  readonly volumes: KindTable<PersistentVolume>;
  readonly classes: KindTable<StorageClass>;
  readonly csiNodes: KindTable<CSINode>;
  readonly budgets: KindTable<PodDisruptionBudget>;
}

export type ClusterKind = keyof ClusterTables;
type ObjectOf<K extends ClusterKind> = Required<ClusterTables>[K] extends KindTable<infer T> ? T : never;

/** The kinds of the device model that the cluster reads. */
export interface DeviceObjectsOf {
  readonly claims: ResourceClaim;
  readonly slices: ResourceSlice;
  readonly classes: DeviceClass;
  readonly rules: DeviceTaintRule;
}

export interface ClusterModelOptions {
  /** The device model. It observes each event before this model does. */
  readonly devices?: DeviceModel;
  /** Wraps the device allocator, for metrics. */
  readonly wrapDevices?: (devices: DeviceClaims) => DeviceClaims;
  /** Objects of every node pool count, and not only those of the pool that the settings name. */
  readonly isOfAllPools?: boolean;
  /** See `refolded`. */
  readonly like?: ClusterModel;
}

/** Callbacks for changes of the model that have no watch event. */
export interface ClusterListener {
  /** The pod counts on another node from now on. */
  onMoved?(uid: string): void;
  /** The GPU share of the pod is unconfirmed: its BindRequest has ended, and the share still counts. */
  onUnconfirmedShare?(uid: string): void;
  /** The devices that were chosen for the pod are unconfirmed: its BindRequest has ended, and they still count. */
  onUnconfirmedClaims?(uid: string): void;
  /** When the claims are observed up to this revision, `PendingClaims.releaseObserved` has to be called. */
  onClaimsEnded?(uid: string, endedAt: Revision): void;
  /** A device became free. */
  onFreed?(): void;
}

/** Applies the objects of one kind to the cluster. */
interface Fold<T> {
  put(object: T, key: string): void;
  remove(before: T, key: string): void;
}

/** Kinds whose objects have effects, or that intents are about. */
const assumedKinds: Readonly<Partial<Record<ClusterKind, string>>> = {
  pods: resourceKey(builtin.Pod),
  requests: resourceKey(bindRequestRef),
  nodes: resourceKey(builtin.Node),
  groups: resourceKey(podGroupRef),
  queues: resourceKey(queueRef),
};

export class ClusterModel {
  readonly cluster: Cluster;
  readonly tables: ClusterTables;
  /** The nodes of pods, with the ledger of in-flight intents. */
  readonly assumeCache: AssumeCache<PodEffect>;
  readonly pendingClaims: PendingClaims | undefined;
  listener: ClusterListener = {};
  /** Called after each cycle that decided from this model, with the time of the cycle. */
  onDecided: (nowMs: number) => void = () => {};
  readonly devices: DeviceModel | undefined;
  private readonly folds: { readonly [K in ClusterKind]-?: Fold<ObjectOf<K>> };
  private readonly isOfAllPools: boolean;
  /** Pods whose place may have changed. */
  private readonly dirty = new Set<string>();
  /** Pods whose chosen devices may have changed. */
  private readonly dirtyClaims = new Set<string>();
  /**
   * GPU shares whose BindRequest has ended while the cache of pods may be older: the binder may have created a
   * reservation pod. They count until a list has shown which reservations exist.
   */
  private readonly unconfirmed = new Map<string, readonly Place[]>();
  /**
   * Pods as this process has written them, by UID, until the watch has reached the revision of the write: the states
   * that it shows before are older.
   */
  private readonly own = new Map<string, Pod>();
  /** Deleted pods whose BindRequest for a GPU share still exists. */
  private readonly deletedPods = new Map<string, Pod>();

  constructor(tables: ClusterTables, settings: Settings, options: ClusterModelOptions = {}) {
    this.cluster = new Cluster(settings);
    this.tables = tables;
    this.devices = options.devices;
    this.isOfAllPools = options.isOfAllPools ?? false;
    this.assumeCache = new AssumeCache<PodEffect>(
      {
        [resourceKey(builtin.Pod)]: { table: tables.pods, effects: podEffects },
        [resourceKey(bindRequestRef)]: { table: tables.requests, effects: requestEffects },
        [resourceKey(builtin.Node)]: { table: tables.nodes },
        [resourceKey(podGroupRef)]: { table: tables.groups },
        [resourceKey(queueRef)]: { table: tables.queues },
      },
      {
        onEffect: (key) => {
          this.moved(uidOfKey(key));
          this.dirtyClaims.add(key);
        },
        ...(options.like && { like: options.like.assumeCache }),
      },
    );
    this.folds = this.createFolds();
    for (const kind of Object.keys(this.folds) as ClusterKind[]) {
      const { put } = this.folds[kind] as Fold<KubeObject>;
      for (const [key, object] of tables[kind]?.view().objects ?? []) put(object, key);
    }
    this.pendingClaims =
      options.devices === undefined ? undefined : this.followDevices(options.devices, options.wrapDevices);
    if (options.like !== undefined) this.adopt(options.like);
    this.applyAssumedClaims();
  }

  /**
   * For checks: the same cluster, folded again from the tables. State that is in no table (the ledger, own writes that
   * the watch has not shown, unconfirmed shares and devices) is copied.
   */
  refolded(): ClusterModel {
    const devices = this.devices?.refolded();
    const { settings } = this.cluster;
    const { isOfAllPools } = this;
    const fresh = new ClusterModel(this.tables, settings, { ...(devices && { devices }), isOfAllPools, like: this });
    fresh.applyAssumed();
    return fresh;
  }

  /** An event was applied to the table of the kind, and these are its changes. */
  observed<K extends ClusterKind>(kind: K, changes: readonly KindChange<ObjectOf<K>>[], isNewList: boolean): void {
    const { put, remove } = this.folds[kind] as Fold<ObjectOf<K>>;
    const problems: unknown[] = [];
    for (const change of changes) {
      // An object that cannot be folded does not prevent the others.
      try {
        if (kind === "requests") this.requestChanged(change as KindChange<BindRequest>);
        if (change.type === "deleted") remove(change.before, change.key);
        else put(change.object, change.key);
      } catch (problem) {
        problems.push(problem);
      }
    }
    const resource = assumedKinds[kind];
    if (resource !== undefined) {
      this.assumeCache.observed(resource, changes, isNewList);
      this.applyAssumedClaims();
    }
    if (kind === "pods") this.claimUsersChanged(changes as readonly KindChange<Pod>[]);
    if (problems.length > 0) throw new AggregateError(problems, `${problems.length} of ${kind} cannot be folded`);
  }

  /** The device model has observed these changes. */
  observedDevices<K extends keyof DeviceObjectsOf>(kind: K, changes: readonly KindChange<DeviceObjectsOf[K]>[]): void {
    const { cluster, devices } = this;
    if (devices === undefined) return;
    if (changes.length > 0) cluster.changes.note();
    if (kind === "claims") {
      for (const { key } of changes) this.usersChanged(key);
      this.pendingClaims?.claimsChanged();
    }
    if (kind === "classes") cluster.setServedResources(devices.extendedResources().names);
    if (kind !== "slices") return;
    for (const { object } of changes) {
      const { nodeName } = (object as ResourceSlice).spec;
      if (nodeName !== undefined) cluster.setSlices(nodeName, devices.slicesOn(nodeName));
    }
  }

  /**
   * Reports the chosen devices to `PendingClaims`, and so to the ClaimTracker: every other allocator in the process
   * sees them at once.
   */
  applyAssumedClaims(): void {
    const { pendingClaims } = this;
    for (const key of this.dirtyClaims) {
      // From the assume cache, and not from the pod's spec: a BindRequest with an extended resource may be observed
      // before its DeviceClass.
      const marks = pendingClaims === undefined ? [] : this.assumeCache.values(key);
      const chosen = marks.flatMap((mark) => ("claims" in mark ? (mark.claims ?? []) : []));
      pendingClaims?.set(key, chosen);
    }
    this.dirtyClaims.clear();
    pendingClaims?.recountUnresolved();
  }

  /** Records a pod as this process has just written it. A nomination counts at once, before the watch shows it. */
  wrote(pod: Pod): void {
    const { namespace = "", name, uid, resourceVersion } = pod.metadata;
    const shown = this.tables.pods.get(`${namespace}/${name}`);
    if (shown?.metadata.uid !== uid || isLater(shown.metadata.resourceVersion, resourceVersion)) return;
    this.own.set(uid, pod);
    this.cluster.putPod(pod);
    this.dirty.add(uid);
  }

  /** The unconfirmed GPU shares of a pod, one for each BindRequest that has ended. */
  unconfirmedShares(uid: string): readonly Place[] {
    return this.unconfirmed.get(uid) ?? [];
  }

  /** The cache of pods shows whether reservations exist for these shares of the pod: they no longer count. */
  confirmShares(uid: string, shares: readonly Place[]): void {
    const left = this.unconfirmedShares(uid).filter((share) => !shares.includes(share));
    if (left.length === 0) this.unconfirmed.delete(uid);
    else this.unconfirmed.set(uid, left);
    this.moved(uid);
  }

  /**
   * Updates the nodes of changed pods from the assume cache; returns the revision that the cluster is complete up to.
   */
  applyAssumed(): Revision {
    for (const uid of this.dirty) {
      const deletedPod = this.deletedPods.get(uid);
      if (deletedPod !== undefined && !this.holdsShares(uid)) this.podGone(deletedPod);
      const places = this.assumeCache.values(uid).filter((mark): mark is Place => "node" in mark);
      const isBeingEvicted = this.assumeCache.values(evictionKey(uid)).length > 0;
      this.cluster.setPlaces(uid, withShares(places, this.unconfirmedShares(uid)), isBeingEvicted);
    }
    this.dirty.clear();
    this.applyAssumedClaims();
    return this.assumeCache.snapshot().revision;
  }

  private adopt({ cluster, own, deletedPods, unconfirmed, pendingClaims }: ClusterModel): void {
    for (const pod of own.values()) this.wrote(pod);
    for (const [uid, shares] of unconfirmed) {
      this.unconfirmed.set(uid, shares);
      this.moved(uid);
    }
    for (const deletedPod of deletedPods.values()) this.podGone(deletedPod);
    if (pendingClaims !== undefined) this.pendingClaims?.adopt(pendingClaims);
    this.cluster.adopt(cluster);
  }

  private isOurs(object: KubeObject): boolean {
    return this.isOfAllPools || nodePoolOf(object) === this.cluster.settings.nodePool;
  }

  /** Of kinds that belong to a node pool only those of our pool count. */
  private inPool<T extends KubeObject>({ put, remove }: Fold<T>): Fold<T> {
    return { put: (object, key) => (this.isOurs(object) ? put(object, key) : remove(object, key)), remove };
  }

  private createFolds(): ClusterModel["folds"] {
    const { cluster } = this;
    const { queuesOfOtherPools } = cluster;
    const configMaps = new Set<string>();
    if (this.tables.configMaps !== undefined) cluster.configMaps = configMaps;
    return {
      nodes: this.inPool({ put: (node) => cluster.putNode(node), remove: (_, name) => cluster.removeNode(name) }),
      queues: {
        put: (queue, name) => {
          if (this.isOurs(queue)) {
            queuesOfOtherPools.delete(name);
            cluster.putQueue(queue);
          } else {
            cluster.removeQueue(name);
            queuesOfOtherPools.set(name, nodePoolOf(queue));
          }
        },
        remove: (_, name) => {
          queuesOfOtherPools.delete(name);
          cluster.removeQueue(name);
        },
      },
      groups: this.inPool({
        put: (group) => cluster.putPodGroup(group),
        remove: (_, key) => cluster.removePodGroup(key),
      }),
      pods: { put: (pod) => this.putPod(pod), remove: (pod) => this.removePod(pod) },
      // After the pods: for a deleted pod, its BindRequest is all that is known.
      requests: { put: (request) => this.noteDeletedPod(request), remove: () => {} },
      plainGroups: {
        put: (group) => cluster.putPlainGroup(group),
        remove: (_, key) => cluster.removePlainGroup(key),
      },
      priorityClasses: {
        put: (each) => cluster.putPriorityClass(each),
        remove: (_, name) => cluster.removePriorityClass(name),
      },
      topologies: {
        put: (topology) => cluster.putTopology(topology),
        remove: (_, name) => cluster.removeTopology(name),
      },
      namespaces: {
        put: ({ metadata }) => cluster.putNamespace(metadata.name, metadata.labels ?? {}),
        remove: (_, name) => cluster.removeNamespace(name),
      },
      configMaps: {
        put: (_, key) => {
          if (configMaps.has(key)) return;
          configMaps.add(key);
          cluster.configMapChanged(key);
        },
        remove: (_, key) => {
          if (configMaps.delete(key)) cluster.configMapChanged(key);
        },
      },
      volumeClaims: kept(cluster.volumes.volumeClaims),
      volumes: kept(cluster.volumes.volumes),
      classes: kept(cluster.volumes.classes),
      csiNodes: kept(cluster.volumes.csiNodes),
      // Budgets influence which victims are chosen, not whether there are any: a change needs no new cycle.
      budgets: kept(cluster.budgets.byKey),
    };
  }

  private putPod(pod: Pod): void {
    const { uid, resourceVersion } = pod.metadata;
    const own = this.own.get(uid);
    if (own !== undefined && isLater(own.metadata.resourceVersion, resourceVersion)) return;
    this.own.delete(uid);
    this.deletedPods.delete(uid);
    this.cluster.putPod(pod);
    this.dirty.add(uid);
  }

  private removePod(pod: Pod): void {
    this.own.delete(pod.metadata.uid);
    this.podGone(pod);
  }

  /**
   * A deleted pod holds nothing. But while its BindRequest for a GPU share exists, the binder may not have observed the
   * deletion, and may still reserve a GPU for the pod.
   */
  private podGone(pod: Pod): void {
    const { uid } = pod.metadata;
    if (!this.holdsShares(uid)) {
      this.deletedPods.delete(uid);
      this.cluster.removePod(uid);
      return;
    }
    this.deletedPods.set(uid, pod);
    this.dirty.add(uid);
    const deletionTimestamp = pod.metadata.deletionTimestamp ?? pod.metadata.creationTimestamp;
    this.cluster.putPod({ ...pod, metadata: { ...pod.metadata, deletionTimestamp } } as Pod);
  }

  /** The pod of a BindRequest may have been deleted unobserved: it is reconstructed from the BindRequest. */
  private noteDeletedPod(request: BindRequest): void {
    const [effect] = requestEffects(request);
    if (effect === undefined || this.cluster.tasks.has(effect.key)) return;
    if (!("node" in effect.value) || effect.value.groups.length === 0) return;
    const deletedPod = deletedPodOf(request, effect.key);
    this.deletedPods.set(effect.key, deletedPod);
    this.cluster.putPod(deletedPod);
    this.moved(effect.key);
  }

  /**
   * When a BindRequest ends, its place is unconfirmed until its pod is observed to be bound: the pod may be bound
   * there, and its share may be reserved, without having been observed.
   */
  private requestChanged(change: KindChange<BindRequest>): void {
    if (change.type === "added") return;
    const after = change.type === "deleted" ? [] : requestEffects(change.object);
    const [before] = requestEffects(change.before);
    if (before === undefined || after.length > 0 || !("node" in before.value)) return;
    const { node, groups } = before.value;
    // A BindRequest may be garbage-collected with its owner before the watch of pods has shown the bind.
    const isBound = this.cluster.tasks.get(before.key)?.pod.spec?.nodeName === node;
    const isPast = isAtLeast(this.tables.pods.revision, change.before.metadata.resourceVersion);
    if (change.before.status?.phase === "Succeeded" && (isBound || isPast)) return;
    const isSame = (share: Place): boolean => share.node === node && share.groups.join() === groups.join();
    const others = this.unconfirmedShares(before.key).filter((share) => !isSame(share));
    this.unconfirmed.set(before.key, [...others, before.value]);
    this.moved(before.key);
    this.listener.onUnconfirmedShare?.(before.key);
  }

  private moved(uid: string): void {
    this.dirty.add(uid);
    this.listener.onMoved?.(uid);
  }

  private holdsShares(uid: string): boolean {
    return (
      this.assumeCache.values(uid).some((mark) => "node" in mark && mark.groups.length > 0) || this.unconfirmed.has(uid)
    );
  }

  /** Connects the device model: the cluster searches its devices, and chosen devices count. */
  private followDevices(devices: DeviceModel, wrapDevices: ClusterModelOptions["wrapDevices"]): PendingClaims {
    const { cluster } = this;
    const claimDevices = new ClaimDevices({
      view: (nowMs) => devices.view(nowMs),
      onDevice: (device) => cluster.deviceChanged(device),
      usersOf: ({ metadata }) => devices.podsByClaim.get(`${metadata.namespace ?? ""}/${metadata.name}`),
      departedPods: () => devices.departedPods(),
    });
    cluster.devices = wrapDevices?.(claimDevices) ?? claimDevices;
    cluster.setServedResources(devices.extendedResources().names);
    for (const node of devices.nodes()) cluster.setSlices(node, devices.slicesOn(node));
    devices.onDevice((device) => cluster.deviceChanged(device));
    // The BindRequest of a pod may still exist: then the binder may write the device again.
    devices.onClaim((claimKey) => this.usersChanged(claimKey));
    devices.onFreed(() => {
      cluster.changes.note();
      this.listener.onFreed?.();
    });
    return new PendingClaims(devices, {
      podOf: (uid) => cluster.tasks.get(uid)?.pod,
      requestsRevision: () => this.tables.requests.revision,
      onUnconfirmed: (uid) => this.listener.onUnconfirmedClaims?.(uid),
      onEnded: (uid, endedAt) => this.listener.onClaimsEnded?.(uid, endedAt),
    });
  }

  /** A claim that several pods share is charged to one of them: a change of its users may change which one. */
  private claimUsersChanged(changes: readonly KindChange<Pod>[]): void {
    if (this.devices === undefined) return;
    for (const { object } of changes) {
      this.pendingClaims?.changed(object.metadata.uid);
      for (const { resourceClaimName } of object.spec?.resourceClaims ?? []) {
        if (resourceClaimName !== undefined)
          this.usersChanged(`${object.metadata.namespace ?? ""}/${resourceClaimName}`);
      }
    }
  }

  private usersChanged(claimKey: string): void {
    for (const { metadata } of this.devices?.podsByClaim.get(claimKey) ?? []) {
      this.cluster.claimsChanged(metadata.uid);
      this.pendingClaims?.changed(metadata.uid);
    }
    for (const deletedPod of this.deletedPods.values()) {
      if (claimKeysOf(deletedPod).includes(claimKey)) this.cluster.claimsChanged(deletedPod.metadata.uid);
    }
  }
}

/**
 * The places of a pod with its unconfirmed GPU shares: first the nodes with an unconfirmed share alone; on a node with
 * both, the groups of both.
 */
function withShares(places: readonly Place[], shares: readonly Place[]): readonly Place[] {
  if (shares.length === 0) return places;
  const groupsOn = new Map<string, Set<string>>();
  for (const { node, groups } of shares) groupsOn.set(node, new Set([...(groupsOn.get(node) ?? []), ...groups]));
  const placed = onePerNode(places).map(({ node, groups, volumes }) => {
    const all = new Set([...groups, ...(groupsOn.get(node) ?? [])]);
    groupsOn.delete(node);
    return { node, groups: [...all].sort(), ...(volumes && { volumes }) };
  });
  return [...[...groupsOn].map(([node, groups]) => ({ node, groups: [...groups].sort() })), ...placed];
}

/** Objects that a decision reads directly. */
function kept<T extends KubeObject>(map: Map<string, T>): Fold<T> {
  return { put: (object, key) => void map.set(key, object), remove: (_, key) => void map.delete(key) };
}

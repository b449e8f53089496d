/**
 * One cluster, folded once: the objects of every kind that decides, and what was decided and is not observed yet. The
 * scheduler feeds it the events of its watches; `muster why`, `q`, `queues` and `nodes` feed it lists. The result is
 * the same, because it is a function of the objects and of the ledger.
 */
import { kindOf } from "../../../model/intent.ts";
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
import { isLater, type Revision } from "../../../model/revision.ts";
import { type BindRequest, bindRequestRef } from "../../../model/scheduling/bindRequest.ts";
import { nodePoolOf } from "../../../model/scheduling/keys.ts";
import { type PodGroup, podGroupRef } from "../../../model/scheduling/podGroup.ts";
import { type Queue, queueRef } from "../../../model/scheduling/queue.ts";
import type { Topology } from "../../../model/scheduling/topology.ts";
import type { KindChange, KindTable } from "../../../snapshot/kindTable.ts";
import { Picture } from "../../../snapshot/picture.ts";
import type { DeviceModel } from "../../devices/deviceModel.ts";
import { ClaimDevices } from "../cluster/claimDevices.ts";
import { Cluster } from "../cluster/cluster.ts";
import type { DeviceClaims } from "../cluster/deviceClaims.ts";
import { FactSet } from "../cluster/facts.ts";
import type { Place } from "../cluster/task.ts";
import type { Settings } from "../settings.ts";
import { evictionKey, ghostOf, type Mark, podEffects, requestEffects } from "./marks.ts";
import { PendingClaims } from "./pendingClaims.ts";

/** What is known of each kind. */
export interface ClusterTables {
  readonly pods: KindTable<Pod>;
  readonly nodes: KindTable<Node>;
  readonly requests: KindTable<BindRequest>;
  readonly groups: KindTable<PodGroup>;
  readonly queues: KindTable<Queue>;
  /** Groups of Kubernetes' own kind, where gangs are formed of them. */
  readonly plainGroups?: KindTable<PlainGroup>;
  readonly priorityClasses: KindTable<PriorityClass>;
  readonly topologies: KindTable<Topology>;
  readonly namespaces: KindTable<Namespace>;
  /** Undefined where they could not be read: then a pod is not refused for the lack of one. */
  readonly configMaps?: KindTable<ConfigMap>;
  readonly claims: KindTable<PersistentVolumeClaim>;
  readonly volumes: KindTable<PersistentVolume>;
  readonly classes: KindTable<StorageClass>;
  readonly csiNodes: KindTable<CSINode>;
  readonly budgets: KindTable<PodDisruptionBudget>;
}

export type ClusterKind = keyof ClusterTables;
type ObjectOf<K extends ClusterKind> = Required<ClusterTables>[K] extends KindTable<infer T> ? T : never;

/** What the kinds of the device model mean for the cluster. */
export interface DeviceObjectsOf {
  readonly claims: ResourceClaim;
  readonly slices: ResourceSlice;
  readonly classes: DeviceClass;
  readonly rules: DeviceTaintRule;
}

export interface ClusterModelOptions {
  /** Folded before this model observes the same event. */
  readonly devices?: DeviceModel;
  /** Measures what is asked about devices. */
  readonly around?: (devices: DeviceClaims) => DeviceClaims;
  /** Objects of every node pool count, and not only those of the pool that the settings name. */
  readonly isOfAllPools?: boolean;
  /** See `refolded`. */
  readonly like?: ClusterModel;
}

/** Told of what happens in the model without an event of its own. */
export interface ClusterListener {
  /** The pod counts somewhere else from now on. */
  onMoved?(uid: string): void;
  /** The GPU share of the pod counts though its request has ended. */
  onLingering?(uid: string): void;
  /** The devices chosen for the pod count though its request has ended. */
  onLingeringClaims?(uid: string): void;
  /** When the claims are observed up to this revision, `PendingClaims.letGoOfShown` has to be called. */
  onClaimsEnded?(uid: string, endedAt: Revision): void;
  /** A device became free. */
  onFreed?(): void;
}

/** How the objects of one kind get into the cluster. */
interface Fold<T> {
  put(object: T, key: string): void;
  remove(before: T, key: string): void;
}

/** Kinds whose objects hold something, or that intents are about. */
const counted: Readonly<Partial<Record<ClusterKind, string>>> = {
  pods: kindOf(builtin.Pod),
  requests: kindOf(bindRequestRef),
  nodes: kindOf(builtin.Node),
  groups: kindOf(podGroupRef),
  queues: kindOf(queueRef),
};

export class ClusterModel {
  readonly cluster: Cluster;
  readonly tables: ClusterTables;
  /** Where pods are, with the ledger of what was decided and is not observed yet. */
  readonly picture: Picture<Mark>;
  readonly pendingClaims: PendingClaims | undefined;
  listener: ClusterListener = {};
  /** A cycle has decided from it at this time. */
  onDecided: (nowMs: number) => void = () => {};
  readonly devices: DeviceModel | undefined;
  private readonly folds: { readonly [K in ClusterKind]-?: Fold<ObjectOf<K>> };
  private readonly isOfAllPools: boolean;
  /** Pods whose place may have changed. */
  private readonly dirty = new Set<string>();
  /** Pods whose chosen devices may have changed. */
  private readonly dirtyClaims = new Set<string>();
  /**
   * GPU shares whose BindRequest has ended while the pods may be known up to an earlier revision: the binder may have
   * created a reservation pod. They count until a list has shown which reservations exist.
   */
  private readonly lingering = new Map<string, Place>();
  /**
   * Pods as our own writes that decide have left them, by UID, until the watch has come so far: what it shows before is
   * the past.
   */
  private readonly own = new Map<string, Pod>();
  /** Pods that are gone, and whose request for a share is not. */
  private readonly ghosts = new Map<string, Pod>();

  constructor(tables: ClusterTables, settings: Settings, options: ClusterModelOptions = {}) {
    this.cluster = new Cluster(settings);
    this.tables = tables;
    this.devices = options.devices;
    this.isOfAllPools = options.isOfAllPools ?? false;
    this.picture = new Picture<Mark>(
      {
        [kindOf(builtin.Pod)]: { table: tables.pods, effects: podEffects },
        [kindOf(bindRequestRef)]: { table: tables.requests, effects: requestEffects },
        [kindOf(builtin.Node)]: { table: tables.nodes },
        [kindOf(podGroupRef)]: { table: tables.groups },
        [kindOf(queueRef)]: { table: tables.queues },
      },
      {
        onEffect: (key) => {
          this.moved(key.endsWith("!") ? key.slice(0, -1) : key);
          this.dirtyClaims.add(key);
        },
        ...(options.like && { like: options.like.picture }),
      },
    );
    this.folds = this.createFolds();
    for (const kind of Object.keys(this.folds) as ClusterKind[]) {
      const { put } = this.folds[kind] as Fold<KubeObject>;
      for (const [key, object] of tables[kind]?.view().objects ?? []) put(object, key);
    }
    this.pendingClaims =
      options.devices === undefined ? undefined : this.followDevices(options.devices, options.around);
    if (options.like !== undefined) this.adopt(options.like);
    this.settleClaims();
  }

  /**
   * For checks: the same cluster, folded anew from the tables. What no table shows (the ledger, our own writes that the
   * watch has not shown, what lingers) is taken over.
   */
  refolded(): ClusterModel {
    const devices = this.devices?.refolded();
    const { settings } = this.cluster;
    const { isOfAllPools } = this;
    const fresh = new ClusterModel(this.tables, settings, { ...(devices && { devices }), isOfAllPools, like: this });
    fresh.settle();
    return fresh;
  }

  /** An event was applied to the table of the kind, and these are its changes. */
  observed<K extends ClusterKind>(kind: K, changes: readonly KindChange<ObjectOf<K>>[], isNewList: boolean): void {
    const { put, remove } = this.folds[kind] as Fold<ObjectOf<K>>;
    const problems: unknown[] = [];
    for (const change of changes) {
      // An object that cannot be folded keeps no other one out.
      try {
        if (kind === "requests") this.requestChanged(change as KindChange<BindRequest>);
        if (change.type === "deleted") remove(change.before, change.key);
        else put(change.object, change.key);
      } catch (problem) {
        problems.push(problem);
      }
    }
    const resource = counted[kind];
    if (resource !== undefined) {
      this.picture.observed(resource, changes, isNewList);
      this.settleClaims();
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
    if (kind === "classes") cluster.setServed(devices.extendedResources().names);
    if (kind !== "slices") return;
    for (const { object } of changes) {
      const { nodeName } = (object as ResourceSlice).spec;
      if (nodeName !== undefined) cluster.setSlices(nodeName, devices.slicesOn(nodeName));
    }
  }

  /** Every other allocator in the process must see at once which devices were chosen here. */
  settleClaims(): void {
    const { pendingClaims } = this;
    for (const key of this.dirtyClaims) {
      // Not by the pod's shape: a request for a resource that devices serve may be known before the class that says so.
      const marks = pendingClaims === undefined ? [] : this.picture.values(key);
      const chosen = marks.flatMap((mark) => ("claims" in mark ? (mark.claims ?? []) : []));
      pendingClaims?.set(key, chosen);
    }
    this.dirtyClaims.clear();
    pendingClaims?.settleUnsettled();
  }

  /** A pod as this process has just written it. A nomination counts from here on, and not when the watch shows it. */
  wrote(pod: Pod): void {
    const { namespace = "", name, uid, resourceVersion } = pod.metadata;
    const shown = this.tables.pods.get(`${namespace}/${name}`);
    if (shown?.metadata.uid !== uid || isLater(shown.metadata.resourceVersion, resourceVersion)) return;
    this.own.set(uid, pod);
    this.cluster.putPod(pod);
    this.dirty.add(uid);
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
    this.settleClaims();
    return this.picture.snapshot().revision;
  }

  private adopt({ own, ghosts, lingering, pendingClaims }: ClusterModel): void {
    for (const pod of own.values()) this.wrote(pod);
    for (const [uid, place] of lingering) {
      this.lingering.set(uid, place);
      this.moved(uid);
    }
    for (const ghost of ghosts.values()) this.podGone(ghost);
    if (pendingClaims !== undefined) this.pendingClaims?.adopt(pendingClaims);
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
    const { queuesElsewhere } = cluster;
    const configMaps = new FactSet<string>(cluster.changes);
    if (this.tables.configMaps !== undefined) cluster.configMaps = configMaps;
    return {
      nodes: this.inPool({ put: (node) => cluster.putNode(node), remove: (_, name) => cluster.removeNode(name) }),
      queues: {
        put: (queue, name) => {
          if (this.isOurs(queue)) {
            queuesElsewhere.delete(name);
            cluster.putQueue(queue);
          } else {
            cluster.removeQueue(name);
            queuesElsewhere.set(name, nodePoolOf(queue));
          }
        },
        remove: (_, name) => {
          queuesElsewhere.delete(name);
          cluster.removeQueue(name);
        },
      },
      groups: this.inPool({
        put: (group) => cluster.putPodGroup(group),
        remove: (_, key) => cluster.removePodGroup(key),
      }),
      pods: { put: (pod) => this.putPod(pod), remove: (pod) => this.removePod(pod) },
      // After the pods: a request whose pod is not among them is all that is known of it.
      requests: { put: (request) => this.noteGhost(request), remove: () => {} },
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
      configMaps: { put: (_, key) => void configMaps.add(key), remove: (_, key) => void configMaps.delete(key) },
      claims: kept(cluster.volumes.claims),
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
    this.ghosts.delete(uid);
    this.cluster.putPod(pod);
    this.dirty.add(uid);
  }

  private removePod(pod: Pod): void {
    this.own.delete(pod.metadata.uid);
    this.podGone(pod);
  }

  /**
   * A pod that is gone holds nothing; but while its request for a GPU share exists, the binder may not have observed
   * that, and may still reserve a GPU for it.
   */
  private podGone(pod: Pod): void {
    const { uid } = pod.metadata;
    if (!this.sharesOf(uid)) {
      this.ghosts.delete(uid);
      this.cluster.removePod(uid);
      return;
    }
    this.ghosts.set(uid, pod);
    this.dirty.add(uid);
    const deletionTimestamp = pod.metadata.deletionTimestamp ?? pod.metadata.creationTimestamp;
    this.cluster.putPod({ ...pod, metadata: { ...pod.metadata, deletionTimestamp } } as Pod);
  }

  /** The pod of a request may have gone unobserved: what is known of it is the request. */
  private noteGhost(request: BindRequest): void {
    const [effect] = requestEffects(request);
    if (effect === undefined || this.cluster.tasks.has(effect.key)) return;
    if (!("node" in effect.value) || effect.value.groups.length === 0) return;
    const ghost = ghostOf(request, effect.key);
    this.ghosts.set(effect.key, ghost);
    this.cluster.putPod(ghost);
    this.moved(effect.key);
  }

  /** A request for a GPU share that ends, and was not seen to succeed, leaves the share in doubt. */
  private requestChanged(change: KindChange<BindRequest>): void {
    if (change.type === "added") return;
    const after = change.type === "deleted" ? [] : requestEffects(change.object);
    const [before] = requestEffects(change.before);
    if (before === undefined || after.length > 0 || !("node" in before.value)) return;
    const hasSucceeded = change.before.status?.phase === "Succeeded";
    if (before.value.groups.length === 0 || hasSucceeded) return;
    this.lingering.set(before.key, before.value);
    this.moved(before.key);
    this.listener.onLingering?.(before.key);
  }

  private moved(uid: string): void {
    this.dirty.add(uid);
    this.listener.onMoved?.(uid);
  }

  private sharesOf(uid: string): boolean {
    return this.picture.values(uid).some((mark) => "node" in mark && mark.groups.length > 0) || this.lingering.has(uid);
  }

  /** Lets the cluster search devices, and counts those that are chosen. */
  private followDevices(devices: DeviceModel, around: ClusterModelOptions["around"]): PendingClaims {
    const { cluster } = this;
    const found = new ClaimDevices({
      view: (nowMs) => devices.view(nowMs),
      onDevice: (device) => cluster.deviceChanged(device),
      usersOf: ({ metadata }) => devices.podsByClaim.get(`${metadata.namespace ?? ""}/${metadata.name}`),
      departed: () => devices.departed(),
    });
    cluster.devices = around?.(found) ?? found;
    cluster.setServed(devices.extendedResources().names);
    for (const node of devices.nodes()) cluster.setSlices(node, devices.slicesOn(node));
    devices.onDevice((device) => cluster.deviceChanged(device));
    // The request of a pod may be there still: then the binder may write the device again.
    devices.onReleased((claimKey) => this.usersChanged(claimKey));
    devices.onFreed(() => {
      cluster.changes.note();
      this.listener.onFreed?.();
    });
    return new PendingClaims(devices, {
      podOf: (uid) => cluster.tasks.get(uid)?.pod,
      requestsRevision: () => this.tables.requests.revision,
      onLingering: (uid) => this.listener.onLingeringClaims?.(uid),
      onEnded: (uid, endedAt) => this.listener.onClaimsEnded?.(uid, endedAt),
    });
  }

  /** Pods that share a claim count for a part of its GPUs each. */
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
  }
}

/** Objects that are read as they are, when a decision is taken. */
function kept<T extends KubeObject>(map: Map<string, T>): Fold<T> {
  return { put: (object, key) => void map.set(key, object), remove: (_, key) => void map.delete(key) };
}

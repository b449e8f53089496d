/**
 * What the gang operator reads: the caches, their indexes, and the assume cache, which includes decided writes that are
 * not observed yet.
 */

import type { NodeOf } from "../../decide/gang/cliques/lostPods.ts";
import type { AbsentAt } from "../../decide/gang/gangDraft.ts";
import type { ReconcileFailure } from "../../decide/gang/reconcileEvents.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { gangResources, labels, managedByValue } from "../../model/gang/keys.ts";
import { setReplicaOf } from "../../model/gang/setFacts.ts";
import type { GangSettings } from "../../model/gang/settings.ts";
import type {
  ClusterTopologyBinding,
  PodClique,
  PodCliqueScalingGroup,
  PodCliqueSet,
  PodGang,
} from "../../model/gang/types.ts";
import { keyOf, type NewObject, resourceKey } from "../../model/intent.ts";
import type {
  HorizontalPodAutoscaler,
  Node,
  Pod,
  ResourceClaim,
  ResourceClaimTemplate,
  Secret,
  Service,
} from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject, ObjectMeta, OwnerReference } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { PodGroup } from "../../model/scheduling/podGroup.ts";
import type { Topology } from "../../model/scheduling/topology.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { AssumeCache } from "../../snapshot/assumeCache.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Selection } from "../cache/reflector.ts";
import { assumeCacheOf } from "../runtime/assumeCacheOf.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { EventRecorder } from "../runtime/eventRecorder.ts";
import { InFlightWrites } from "../runtime/inFlightWrites.ts";
import type { OncePerEpoch } from "../runtime/oncePerEpoch.ts";
import { Channel } from "../runtime/sources.ts";
import { gangTakeOver } from "./gangTakeOver.ts";

/** The reporter of the Events of the gang operator. */
export const gangReporter = { controller: "muster.dev/gang", instance: "muster" } as const;

/** A pod that counts for its clique: observed by the watch, or created by a write that is not observed yet. */
export type Presence = "live" | "gone";

export const nodePlace = builtin.Node;

/** `namespace/set` and `namespace/set#replica`. */
export const replicaKey = (setKey: string, replica: number): string => `${setKey}#${replica}`;

export function splitReplicaKey(key: string): { readonly setKey: string; readonly replica: number } {
  const at = key.lastIndexOf("#");
  return { setKey: key.slice(0, at), replica: Number(key.slice(at + 1)) };
}

export function setKeyOf({ metadata }: { metadata: ObjectMeta }): string | undefined {
  const set = metadata.labels?.[labels.partOf];
  if (set === undefined || metadata.labels?.[labels.managedBy] !== managedByValue) return undefined;
  return keyOf(metadata.namespace, set);
}

export function setReplicaKeyOf(object: { metadata: ObjectMeta }): string | undefined {
  const setKey = setKeyOf(object);
  const replica = setReplicaOf(object);
  return setKey === undefined || replica === undefined ? undefined : replicaKey(setKey, replica);
}

export function controllerRef({ metadata }: { metadata: ObjectMeta }): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true);
}

const listed = (value: string | undefined): readonly string[] => (value === undefined ? [] : [value]);
const bySet = (object: KubeObject): readonly string[] => listed(setKeyOf(object));
const byReplica = (object: KubeObject): readonly string[] => listed(setReplicaKeyOf(object));
const byOwner = (object: KubeObject): readonly string[] => listed(controllerRef(object)?.uid);
const byAnyOwner = ({ metadata }: KubeObject): readonly string[] =>
  (metadata.ownerReferences ?? []).map(({ uid }) => uid);

export class GangCaches {
  readonly controllers: Controllers;
  readonly settings: GangSettings;
  readonly sets: ObjectCache<PodCliqueSet>;
  readonly cliques: ObjectCache<PodClique>;
  readonly groups: ObjectCache<PodCliqueScalingGroup>;
  readonly podGangs: ObjectCache<PodGang>;
  readonly bindings: ObjectCache<ClusterTopologyBinding>;
  readonly pods: ObjectCache<Pod>;
  /** Read, never written: a pod on a node that is gone or silent is lost. */
  readonly nodes: ObjectCache<Node>;
  readonly services: ObjectCache<Service>;
  readonly autoscalers: ObjectCache<HorizontalPodAutoscaler>;
  readonly claims: ObjectCache<ResourceClaim>;
  readonly claimTemplates: ObjectCache<ResourceClaimTemplate>;
  readonly accounts: Readonly<Record<string, ObjectCache>>;
  /** Only where Muster's scheduler is enabled. */
  readonly podGroups: ObjectCache<PodGroup> | undefined;
  readonly topologies: ObjectCache<Topology> | undefined;
  /** Enqueues sets in their own reconciler. */
  readonly setsAgain = new Channel();
  readonly assumeCache: AssumeCache<Presence>;
  readonly inFlight: InFlightWrites<Presence>;
  readonly recorder: EventRecorder;
  readonly takeOver: OncePerEpoch;

  readonly podsByOwner: ObjectIndex<Pod>;
  readonly podsByReplica: ObjectIndex<Pod>;
  readonly podsByGang: ObjectIndex<Pod>;
  readonly podsByNode: ObjectIndex<Pod>;
  readonly cliquesBySet: ObjectIndex<PodClique>;
  readonly cliquesByReplica: ObjectIndex<PodClique>;
  readonly cliquesByOwner: ObjectIndex<PodClique>;
  readonly cliquesByBase: ObjectIndex<PodClique>;
  readonly groupsBySet: ObjectIndex<PodCliqueScalingGroup>;
  readonly groupsByReplica: ObjectIndex<PodCliqueScalingGroup>;
  readonly podGangsBySet: ObjectIndex<PodGang>;
  readonly podGangsByReplica: ObjectIndex<PodGang>;
  readonly servicesBySet: ObjectIndex<Service>;
  readonly autoscalersBySet: ObjectIndex<HorizontalPodAutoscaler>;
  readonly claimsByOwner: ObjectIndex<ResourceClaim>;

  /** Failures of reconciles, by the UID of the object and then by reconcile key. */
  private readonly failures = new Map<string, Map<string, readonly ReconcileFailure[]>>();
  /**
   * Names of nodes that pods are bound to and that do not exist: the watch delivered their deletion, or a consistent
   * read did not find them.
   */
  private readonly goneNodes = new Set<string>();

  constructor(controllers: Controllers, settings: GangSettings) {
    this.controllers = controllers;
    this.settings = settings;
    // Secrets and the like of other owners are not watched.
    const ours = { labelSelector: `${labels.managedBy}=${managedByValue}` };
    const written: ObjectCache[] = [];
    const all = <T extends KubeObject>(place: Resource<T>, selection: Selection = {}): ObjectCache<T> => {
      const cache = controllers.cache(place, selection);
      written.push(cache);
      return cache;
    };
    const own = <T extends KubeObject>(place: Resource<T>): ObjectCache<T> => all(place, ours);
    this.sets = all(gangResources.PodCliqueSet);
    this.cliques = all(gangResources.PodClique);
    this.groups = all(gangResources.PodCliqueScalingGroup);
    this.podGangs = all(gangResources.PodGang);
    this.bindings = all(gangResources.ClusterTopologyBinding);
    this.pods = all(gangResources.Pod);
    this.nodes = controllers.cache(nodePlace);
    this.services = own(gangResources.Service);
    this.autoscalers = own(gangResources.HorizontalPodAutoscaler);
    this.claims = all(gangResources.ResourceClaim);
    this.claimTemplates = all(gangResources.ResourceClaimTemplate);
    this.accounts = {
      ServiceAccount: own(gangResources.ServiceAccount),
      Role: own(gangResources.Role),
      RoleBinding: own(gangResources.RoleBinding),
      Secret: own(gangResources.Secret),
    };
    const hasKai = settings.profiles.includes("kai-scheduler");
    this.podGroups = hasKai ? all(gangResources.PodGroup) : undefined;
    this.topologies = hasKai ? all(gangResources.Topology) : undefined;
    this.assumeCache = assumeCacheOf<Presence>(written, { [this.pods.kind]: (pod) => presenceOf(pod as Pod) });
    this.inFlight = new InFlightWrites(controllers, this.assumeCache);
    for (const cache of [this.sets, this.groups, this.cliques]) {
      cache.onEvent(({ type, object }) => {
        if (type === "deleted") this.failures.delete(object.metadata.uid);
      });
    }
    this.podsByOwner = this.pods.index(byOwner);
    this.podsByReplica = this.pods.index(byReplica);
    this.podsByNode = this.pods.index(({ metadata, spec }) =>
      metadata.labels?.[labels.clique] === undefined ? [] : listed(spec?.nodeName),
    );
    this.nodes.onEvent(({ type, key }) => {
      if (type === "deleted") this.rememberGone(key);
      else this.goneNodes.delete(key);
    });
    this.podsByGang = this.pods.index(({ metadata }) => {
      const gang = metadata.labels?.[labels.podGang];
      return gang === undefined ? [] : [keyOf(metadata.namespace, gang)];
    });
    this.cliquesBySet = this.cliques.index(bySet);
    this.cliquesByReplica = this.cliques.index(byReplica);
    this.cliquesByOwner = this.cliques.index(byOwner);
    this.cliquesByBase = this.cliques.index(({ metadata }) => {
      const base = metadata.labels?.[labels.basePodGang];
      return base === undefined ? [] : [keyOf(metadata.namespace, base)];
    });
    this.groupsBySet = this.groups.index(bySet);
    this.groupsByReplica = this.groups.index(byReplica);
    this.podGangsBySet = this.podGangs.index(bySet);
    this.podGangsByReplica = this.podGangs.index(byReplica);
    this.servicesBySet = this.services.index(bySet);
    this.autoscalersBySet = this.autoscalers.index(bySet);
    this.claimsByOwner = this.claims.index(byAnyOwner);
    this.recorder = new EventRecorder({ ...controllers.ports, ...gangReporter });
    this.takeOver = gangTakeOver(this);
  }

  get nowMs(): number {
    return this.controllers.ports.clock.nowMs();
  }

  /** The observed revision of each kind: an object that the cache lacks did not exist at that revision. */
  absentAtRevision(): AbsentAt {
    const snapshot = this.assumeCache.snapshot();
    return (kind) => snapshot.kind(resourceKey(gangResources[kind])).revision;
  }

  /** The set that the labels of an object name, if its UID is that of the owner. */
  setOf(object: { metadata: ObjectMeta }): PodCliqueSet | undefined {
    const key = setKeyOf(object);
    const set = key === undefined ? undefined : this.sets.get(key);
    if (set === undefined) return undefined;
    const owner = controllerRef(object);
    if (owner?.uid === set.metadata.uid) return set;
    // A member of a group belongs to the set through its group.
    const group = owner === undefined ? undefined : this.groups.get(keyOf(object.metadata.namespace, owner.name));
    if (group === undefined || group.metadata.uid !== owner?.uid) return undefined;
    return controllerRef(group)?.uid === set.metadata.uid ? set : undefined;
  }

  /** The objects of a replica of this set, by UID: those of an earlier set with the same name are not counted. */
  ownCliques(set: PodCliqueSet, found: readonly PodClique[]): PodClique[] {
    return found.filter((clique) => this.setOf(clique)?.metadata.uid === set.metadata.uid);
  }

  /** The objects of the set replica that an object belongs to. */
  replicaOf(
    object: { metadata: ObjectMeta },
    set: PodCliqueSet | undefined,
  ): { readonly cliques: readonly PodClique[]; readonly groups: readonly PodCliqueScalingGroup[] } {
    const key = setReplicaKeyOf(object);
    if (key === undefined || set === undefined) return { cliques: [], groups: [] };
    const groups = this.groupsByReplica
      .get(key)
      .filter((group) => this.setOf(group)?.metadata.uid === set.metadata.uid);
    return { cliques: this.ownCliques(set, this.cliquesByReplica.get(key)), groups };
  }

  /** The node of a pod, if it is known. A node that the cache lacks may still exist: it may be newer than the cache. */
  nodeOf: NodeOf = ({ spec }) => {
    const name = spec?.nodeName ?? "";
    if (name === "") return undefined;
    return this.nodes.get(name) ?? (this.goneNodes.has(name) ? "gone" : undefined);
  };

  /**
   * Reads the nodes that the cache lacks of the pods of an owner. The pods are listed again after each read: the caller
   * decides from the caches as they are when this returns.
   */
  async findNodes(ownerUid: string, cancel: Cancel): Promise<Outcome<undefined>> {
    const read = new Set<string>();
    const nodeToRead = (): string | undefined =>
      this.podsByOwner
        .get(ownerUid)
        .filter((pod) => this.nodeOf(pod) === undefined)
        .map(({ spec }) => spec?.nodeName ?? "")
        .find((name) => name !== "" && !read.has(name));
    for (let name = nodeToRead(); name !== undefined; name = nodeToRead()) {
      read.add(name);
      const target = { ...nodePlace, namespace: "", name };
      const fresh = await lookAgain(this.controllers.kube, target, { atLeast: this.nodes.revision, cancel });
      if (!fresh.ok) return fresh;
      if (fresh.value.object === undefined && this.nodes.get(name) === undefined) this.rememberGone(name);
    }
    return succeeded(undefined);
  }

  private rememberGone(name: string): void {
    for (const known of [...this.goneNodes]) if (this.podsByNode.get(known).length === 0) this.goneNodes.delete(known);
    this.goneNodes.add(name);
  }

  templateNamed = (namespace: string, name: string): ResourceClaimTemplate | undefined =>
    this.claimTemplates.get(keyOf(namespace, name));

  tokenOf(set: PodCliqueSet, name: string): Secret | undefined {
    return this.accounts["Secret"]?.get(keyOf(set.metadata.namespace, name)) as Secret | undefined;
  }

  /** Records the failures of a reconcile of an object. Returns true if they have changed. */
  noteFailures(uid: string, reconcileKey: string, failures: readonly ReconcileFailure[]): boolean {
    const ofObject = this.failures.get(uid) ?? new Map<string, readonly ReconcileFailure[]>();
    if (equalFields(ofObject.get(reconcileKey) ?? [], failures)) return false;
    if (failures.length > 0) ofObject.set(reconcileKey, failures);
    else ofObject.delete(reconcileKey);
    if (ofObject.size > 0) this.failures.set(uid, ofObject);
    else this.failures.delete(uid);
    return true;
  }

  /** One failure for each code, whichever reconcile had it. */
  failuresOf(uid: string): readonly ReconcileFailure[] {
    const byTurn = [...(this.failures.get(uid) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
    const byCode = new Map<string, ReconcileFailure>();
    for (const failure of byTurn.flatMap(([, failures]) => failures)) {
      if (!byCode.has(failure.code)) byCode.set(failure.code, failure);
    }
    return [...byCode.values()];
  }
}

/** The fields of a node that decide whether its pods are lost. Heartbeats are not among them. */
export function lossOfNode({ status, spec }: Node): unknown {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const taints = (spec?.taints ?? []).filter(({ effect }) => effect === "NoExecute");
  return [ready?.status ?? "", ready?.lastTransitionTime ?? "", taints];
}

export function presenceKey(cliqueUid: string, podName: string): string {
  return `${cliqueUid}/${podName}`;
}

/** A pod that is not terminating counts for the clique that controls it. */
export function presenceOf(pod: Pod | NewObject): readonly Effect<Presence>[] {
  const { metadata } = pod;
  const owner = metadata.ownerReferences?.find(({ controller }) => controller === true);
  const isLeaving = "deletionTimestamp" in metadata && metadata.deletionTimestamp !== undefined;
  if (owner?.kind !== "PodClique" || isLeaving) return [];
  return [{ key: presenceKey(owner.uid, pod.metadata.name), value: "live" }];
}

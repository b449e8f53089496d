/**
 * The devices of one cluster, folded from its objects: which exist (slices with the taints of rules), the classes that
 * select them, and which are allocated (claims, with decisions that are not observed yet). Watch events are applied one
 * by one, or a list at once: the result is the same.
 */
import { resourceKey } from "../../model/intent.ts";
import type {
  DeviceClass,
  DeviceTaintRule,
  Pod,
  PodGroup,
  ResourceClaim,
  ResourceSlice,
} from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { isAtLeast } from "../../model/revision.ts";
import type { KindChange, KindTable } from "../../snapshot/kindTable.ts";
import { ObjectIndex } from "../../snapshot/objectIndex.ts";
import { ExtendedResources } from "./claims/extendedResources.ts";
import { isFinished, isReservedFor } from "./claims/podClaims.ts";
import { groupOfPod, type PodsGroup } from "./claims/podsGroup.ts";
import { ClaimTracker, type ClaimTrackerOptions } from "./claimTracker.ts";
import type { DeviceView } from "./claimTrial.ts";
import type { DeviceChange } from "./deviceChange.ts";
import { usesOf } from "./search/deviceUse.ts";
import { allFeatures, type DeviceFeatures } from "./search/features.ts";
import { SliceIndex } from "./search/pools.ts";
import { SelectorCache } from "./search/selectors.ts";
import { TaintedSlices } from "./taints/taintedSlices.ts";

/** The objects of each kind that devices depend on. */
export interface DeviceTables {
  readonly pods: KindTable<Pod>;
  readonly claims: KindTable<ResourceClaim>;
  readonly slices: KindTable<ResourceSlice>;
  readonly classes: KindTable<DeviceClass>;
  readonly rules: KindTable<DeviceTaintRule>;
}

type ObjectOf<K extends keyof DeviceTables> = DeviceTables[K] extends KindTable<infer T> ? T : never;

/** For races, whose tracker contains a mistake. */
export type MakeTracker = (options: ClaimTrackerOptions) => ClaimTracker;

export interface DeviceModelOptions {
  readonly makeTracker?: MakeTracker;
  /** Called with every change of the allocated devices, after it counts. */
  readonly onChange?: (change: DeviceChange) => void;
}

const pods = resourceKey(builtin.Pod);

export class DeviceModel {
  readonly tables: DeviceTables;
  readonly tracker: ClaimTracker;
  private readonly selectors = new SelectorCache();
  private readonly tainted = new TaintedSlices();
  /** `namespace/claim` to the pods that use it, also by a claim that was generated for them. */
  readonly podsByClaim = new ObjectIndex<Pod>(claimKeysOf);
  private readonly slicesByNode = new ObjectIndex<ResourceSlice>(({ spec }) => (spec.nodeName ? [spec.nodeName] : []));
  /** By the UIDs that they are reserved for. */
  readonly claimsByUser = new ObjectIndex<ResourceClaim>(({ status }) =>
    (status?.reservedFor ?? []).map(({ uid }) => uid),
  );
  /** UIDs that claims are reserved for and that belong to no pod that runs or may run, and whether that is certain. */
  private readonly strangers = new Map<string, boolean>();
  /** PodGroups, where they have claims. */
  groups: KindTable<PodGroup> | undefined;
  private chosenFeatures: DeviceFeatures = allFeatures;
  private readonly freedListeners: (() => void)[] = [];
  private readonly deviceListeners: ((device: string) => void)[] = [];
  private readonly claimListeners: ((claimKey: string) => void)[] = [];
  private sliceIndex: SliceIndex | undefined;
  private extended: ExtendedResources | undefined;

  constructor(tables: DeviceTables, { makeTracker, onChange }: DeviceModelOptions = {}) {
    this.tables = tables;
    const options: ClaimTrackerOptions = {
      claims: tables.claims,
      kinds: { [pods]: { table: tables.pods } },
      onDevice: (device) => this.deviceChanged(device),
      onChange: (change) => {
        onChange?.(change);
        if (change.type === "released") this.claimChanged(change.claim);
      },
      onAnswer: (claimKey) => this.claimChanged(claimKey),
    };
    this.tracker = makeTracker?.(options) ?? new ClaimTracker(options);
    this.fold("pods", addedIn(tables.pods));
    this.fold("claims", addedIn(tables.claims));
    this.fold("slices", addedIn(tables.slices));
    this.fold("rules", addedIn(tables.rules));
  }

  /** Applies the changes of an event of the kind. */
  observed<K extends keyof DeviceTables>(
    kind: K,
    changes: readonly KindChange<ObjectOf<K>>[],
    isNewList: boolean,
  ): void {
    if (kind === "claims") this.tracker.observed(changes, isNewList);
    if (kind === "pods") this.tracker.assumeCache.observed(pods, changes, isNewList);
    this.fold(kind, changes);
    if (kind === "pods" && this.strangers.size > 0) this.podsPassed();
  }

  /** For checks: the same devices, folded again from the tables. */
  refolded(): DeviceModel {
    const makeTracker: MakeTracker = (options) => new ClaimTracker({ ...options, like: this.tracker });
    const model = new DeviceModel(this.tables, { makeTracker });
    model.groups = this.groups;
    model.useFeatures(this.features);
    return model;
  }

  /**
   * Called when a device or share may have become free, also by a dropped decision, for which there is no watch event;
   * or when a claim may have become usable.
   */
  onFreed(hear: () => void): void {
    this.freedListeners.push(hear);
  }

  /** Called when a PodGroup was created or has changed: its pods may have their claims now. */
  groupsChanged(): void {
    for (const hear of this.freedListeners) hear();
  }

  /** Called when a claim has lost a device, and when an answer shows a claim before the watch does. */
  onClaim(hear: (claimKey: string) => void): void {
    this.claimListeners.push(hear);
  }

  private claimChanged(claimKey: string): void {
    for (const hear of this.claimListeners) hear(claimKey);
  }

  /** Called when a device was allocated or released. */
  onDevice(hear: (device: string) => void): void {
    this.deviceListeners.push(hear);
  }

  get features(): DeviceFeatures {
    return this.chosenFeatures;
  }

  /** Has to be called before the first read. */
  useFeatures(features: DeviceFeatures): void {
    this.chosenFeatures = features;
    this.sliceIndex = undefined;
    this.extended = undefined;
  }

  /** The slices of a node: of each pool the newest generation. */
  slicesOn(node: string): readonly ResourceSlice[] {
    const slices = this.slicesByNode.get(node);
    if (slices.length < 2) return slices;
    const poolOf = ({ spec }: ResourceSlice): string => `${spec.driver}/${spec.pool.name}`;
    const newest = new Map<string, number>();
    for (const slice of slices) {
      newest.set(poolOf(slice), Math.max(newest.get(poolOf(slice)) ?? 0, slice.spec.pool.generation));
    }
    return slices.filter((slice) => newest.get(poolOf(slice)) === slice.spec.pool.generation);
  }

  /** By the key of a device: the claim that has it. */
  claimedDevices(): ReadonlyMap<string, string> {
    const claimed = new Map<string, string>();
    for (const claim of this.tracker.list()) {
      for (const { device } of usesOf(claim)) claimed.set(device, `${claim.metadata.namespace}/${claim.metadata.name}`);
    }
    return claimed;
  }

  /** Nodes that have slices. */
  nodes(): readonly string[] {
    return this.slicesByNode.values();
  }

  groupOf(pod: Pod): PodsGroup {
    const { groups } = this;
    return groupOfPod(pod, groups === undefined ? undefined : (namespace, name) => groups.get(`${namespace}/${name}`));
  }

  indexOfSlices(): SliceIndex {
    this.sliceIndex ??= new SliceIndex(this.tainted.list(), this.features);
    return this.sliceIndex;
  }

  /** Allocated and available devices, for a caller that tries placements. Valid until the next event. */
  view(nowMs: number): DeviceView {
    const { tracker, selectors, features } = this;
    return {
      sliceIndex: this.indexOfSlices(),
      state: tracker,
      claimOf: (namespace, name) => tracker.get(namespace, name),
      pendingAllocation: (uid) => tracker.pendingAllocation(uid),
      classOf: (name) => this.tables.classes.get(name),
      groupOf: (pod) => this.groupOf(pod),
      classFor: (resource) => this.extendedResources().classFor(resource),
      selectors,
      features,
      nowMs,
      unwritten: () => tracker.unwrittenDevices(),
    };
  }

  extendedResources(): ExtendedResources {
    // Where the feature is disabled, no resource has a class.
    const classes = this.features.extendedResource ? this.tables.classes.view().objects.values() : [];
    this.extended ??= new ExtendedResources(classes);
    return this.extended;
  }

  /** Claims that are reserved for deleted or finished pods, by the pod's UID. */
  *departedPods(): Iterable<readonly [string, readonly ResourceClaim[]]> {
    for (const [uid, isCertain] of this.strangers) {
      if (!isCertain) continue;
      const fresh = this.claimsByUser
        .get(uid)
        .map(({ metadata }) => this.tracker.get(metadata.namespace ?? "", metadata.name));
      const reserved = fresh.filter((claim) => claim !== undefined && isReservedFor(claim, uid));
      if (reserved.length > 0) yield [uid, reserved as ResourceClaim[]];
    }
  }

  /** Updates whether claims are reserved for a deleted or finished pod. */
  private noteUser(uid: string): void {
    const claim = this.claimsByUser.first(uid);
    const user = claim?.status?.reservedFor?.find((each) => each.uid === uid);
    const pod = user && this.tables.pods.get(`${claim?.metadata.namespace ?? ""}/${user.name}`);
    const isThere = pod?.metadata.uid === uid && !isFinished(pod);
    if (user === undefined || user.resource !== builtin.Pod.plural || isThere) this.strangers.delete(uid);
    else this.strangers.set(uid, pod?.metadata.uid === uid || this.isOlderThanPods(uid));
  }

  /** A claim that is newer than the pods may be reserved for a pod that is not observed yet. */
  private isOlderThanPods(uid: string): boolean {
    const { revision } = this.tables.pods;
    // A terminating claim is deleted with the pod that it was created for.
    return this.claimsByUser
      .get(uid)
      .some(
        ({ metadata }) => metadata.deletionTimestamp !== undefined || isAtLeast(revision, metadata.resourceVersion),
      );
  }

  /** The revision of the pods has advanced: pods that were not observed may now be known to be deleted. */
  private podsPassed(): void {
    let isNews = false;
    for (const [uid, isCertain] of this.strangers) {
      if (isCertain || !this.isOlderThanPods(uid)) continue;
      this.strangers.set(uid, true);
      isNews = true;
    }
    if (isNews) for (const hear of this.freedListeners) hear();
  }

  private fold(kind: keyof DeviceTables, changes: readonly KindChange[]): void {
    if (kind === "classes") this.extended = undefined;
    for (const change of changes) {
      const { key } = change;
      const object = change.type === "deleted" ? undefined : change.object;
      if (kind === "pods") {
        this.podsByClaim.apply(change as KindChange<Pod>);
        this.noteUser(change.object.metadata.uid);
      }
      if (kind === "claims") {
        this.claimsByUser.apply(change as KindChange<ResourceClaim>);
        for (const uid of usersIn(change as KindChange<ResourceClaim>)) this.noteUser(uid);
      }
      if (kind === "slices") {
        this.slicesByNode.apply(change as KindChange<ResourceSlice>);
        if (this.tainted.setSlice(key, object as ResourceSlice | undefined)) this.sliceIndex = undefined;
      }
      if (kind === "rules" && this.tainted.setRule(key, object as DeviceTaintRule | undefined))
        this.sliceIndex = undefined;
    }
  }

  private deviceChanged(device: string): void {
    for (const hear of this.deviceListeners) hear(device);
    if (this.freedListeners.length > 0 && !this.tracker.isTaken(device)) for (const hear of this.freedListeners) hear();
  }
}

/** The claims that a pod references, that were generated for it, and that provide its extended resources. */
export function claimKeysOf(pod: Pod): string[] {
  const { namespace = "" } = pod.metadata;
  const names = new Set<string>();
  for (const { resourceClaimName } of pod.spec?.resourceClaims ?? []) {
    if (resourceClaimName !== undefined) names.add(resourceClaimName);
  }
  for (const { resourceClaimName } of pod.status?.resourceClaimStatuses ?? []) {
    if (resourceClaimName !== undefined) names.add(resourceClaimName);
  }
  const own = pod.status?.extendedResourceClaimStatus?.resourceClaimName;
  if (own !== undefined) names.add(own);
  return [...names].map((name) => `${namespace}/${name}`);
}

function usersIn(change: KindChange<ResourceClaim>): string[] {
  const before = change.type === "added" ? undefined : change.before.status?.reservedFor;
  return [...(before ?? []), ...(change.object.status?.reservedFor ?? [])].map(({ uid }) => uid);
}

function addedIn<T extends KubeObject>(table: KindTable<T>): KindChange<T>[] {
  return [...table.view().objects].map(([key, object]) => ({ type: "added", key, object }));
}

/**
 * The devices of one cluster, folded from its objects: which there are (slices with the taints of rules), what they are
 * asked for by (classes), and which are given away (claims, with what was decided and is not observed yet). Watch
 * events go in one by one, or a list at once: the result is the same.
 */
import { kindOf } from "../../model/intent.ts";
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
import type { KindChange, KindTable } from "../../snapshot/kindTable.ts";
import { ObjectIndex } from "../../snapshot/objectIndex.ts";
import { ExtendedResources } from "./claims/extendedResources.ts";
import { groupOfPod, type PodsGroup } from "./claims/podsGroup.ts";
import { ClaimTracker, type ClaimTrackerOptions } from "./claimTracker.ts";
import type { DeviceView } from "./claimTrial.ts";
import type { DeviceChange } from "./deviceChange.ts";
import { allFeatures, type DeviceFeatures } from "./search/features.ts";
import { SliceBook } from "./search/pools.ts";
import { SelectorCache } from "./search/selectors.ts";
import { TaintedSlices } from "./taints/taintedSlices.ts";

/** What is known of each kind that devices depend on. */
export interface DeviceTables {
  readonly pods: KindTable<Pod>;
  readonly claims: KindTable<ResourceClaim>;
  readonly slices: KindTable<ResourceSlice>;
  readonly classes: KindTable<DeviceClass>;
  readonly rules: KindTable<DeviceTaintRule>;
}

type ObjectOf<K extends keyof DeviceTables> = DeviceTables[K] extends KindTable<infer T> ? T : never;

/** For exhibits, which keep their mistakes to themselves. */
export type MakeTracker = (options: ClaimTrackerOptions) => ClaimTracker;

export interface DeviceModelOptions {
  readonly makeTracker?: MakeTracker;
  /** Called with every change of what is given away, after it counts. */
  readonly onChange?: (change: DeviceChange) => void;
}

const pods = kindOf(builtin.Pod);

export class DeviceModel {
  readonly tables: DeviceTables;
  readonly tracker: ClaimTracker;
  private readonly selectors = new SelectorCache();
  private readonly tainted = new TaintedSlices();
  /** `namespace/claim` to the pods that name it, also by what was generated for them. */
  readonly podsByClaim = new ObjectIndex<Pod>(claimKeysOf);
  readonly slicesByNode = new ObjectIndex<ResourceSlice>(({ spec }) => (spec.nodeName ? [spec.nodeName] : []));
  /** PodGroups, where they have claims. */
  groups: KindTable<PodGroup> | undefined;
  private chosenFeatures: DeviceFeatures = allFeatures;
  private readonly freedListeners: (() => void)[] = [];
  private readonly deviceListeners: ((device: string) => void)[] = [];
  private book: SliceBook | undefined;
  private extended: ExtendedResources | undefined;

  constructor(tables: DeviceTables, { makeTracker, onChange }: DeviceModelOptions = {}) {
    this.tables = tables;
    const options: ClaimTrackerOptions = {
      claims: tables.claims,
      kinds: { [pods]: { table: tables.pods } },
      onDevice: (device) => this.deviceChanged(device),
      ...(onChange !== undefined && { onChange }),
    };
    this.tracker = makeTracker?.(options) ?? new ClaimTracker(options);
    this.fold("pods", addedIn(tables.pods));
    this.fold("slices", addedIn(tables.slices));
    this.fold("rules", addedIn(tables.rules));
  }

  /** An event was applied to the table of the kind, and these are its changes. */
  observed<K extends keyof DeviceTables>(
    kind: K,
    changes: readonly KindChange<ObjectOf<K>>[],
    isNewList: boolean,
  ): void {
    if (kind === "claims") this.tracker.observed(changes, isNewList);
    if (kind === "pods") this.tracker.picture.observed(pods, changes, isNewList);
    this.fold(kind, changes);
  }

  /** A device, or a share of one, may be free: also because a decision was dropped, of which no watch tells. */
  onFreed(hear: () => void): void {
    this.freedListeners.push(hear);
  }

  /** A device was given away, or let go of. */
  onDevice(hear: (device: string) => void): void {
    this.deviceListeners.push(hear);
  }

  get features(): DeviceFeatures {
    return this.chosenFeatures;
  }

  /** To be called before anything is read. */
  useFeatures(features: DeviceFeatures): void {
    this.chosenFeatures = features;
    this.book = undefined;
    this.extended = undefined;
  }

  groupOf(pod: Pod): PodsGroup {
    const { groups } = this;
    return groupOfPod(pod, groups === undefined ? undefined : (namespace, name) => groups.get(`${namespace}/${name}`));
  }

  sliceBook(): SliceBook {
    this.book ??= new SliceBook(this.tainted.list(), this.features);
    return this.book;
  }

  /**
   * Allocated and available devices, for a caller that tries placements before one is written. Valid until the next
   * event.
   */
  view(nowMs: number): DeviceView {
    const { tracker, selectors, features } = this;
    return {
      book: this.sliceBook(),
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
    // Switched off, no class stands for a resource.
    const classes = this.features.extendedResource ? this.tables.classes.view().objects.values() : [];
    this.extended ??= new ExtendedResources(classes);
    return this.extended;
  }

  private fold(kind: keyof DeviceTables, changes: readonly KindChange[]): void {
    if (kind === "classes") this.extended = undefined;
    for (const change of changes) {
      const { key } = change;
      const object = change.type === "deleted" ? undefined : change.object;
      if (kind === "pods") this.podsByClaim.apply(change as KindChange<Pod>);
      if (kind === "slices") {
        this.slicesByNode.apply(change as KindChange<ResourceSlice>);
        if (this.tainted.setSlice(key, object as ResourceSlice | undefined)) this.book = undefined;
      }
      if (kind === "rules" && this.tainted.setRule(key, object as DeviceTaintRule | undefined)) this.book = undefined;
    }
  }

  private deviceChanged(device: string): void {
    for (const hear of this.deviceListeners) hear(device);
    if (this.freedListeners.length > 0 && !this.tracker.isTaken(device)) for (const hear of this.freedListeners) hear();
  }
}

/** The claims that a pod names, that were generated for it, and that its extended resources come from. */
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

function addedIn<T extends KubeObject>(table: KindTable<T>): KindChange<T>[] {
  return [...table.view().objects].map(([key, object]) => ({ type: "added", key, object }));
}

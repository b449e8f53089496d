import { ExtendedResources } from "../../decide/devices/claims/extendedResources.ts";
import { groupOfPod, type PodsGroup, podGroupKind } from "../../decide/devices/claims/podsGroup.ts";
import { ClaimTracker, type ClaimTrackerOptions, claimKind } from "../../decide/devices/claimTracker.ts";
import type { DeviceView } from "../../decide/devices/claimTrial.ts";
import { type DevicesDescription, describeDevices } from "../../decide/devices/describeDevices.ts";
import { allFeatures, type DeviceFeatures } from "../../decide/devices/search/features.ts";
import { FullNodes } from "../../decide/devices/search/fullNodes.ts";
import { SliceBook } from "../../decide/devices/search/pools.ts";
import { SelectorCache } from "../../decide/devices/search/selectors.ts";
import { TaintedSlices } from "../../decide/devices/taints/taintedSlices.ts";
import { kindOf } from "../../model/intent.ts";
import type {
  DeviceClass,
  DeviceTaintRule,
  Node,
  Pod,
  PodGroup,
  ResourceClaim,
  ResourceClaimTemplate,
  ResourceSlice,
} from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";

import type { CacheIndex } from "../cache/cacheIndex.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { ClaimTakeOver } from "./claimTakeOver.ts";
import { DeviceReport } from "./deviceReport.ts";

export const deviceKinds = {
  pods: builtin.Pod,
  nodes: builtin.Node,
  claims: claimKind,
  templates: builtin.ResourceClaimTemplate,
  slices: builtin.ResourceSlice,
  classes: builtin.DeviceClass,
  rules: builtin.DeviceTaintRule,
  groups: podGroupKind,
} as const satisfies Record<string, Resource>;

/** For exhibits, which keep their mistakes to themselves. */
export type MakeTracker = (options: ClaimTrackerOptions) => ClaimTracker;

/**
 * What every component that deals with devices reads: the caches, one picture of them, and what is worked out from
 * slices, rules and classes.
 */
export class DeviceCaches {
  readonly controllers: Controllers;
  readonly pods: ObjectCache<Pod>;
  readonly nodes: ObjectCache<Node>;
  readonly claims: ObjectCache<ResourceClaim>;
  readonly templates: ObjectCache<ResourceClaimTemplate>;
  readonly slices: ObjectCache<ResourceSlice>;
  readonly classes: ObjectCache<DeviceClass>;
  readonly rules: ObjectCache<DeviceTaintRule>;
  readonly tracker: ClaimTracker;
  readonly report: DeviceReport;
  readonly takeOver = new ClaimTakeOver(this);
  readonly selectors = new SelectorCache();
  readonly tainted = new TaintedSlices();
  /** `namespace/claim` to the pods that name it, also by what was generated for them. */
  readonly podsByClaim: CacheIndex<Pod>;
  readonly podsByNode: CacheIndex<Pod>;
  readonly slicesByNode: CacheIndex<ResourceSlice>;
  readonly claimsByOwner: CacheIndex<ResourceClaim>;
  /** By the UIDs that they are reserved for: a pod that we know badly may not say what it uses. */
  readonly claimsByUser: CacheIndex<ResourceClaim>;
  readonly podsByTemplate: CacheIndex<Pod>;
  /** `namespace/group` to its pods. */
  readonly podsByGroup: CacheIndex<Pod>;
  private chosenFeatures: DeviceFeatures = allFeatures;
  /** PodGroups, where they have claims. */
  private groupCache: ObjectCache<PodGroup> | undefined;
  private readonly freedListeners: (() => void)[] = [];
  private readonly deviceListeners: ((device: string) => void)[] = [];
  private book: SliceBook | undefined;
  private full: FullNodes | undefined;
  private extended: ExtendedResources | undefined;
  private listed: readonly Node[] | undefined;

  constructor(controllers: Controllers, makeTracker: MakeTracker = (options) => new ClaimTracker(options)) {
    this.controllers = controllers;
    this.pods = controllers.cache<Pod>(deviceKinds.pods);
    this.nodes = controllers.cache<Node>(deviceKinds.nodes);
    this.claims = controllers.cache<ResourceClaim>(deviceKinds.claims);
    this.templates = controllers.cache<ResourceClaimTemplate>(deviceKinds.templates);
    this.slices = controllers.cache<ResourceSlice>(deviceKinds.slices);
    this.classes = controllers.cache<DeviceClass>(deviceKinds.classes);
    this.rules = controllers.cache<DeviceTaintRule>(deviceKinds.rules);
    this.report = new DeviceReport(controllers.ports);
    const pods = kindOf(deviceKinds.pods);
    this.tracker = makeTracker({
      claims: this.claims.table,
      kinds: { [pods]: { table: this.pods.table } },
      onDevice: (device) => {
        this.full?.changed(device);
        for (const hear of this.deviceListeners) hear(device);
        if (!this.tracker.isTaken(device)) for (const hear of this.freedListeners) hear();
      },
      onChange: (change) => {
        this.report.changed(change, this.tracker);
        this.report.counted(this.tracker);
      },
    });
    this.report.counted(this.tracker);
    this.claims.onChanges((changes, isNewList) => {
      this.tracker.observed(changes, isNewList);
      this.report.counted(this.tracker);
    });
    this.pods.onChanges((changes, isNewList) => void this.tracker.picture.observed(pods, changes, isNewList));
    this.slices.onChanges((changes) => {
      for (const { type, key, object } of changes) {
        const slice = type === "deleted" ? undefined : object;
        if (this.tainted.setSlice(key, slice)) this.book = undefined;
      }
    });
    this.rules.onChanges((changes) => {
      for (const { type, key, object } of changes) {
        const rule = type === "deleted" ? undefined : object;
        if (this.tainted.setRule(key, rule)) this.book = undefined;
      }
    });
    this.nodes.onChanges(() => {
      this.listed = undefined;
    });
    this.classes.onChanges(() => {
      this.extended = undefined;
    });
    this.podsByClaim = this.pods.index(claimKeysOf);
    this.podsByNode = this.pods.index((pod) => (pod.spec?.nodeName ? [pod.spec.nodeName] : []));
    this.slicesByNode = this.slices.index(({ spec }) => (spec.nodeName ? [spec.nodeName] : []));
    this.podsByTemplate = this.pods.index(templateKeysOf);
    this.podsByGroup = this.pods.index(({ metadata, spec }) => {
      const name = spec?.schedulingGroup?.podGroupName;
      return name ? [`${metadata.namespace ?? ""}/${name}`] : [];
    });
    this.claimsByUser = this.claims.index(({ status }) => (status?.reservedFor ?? []).map(({ uid }) => uid));
    this.claimsByOwner = this.claims.index(({ metadata }) =>
      (metadata.ownerReferences ?? []).filter(({ controller }) => controller === true).map(({ uid }) => uid),
    );
  }

  /** A device, or a share of one, may be free: also because a decision was dropped, of which no watch tells. */
  onFreed(hear: () => void): void {
    this.freedListeners.push(hear);
  }

  /** A device was given away, or let go of. */
  onDevice(hear: (device: string) => void): void {
    this.deviceListeners.push(hear);
  }

  get groups(): ObjectCache<PodGroup> | undefined {
    return this.groupCache;
  }

  /** From now on PodGroups have claims. To be called before anything starts. */
  useGroups(): void {
    this.groupCache ??= this.controllers.cache<PodGroup>(deviceKinds.groups);
  }

  get features(): DeviceFeatures {
    return this.chosenFeatures;
  }

  /** To be called before anything starts. */
  useFeatures(features: DeviceFeatures): void {
    this.chosenFeatures = features;
    this.book = undefined;
    this.extended = undefined;
  }

  groupOf(pod: Pod): PodsGroup {
    const groups = this.groupCache;
    return groupOfPod(pod, groups === undefined ? undefined : (namespace, name) => groups.get(`${namespace}/${name}`));
  }

  /** In order of name. */
  nodeList(): readonly Node[] {
    this.listed ??= [...this.nodes.view().objects.values()];
    return this.listed;
  }

  sliceBook(): SliceBook {
    if (this.book === undefined) {
      this.book = new SliceBook(this.tainted.list(), this.features);
      this.full = undefined;
    }
    return this.book;
  }

  fullNodes(): FullNodes {
    const book = this.sliceBook();
    this.full ??= new FullNodes(book, this.tracker);
    return this.full;
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
      classOf: (name) => this.classOf(name),
      groupOf: (pod) => this.groupOf(pod),
      classFor: (resource) => this.extendedResources().classFor(resource),
      selectors,
      features,
      nowMs,
      unwritten: () => tracker.unwrittenDevices(),
    };
  }

  describe(): DevicesDescription {
    return describeDevices(this.tracker, this.features.consumableCapacity);
  }

  classOf(name: string): DeviceClass | undefined {
    return this.classes.get(name);
  }

  /** The names of the extended resources that classes stand for. */
  servedResources(): ReadonlySet<string> {
    return this.extendedResources().names;
  }

  extendedResources(): ExtendedResources {
    // Switched off, no class stands for a resource.
    const classes = this.features.extendedResource ? this.classes.view().objects.values() : [];
    this.extended ??= new ExtendedResources(classes);
    return this.extended;
  }
}

/** One for all components of a process, so that what one of them has decided counts for the others. */
export function deviceCachesOf(controllers: Controllers, makeTracker?: MakeTracker): DeviceCaches {
  return controllers.share(DeviceCaches, () => new DeviceCaches(controllers, makeTracker));
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

function templateKeysOf(pod: Pod): string[] {
  const { namespace = "" } = pod.metadata;
  return (pod.spec?.resourceClaims ?? []).flatMap(({ resourceClaimTemplateName }) =>
    resourceClaimTemplateName === undefined ? [] : [`${namespace}/${resourceClaimTemplateName}`],
  );
}

export function podKeyOf({ metadata }: Pod): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}

export function asKube(object: Pod | PodGroup | ResourceClaim | Node | DeviceTaintRule): KubeObject {
  return object;
}

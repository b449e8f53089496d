import { podGroupKind } from "../../decide/devices/claims/podsGroup.ts";
import { ClaimTracker, claimKind } from "../../decide/devices/claimTracker.ts";
import { type DevicesDescription, describeDevices } from "../../decide/devices/describeDevices.ts";
import { DeviceModel, type MakeTracker } from "../../decide/devices/deviceModel.ts";
import type { DeviceFeatures } from "../../decide/devices/search/features.ts";
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
import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
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

/** What every component that deals with devices reads: the caches, and the model that they are folded into. */
export class DeviceCaches {
  readonly controllers: Controllers;
  readonly pods: ObjectCache<Pod>;
  readonly nodes: ObjectCache<Node>;
  readonly claims: ObjectCache<ResourceClaim>;
  readonly templates: ObjectCache<ResourceClaimTemplate>;
  readonly slices: ObjectCache<ResourceSlice>;
  readonly classes: ObjectCache<DeviceClass>;
  readonly rules: ObjectCache<DeviceTaintRule>;
  readonly model: DeviceModel;
  readonly report: DeviceReport;
  readonly takeOver: ClaimTakeOver;
  readonly podsByNode: ObjectIndex<Pod>;
  readonly claimsByOwner: ObjectIndex<ResourceClaim>;
  /** Claims by the UIDs that they are reserved for: a pod may not name all claims that it uses. */
  readonly claimsByUser: ObjectIndex<ResourceClaim>;
  readonly podsByTemplate: ObjectIndex<Pod>;
  /** `namespace/group` to its pods. */
  readonly podsByGroup: ObjectIndex<Pod>;
  /** PodGroups, where they have claims. */
  private groupCache: ObjectCache<PodGroup> | undefined;

  constructor(controllers: Controllers, makeTracker: MakeTracker = (options) => new ClaimTracker(options)) {
    this.controllers = controllers;
    this.takeOver = new ClaimTakeOver(this);
    this.pods = controllers.cache<Pod>(deviceKinds.pods);
    this.nodes = controllers.cache<Node>(deviceKinds.nodes);
    this.claims = controllers.cache<ResourceClaim>(deviceKinds.claims);
    this.templates = controllers.cache<ResourceClaimTemplate>(deviceKinds.templates);
    this.slices = controllers.cache<ResourceSlice>(deviceKinds.slices);
    this.classes = controllers.cache<DeviceClass>(deviceKinds.classes);
    this.rules = controllers.cache<DeviceTaintRule>(deviceKinds.rules);
    this.report = new DeviceReport(controllers.ports);
    const { pods, claims, slices, classes, rules } = this;
    this.model = new DeviceModel(
      { pods: pods.table, claims: claims.table, slices: slices.table, classes: classes.table, rules: rules.table },
      {
        makeTracker,
        onChange: (change) => {
          this.report.changed(change, this.tracker);
          this.report.counted(this.tracker);
        },
      },
    );
    this.report.counted(this.tracker);
    this.model.onClaim(() => this.report.counted(this.tracker));
    claims.onChanges((changes, isNewList) => {
      this.model.observed("claims", changes, isNewList);
      this.report.counted(this.tracker);
    });
    pods.onChanges((changes, isNewList) => this.model.observed("pods", changes, isNewList));
    slices.onChanges((changes, isNewList) => this.model.observed("slices", changes, isNewList));
    classes.onChanges((changes, isNewList) => this.model.observed("classes", changes, isNewList));
    rules.onChanges((changes, isNewList) => this.model.observed("rules", changes, isNewList));
    this.podsByNode = pods.index((pod) => (pod.spec?.nodeName ? [pod.spec.nodeName] : []));
    this.podsByTemplate = pods.index(templateKeysOf);
    this.podsByGroup = pods.index(({ metadata, spec }) => {
      const name = spec?.schedulingGroup?.podGroupName;
      return name ? [`${metadata.namespace ?? ""}/${name}`] : [];
    });
    this.claimsByUser = claims.index(({ status }) => (status?.reservedFor ?? []).map(({ uid }) => uid));
    this.claimsByOwner = claims.index(({ metadata }) =>
      (metadata.ownerReferences ?? []).filter(({ controller }) => controller === true).map(({ uid }) => uid),
    );
  }

  get tracker(): ClaimTracker {
    return this.model.tracker;
  }

  get groups(): ObjectCache<PodGroup> | undefined {
    return this.groupCache;
  }

  /** Enables claims of PodGroups. Has to be called before the start. */
  useGroups(): void {
    if (this.groupCache !== undefined) return;
    this.groupCache = this.controllers.cache<PodGroup>(deviceKinds.groups);
    this.model.groups = this.groupCache.table;
    this.groupCache.onChanges((changes) => {
      if (changes.length > 0) this.model.groupsChanged();
    });
  }

  /** Has to be called before the start. */
  useFeatures(features: DeviceFeatures): void {
    this.model.useFeatures(features);
  }

  describe(): DevicesDescription {
    return describeDevices(this.tracker, this.model.features.consumableCapacity);
  }
}

/** One instance for all components of a process, so that a decision of one component counts for the others. */
export function deviceCachesOf(controllers: Controllers, makeTracker?: MakeTracker): DeviceCaches {
  return controllers.share(DeviceCaches, () => new DeviceCaches(controllers, makeTracker));
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

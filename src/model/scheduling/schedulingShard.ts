import type { ObjectMeta } from "../objects/object.ts";
import { resource } from "../objects/resource.ts";
import { kaiGroup } from "./keys.ts";

/** One scheduler for one node pool, and how it should behave there. */
export type SchedulingShard = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: SchedulingShardSpec;
  status?: { [field: string]: unknown };
};

export type SchedulingShardSpec = {
  /** The node pool; empty for nodes without the label. */
  partitionLabelValue?: string;
  placementStrategy?: { gpu?: PlacementStrategy; cpu?: PlacementStrategy };
  queueDepthPerAction?: Record<string, number>;
  minRuntime?: { preemptMinRuntime?: string; reclaimMinRuntime?: string };
  kValue?: number;
  usageDBConfig?: { [field: string]: unknown };
  /** Durations; zero is unlimited. */
  scenarioSearchBudgets?: {
    maxActionSearchDuration?: Record<string, string>;
    maxJobSearchDuration?: string;
    minJobSearchDuration?: string;
    maxGeneratorSearchDuration?: Record<string, string>;
  };
  plugins?: Record<string, PluginSetting>;
  actions?: Record<string, ActionSetting>;
  args?: Record<string, string>;
  goMemLimitRatio?: number;
  goMemLimit?: string;
};

export type PlacementStrategy = "binpack" | "spread";
export type PluginSetting = { enabled?: boolean; priority?: number; arguments?: Record<string, string> };
export type ActionSetting = { enabled?: boolean; priority?: number };

export const schedulingShardRef = resource<SchedulingShard>(kaiGroup, "v1", "schedulingshards");
export const kaiConfigRef = resource<KaiConfig>(kaiGroup, "v1", "configs");

/** The name of the Config that Muster reads. */
export const kaiConfigName = "kai-config";

/** The settings of the installation; sections that Muster does not read are preserved. */
export type KaiConfig = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: KaiConfigSpec;
  status?: { [field: string]: unknown };
};

export type KaiConfigSpec = {
  namespace?: string;
  global?: {
    schedulerName?: string;
    queueLabelKey?: string;
    nodePoolLabelKey?: string;
    namespaceLabelSelector?: Record<string, string>;
    podLabelSelector?: Record<string, string>;
    [field: string]: unknown;
  };
  binder?: {
    replicas?: number;
    maxConcurrentReconciles?: number;
    volumeBindingTimeoutSeconds?: number;
    cdiEnabled?: boolean;
    resourceReservation?: {
      image?: { [field: string]: unknown };
      allocationTimeout?: number;
      namespace?: string;
      serviceAccountName?: string;
      appLabel?: string;
      runtimeClassName?: string;
      podResources?: { [field: string]: unknown };
      [field: string]: unknown;
    };
    plugins?: Record<string, PluginSetting>;
    [field: string]: unknown;
  };
  podGrouper?: {
    args?: {
      gangScheduleKnative?: boolean;
      defaultPrioritiesConfigMapName?: string;
      defaultPrioritiesConfigMapNamespace?: string;
      [field: string]: unknown;
    };
    [field: string]: unknown;
  };
  queueController?: {
    /** `label=metric label`, with commas between. */
    queueLabelToMetricLabel?: string;
    /** `label=value`, for queues without the label. */
    queueLabelToDefaultMetricValue?: string;
    [field: string]: unknown;
  };
  admission?: {
    gpuSharing?: boolean;
    blockNvidiaVisibleDevices?: boolean;
    gpuFractionRuntimeClassName?: string;
    gpuPodRuntimeClassName?: string;
    queueLabelSelector?: boolean;
    [field: string]: unknown;
  };
  [field: string]: unknown;
};

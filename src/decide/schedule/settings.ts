import type { PlacementStrategy } from "../../model/scheduling/schedulingShard.ts";
import { defaultSearchBudgets, type SearchBudgets } from "./eviction/searchBudget.ts";
import type { UsageSettings } from "./queues/usage.ts";
import type { RetryLimits } from "./waiting/retryLimits.ts";

/** How one scheduler behaves; the defaults are KAI's. Times are in milliseconds. */
export interface Settings {
  /** The node pool; empty for objects without the label. */
  readonly nodePool: string;
  /** Whether pods of `default-scheduler` are scheduled too, or only counted because another scheduler places them. */
  readonly placesPlainPods: boolean;
  readonly gpuStrategy: PlacementStrategy;
  readonly cpuStrategy: PlacementStrategy;
  /** The number of jobs of a queue that an action tries; unlimited by default. */
  readonly queueDepth: Readonly<Record<string, number>>;
  readonly preemptMinRuntimeMs: number;
  readonly reclaimMinRuntimeMs: number;
  readonly reclaimMinRuntimeMethod: "lca" | "queue";
  /** How strongly historical usage counts against a queue. */
  readonly kValue: number;
  /** Negative: a gang below its minimum is not evicted. */
  readonly stalenessGraceMs: number;
  /** Zero: no pod is moved; negative: unlimited. */
  readonly consolidationJobsMax: number;
  readonly usesSignatures: boolean;
  /** Whether a victim gets the condition `DisruptionTarget`, which a Job's `podFailurePolicy` may ask for. */
  readonly marksVictims: boolean;
  readonly hasFullHierarchy: boolean;
  readonly reclaimerSaturationMultiplier: number;
  readonly restrictsNodes: boolean;
  readonly showsNodesInErrors: boolean;
  readonly stuckInReleasingMs: number;
  /** Whether reclaim may move victims to other nodes. */
  readonly reclaimMovesVictims: boolean;
  readonly searchBudgets: SearchBudgets;
  /** What a cycle spends on jobs that could not be placed before; undefined: all are tried in each cycle. */
  readonly retryLimits: RetryLimits | undefined;
  readonly actions: readonly ActionName[];
  /** Whether devices are allocated to claims. */
  readonly allocatesDevices: boolean;
  /**
   * Whether PodGroups of `scheduling.k8s.io/v1alpha2` form gangs; the cluster must serve that version.
   */
  readonly formsPlainGangs: boolean;
  /** Whether SchedulingShards are read: they add schedulers for node pools, and configure them. */
  readonly readsShards: boolean;
  /** The source of historical usage; undefined: it does not count. */
  readonly usage: UsageSettings | undefined;
}

export type ActionName = "allocate" | "consolidation" | "reclaim" | "preempt" | "stalegangeviction";

export const defaultSettings: Settings = {
  nodePool: "",
  placesPlainPods: true,
  gpuStrategy: "binpack",
  cpuStrategy: "binpack",
  queueDepth: {},
  preemptMinRuntimeMs: 0,
  reclaimMinRuntimeMs: 0,
  reclaimMinRuntimeMethod: "lca",
  kValue: 1,
  stalenessGraceMs: 60_000,
  consolidationJobsMax: 16,
  usesSignatures: true,
  marksVictims: true,
  hasFullHierarchy: true,
  reclaimerSaturationMultiplier: 1,
  restrictsNodes: false,
  showsNodesInErrors: false,
  stuckInReleasingMs: 120_000,
  reclaimMovesVictims: true,
  searchBudgets: defaultSearchBudgets,
  retryLimits: undefined,
  actions: ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"],
  allocatesDevices: false,
  formsPlainGangs: false,
  readsShards: false,
  usage: undefined,
};

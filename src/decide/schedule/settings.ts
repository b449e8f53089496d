import type { PlacementStrategy } from "../../model/scheduling/schedulingShard.ts";
import { defaultSearchBudgets, type SearchBudgets } from "./eviction/searchBudget.ts";
import type { UsageSettings } from "./queues/usage.ts";

/** How one scheduler behaves; the defaults are KAI's. Times are in milliseconds. */
export interface Settings {
  /** The node pool it works on; empty is what has no such label. */
  readonly nodePool: string;
  /** Whether pods of `default-scheduler` are placed too; where another scheduler places them, they only take room. */
  readonly placesPlainPods: boolean;
  readonly gpuStrategy: PlacementStrategy;
  readonly cpuStrategy: PlacementStrategy;
  /** How many jobs of a queue an action looks at; as many as there are, where nothing is said or it is infinite. */
  readonly queueDepth: Readonly<Record<string, number>>;
  readonly preemptMinRuntimeMs: number;
  readonly reclaimMinRuntimeMs: number;
  readonly reclaimMinRuntimeMethod: "lca" | "queue";
  /** How strongly use in the past counts against a queue. */
  readonly kValue: number;
  /** Negative: a gang that fell below its minimum is left alone. */
  readonly stalenessGraceMs: number;
  /** Zero: nothing is moved to make room; negative: without bound. */
  readonly consolidationJobsMax: number;
  readonly usesSignatures: boolean;
  /** Whether a victim gets the condition `DisruptionTarget`, which a Job's `podFailurePolicy` may ask for. */
  readonly marksVictims: boolean;
  readonly hasFullHierarchy: boolean;
  readonly reclaimerSaturationMultiplier: number;
  readonly restrictsNodes: boolean;
  readonly showsNodesInErrors: boolean;
  readonly stuckInReleasingMs: number;
  /** A victim of reclaim that finds another place has lost nothing. */
  readonly reclaimMovesVictims: boolean;
  readonly searchBudgets: SearchBudgets;
  readonly actions: readonly ActionName[];
  /** Whether devices are given to claims. */
  readonly allocatesDevices: boolean;
  /**
   * Whether gangs of Kubernetes' own PodGroups are formed; the cluster must serve `scheduling.k8s.io/v1alpha2` then.
   */
  readonly formsPlainGangs: boolean;
  /** Whether SchedulingShards are read: they add schedulers for pools, and say how each behaves. */
  readonly readsShards: boolean;
  /** How use in the past is known; undefined: it does not count. */
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
  actions: ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"],
  allocatesDevices: false,
  formsPlainGangs: false,
  readsShards: false,
  usage: undefined,
};

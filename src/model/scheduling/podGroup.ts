import type { Condition, Time } from "../kubernetes.generated.ts";
import { duplicate, type FieldError, forbidden, invalid, required } from "../objects/fieldError.ts";
import type { ObjectMeta } from "../objects/object.ts";
import { resource } from "../objects/resource.ts";
import { schedulingGroup } from "./keys.ts";
import type { ResourceAmounts } from "./queue.ts";
import { wrongDuration } from "./wrongDuration.ts";

/** The pods of one workload: how many must be placed together, in which queue, how close to each other. */
export type PodGroup = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: PodGroupSpec;
  status?: PodGroupStatus;
};

export type PodGroupSpec = {
  /** Gang size without subgroups; defaults to 1, and 0 means no gang. */
  minMember?: number | null;
  /** How many of the direct subgroups must be satisfied; defaults to all. */
  minSubGroup?: number | null;
  queue?: string;
  priorityClassName?: string;
  preemptibility?: "preemptible" | "non-preemptible" | "";
  topologyConstraint?: TopologyConstraint;
  subGroups?: SubGroup[];
  /** Whether pending pods get PodScheduled=False; defaults to true. */
  markUnschedulable?: boolean | null;
  /** 1: one attempt per node pool. -1 or unset: unlimited attempts. */
  schedulingBackoff?: number | null;
  /** For how long the group preempts no pod. */
  preemptionDelay?: string | null;
  /** How long the group may run below its minimum; negative is unlimited. */
  stalenessGracePeriod?: string | null;
};

export type SubGroup = {
  name: string;
  parent?: string | null;
  /** On leaves. */
  minMember?: number | null;
  /** On inner subgroups. */
  minSubGroup?: number | null;
  topologyConstraint?: TopologyConstraint | null;
};

export type TopologyConstraint = {
  topology?: string;
  requiredTopologyLevel?: string;
  preferredTopologyLevel?: string;
};

export type PodGroupStatus = {
  phase?: string;
  conditions?: Condition[];
  schedulingConditions?: SchedulingCondition[];
  resourcesStatus?: PodGroupResourcesStatus;
  [field: string]: unknown;
};

export type SchedulingCondition = {
  type: string;
  nodePool: string;
  /** The older, single form. */
  reason?: string;
  message?: string;
  reasons?: UnschedulableExplanation[];
  lastTransitionTime?: Time;
  status?: string;
  /** An increasing number, as text. */
  transitionID?: string;
};

export type UnschedulableExplanation = {
  reason: UnschedulableReason;
  message?: string;
  details?: { queueDetails?: QueueDetails };
};

export type UnschedulableReason =
  | "OverLimit"
  | "NonPreemptibleOverQuota"
  | "QueueDoesNotExist"
  | "PreemptionDelayNotElapsed"
  /** Not in KAI: the queue exists, and is of another node pool, not in the tree of queues, or not a leaf of it. */
  | "QueueTakesNoPods"
  /** Not in KAI: no scheduler serves the node pool. */
  | "NoScheduler"
  | "PodSchedulingErrors";

export type QueueDetails = {
  name: string;
  queueRequestedResources?: ResourceAmounts;
  queueDeservedResources?: ResourceAmounts;
  queueAllocatedResources?: ResourceAmounts;
  queueAllocatedNonPreemptibleResources?: ResourceAmounts;
  queueResourceLimits?: ResourceAmounts;
  podGroupRequestedResources?: ResourceAmounts;
  podGroupRequestedNonPreemptibleResources?: ResourceAmounts;
};

export type PodGroupResourcesStatus = {
  allocated?: ResourceAmounts;
  allocatedNonPreemptible?: ResourceAmounts;
  requested?: ResourceAmounts;
};

export const podGroupRef = resource<PodGroup>(schedulingGroup, "v2alpha2", "podgroups");
export const podGroupApiVersion = "scheduling.run.ai/v2alpha2";

export const unschedulableOnNodePool = "UnschedulableOnNodePool";
/** The name of the default node pool in a condition. */
const defaultNodePool = "default";

/** The name of a node pool; `default` if it is empty. */
export function poolName(nodePool: string): string {
  return nodePool === "" ? defaultNodePool : nodePool;
}

/** Workloads of a lower priority are preemptible by default. */
export const nonPreemptiblePriority = 100;
export const defaultPriority = 50;

/** The priority classes that workloads of KAI name. */
export const shippedPriorityClasses: readonly { readonly name: string; readonly value: number }[] = [
  { name: "train", value: 50 },
  { name: "build-preemptible", value: 75 },
  { name: "build", value: 100 },
  { name: "inference", value: 125 },
];

/** Validates the tree of subgroups, which a CRD schema cannot express. Errors refuse the write, warnings do not. */
export function validatePodGroup(
  spec: PodGroupSpec | undefined,
  operation: "CREATE" | "UPDATE",
): { errors: FieldError[]; warnings: string[] } {
  const errors: FieldError[] = [];
  const warnings: string[] = [];
  if (isSet(spec?.minMember) && isSet(spec?.minSubGroup)) {
    errors.push(forbidden("spec.minSubGroup", "minMember and minSubGroup are mutually exclusive"));
  }
  const subGroups = spec?.subGroups ?? [];
  const byName = new Map<string, SubGroup>();
  for (const [at, group] of subGroups.entries()) {
    if (byName.has(group.name)) errors.push(duplicate(`spec.subGroups[${at}].name`, group.name));
    else byName.set(group.name, group);
  }
  const childCounts = new Map<string, number>();
  for (const [at, group] of subGroups.entries()) {
    const field = `spec.subGroups[${at}]`;
    const parent = group.parent ?? "";
    childCounts.set(parent, (childCounts.get(parent) ?? 0) + 1);
    if (parent !== "" && !byName.has(parent)) {
      errors.push(invalid(`${field}.parent`, parent, "no subgroup has this name"));
    } else if (isInCycle(group, byName)) {
      errors.push(invalid(`${field}.parent`, parent, "the subgroups form a cycle"));
    }
    if (isSet(group.minMember) && isSet(group.minSubGroup)) {
      errors.push(forbidden(`${field}.minSubGroup`, "minMember and minSubGroup are mutually exclusive"));
    }
  }
  const warnOfTooMany = (field: string, wanted: number | null | undefined, children: number): void => {
    if (isSet(wanted) && wanted > children) {
      warnings.push(`${field}: ${wanted} subgroups are required and only ${children} exist, so it can never start`);
    }
  };
  for (const [at, group] of subGroups.entries()) {
    const field = `spec.subGroups[${at}]`;
    const children = childCounts.get(group.name) ?? 0;
    if (children === 0) {
      if (!isSet(group.minMember))
        errors.push(required(`${field}.minMember`, "a subgroup without subgroups must have a minimum"));
      if (isSet(group.minSubGroup))
        errors.push(forbidden(`${field}.minSubGroup`, "not allowed for a subgroup without subgroups"));
      continue;
    }
    warnOfTooMany(`${field}.minSubGroup`, group.minSubGroup, children);
    if (!isSet(group.minMember)) continue;
    const detail = "not allowed for a subgroup that has subgroups";
    if (operation === "CREATE") errors.push(forbidden(`${field}.minMember`, detail));
    else warnings.push(`${field}.minMember: ${detail}`);
  }
  const backoff = spec?.schedulingBackoff;
  if (isSet(backoff) && backoff !== 1 && backoff !== -1) {
    warnings.push(
      `spec.schedulingBackoff: ${backoff} is treated as -1, unlimited attempts; use 1 for a single attempt`,
    );
  }
  if (subGroups.length > 0) warnOfTooMany("spec.minSubGroup", spec?.minSubGroup, childCounts.get("") ?? 0);
  return { errors, warnings };
}

/** Values that KAI's webhook cannot parse. */
export function wrongPodGroupValues(spec: PodGroupSpec | undefined): FieldError[] {
  return [
    ...wrongDuration("spec.preemptionDelay", spec?.preemptionDelay),
    ...wrongDuration("spec.stalenessGracePeriod", spec?.stalenessGracePeriod),
  ];
}

function isSet(value: number | null | undefined): value is number {
  return value !== undefined && value !== null;
}

function isInCycle(group: SubGroup, byName: ReadonlyMap<string, SubGroup>): boolean {
  let steps = 0;
  for (let at: SubGroup | undefined = group; at !== undefined; at = byName.get(at.parent ?? "")) {
    if (++steps > byName.size) return true;
  }
  return false;
}

/** The kinds of the gang API as they are stored. Fields that Grove does not have are marked. */
import type { HorizontalPodAutoscaler, PodSpec, ResourceClaimTemplate } from "../kubernetes.generated.ts";
import type { ObjectMeta } from "../objects/object.ts";
import type { FullLossPolicy } from "./settings.ts";

export type GangCondition = {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message: string;
  lastTransitionTime: string;
  observedGeneration?: number;
};

export type LastError = { code: string; description: string; observedAt: string };

export type MetricSpec = NonNullable<NonNullable<HorizontalPodAutoscaler["spec"]>["metrics"]>[number];

export type AutoScalingConfig = { minReplicas?: number; maxReplicas: number; metrics?: MetricSpec[] };

export type TopologyConstraint = {
  topologyName?: string;
  pack?: { required?: string; preferred?: string };
  packDomain?: string;
};

export type SharingScope = "AllReplicas" | "PerReplica";

export type ResourceSharing = {
  name: string;
  namespace?: string;
  scope: SharingScope;
  filter?: { childCliqueNames?: string[]; childScalingGroupNames?: string[] };
};

export type StartupType = "CliqueStartupTypeAnyOrder" | "CliqueStartupTypeInOrder" | "CliqueStartupTypeExplicit";

export type PodCliqueSpec = {
  roleName: string;
  podSpec: PodSpec;
  replicas: number;
  minAvailable?: number;
  startsAfter?: string[];
  autoScalingConfig?: AutoScalingConfig;
};

export type CliqueTemplate = {
  name: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  topologyConstraint?: TopologyConstraint;
  resourceSharing?: ResourceSharing[];
  spec: PodCliqueSpec;
};

export type GroupTemplate = {
  name: string;
  cliqueNames: string[];
  annotations?: Record<string, string>;
  replicas?: number;
  minAvailable?: number;
  scaleConfig?: AutoScalingConfig;
  resourceSharing?: ResourceSharing[];
  topologyConstraint?: TopologyConstraint;
};

export type ClaimTemplate = { name: string; templateSpec: NonNullable<ResourceClaimTemplate["spec"]> };

export type UpdateStrategyType = "RollingRecreate" | "OnDelete";

export type SetTemplate = {
  cliques: CliqueTemplate[];
  cliqueStartupType?: StartupType;
  priorityClassName?: string;
  headlessServiceConfig?: { publishNotReadyAddresses?: boolean };
  topologyConstraint?: TopologyConstraint;
  terminationDelay?: string;
  resourceClaimTemplates?: ClaimTemplate[];
  resourceSharing?: ResourceSharing[];
  podCliqueScalingGroups?: GroupTemplate[];
};

export type SetUpdateProgress = {
  updateStartedAt: string;
  updateEndedAt?: string;
  updatedPodCliquesCount?: number;
  totalPodCliquesCount?: number;
  updatedPodCliqueScalingGroupsCount?: number;
  totalPodCliqueScalingGroupsCount?: number;
  currentlyUpdating?: { replicaIndex: number; updateStartedAt: string; updateEndedAt?: string }[];
};

/**
 * A decided termination and the UIDs of its cliques. It is written before the first clique is deleted and removed after
 * the last, so that the next leader finishes it after a crash. Not in Grove.
 */
export type GangTermination = {
  replicaIndex: number;
  startedAt: string;
  because: string;
  podCliques: { name: string; uid: string }[];
};

export type PodCliqueSetStatus = {
  observedGeneration?: number;
  conditions?: GangCondition[];
  lastErrors?: LastError[];
  replicas?: number;
  updatedReplicas?: number;
  availableReplicas?: number;
  hpaPodSelector?: string;
  currentGenerationHash?: string;
  updateProgress?: SetUpdateProgress;
  /** The full-loss policy of the operator, which the conditions do not show. Not in Grove. */
  fullLossPolicy?: FullLossPolicy;
  gangTerminations?: GangTermination[];
};

export type PodCliqueSet = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: { replicas?: number; updateStrategy?: { type?: UpdateStrategyType }; template: SetTemplate };
  status?: PodCliqueSetStatus;
};

/**
 * How often all scheduled replicas were lost, and the last loss that was reported. The count is part of the status
 * write that records the loss, and the Event's name is derived from it, so each loss is reported once, even after a
 * crash. Not in Grove.
 */
export type ScheduleLoss = { count: number; replicas: number; at: string; announced: number };

export type PodCliqueStatus = {
  observedGeneration?: number;
  lastErrors?: LastError[];
  replicas?: number;
  readyReplicas?: number;
  scheduledReplicas?: number;
  scheduleGatedReplicas?: number;
  updatedReplicas?: number;
  hpaPodSelector?: string;
  conditions?: GangCondition[];
  currentPodCliqueSetGenerationHash?: string;
  currentPodTemplateHash?: string;
  updateProgress?: CliqueUpdateProgress;
  /** Whether the minimum was ever scheduled. Not in Grove. */
  everScheduled?: boolean;
  scheduleLoss?: ScheduleLoss;
};

export type CliqueUpdateProgress = {
  updateStartedAt: string;
  updateEndedAt?: string;
  podCliqueSetGenerationHash: string;
  podTemplateHash: string;
  readyPodsSelectedToUpdate?: { current: string; completed?: string[] };
};

export type PodClique = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: PodCliqueSpec;
  status?: PodCliqueStatus;
};

export type GroupUpdateProgress = {
  updateStartedAt: string;
  updateEndedAt?: string;
  podCliqueSetGenerationHash: string;
  updatedPodCliquesCount?: number;
  totalPodCliquesCount?: number;
  readyReplicaIndicesSelectedToUpdate?: { current: number; completed?: number[] };
};

export type PodCliqueScalingGroupStatus = {
  observedGeneration?: number;
  lastErrors?: LastError[];
  replicas?: number;
  scheduledReplicas?: number;
  availableReplicas?: number;
  updatedReplicas?: number;
  selector?: string;
  conditions?: GangCondition[];
  currentPodCliqueSetGenerationHash?: string;
  updateProgress?: GroupUpdateProgress;
  /** Whether the minimum was ever not in breach. Not in Grove. */
  everHealthy?: boolean;
  scheduleLoss?: ScheduleLoss;
  gangTerminations?: GangTermination[];
};

export type PodCliqueScalingGroup = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: { replicas?: number; minAvailable?: number; cliqueNames: string[] };
  status?: PodCliqueScalingGroupStatus;
};

export type PackConstraint = { required?: string; preferred?: string };
export type GangTopologyConstraint = { packConstraint: PackConstraint };

/** The UID is not in Grove: a recreated pod has the same name and is another pod. */
export type PodReference = { namespace: string; name: string; uid?: string };

export type PodGangGroup = {
  name: string;
  podReferences: PodReference[];
  minReplicas: number;
  topologyConstraint?: GangTopologyConstraint;
};

export type PodGangSpec = {
  podgroups: PodGangGroup[];
  topologyConstraint?: GangTopologyConstraint;
  topologyConstraintGroupConfigs?: {
    name: string;
    podGroupNames: string[];
    topologyConstraint?: GangTopologyConstraint;
  }[];
  priorityClassName?: string;
  reuseReservationRef?: { namespace: string; name: string };
};

export type PodGang = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: PodGangSpec;
  status?: { phase?: "Pending" | "Starting" | "Running"; conditions?: GangCondition[]; placementScore?: number };
};

export type ClusterTopologyBinding = {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: {
    levels: { domain: string; key: string }[];
    schedulerTopologyBindings?: { schedulerName: string; topologyReference: string }[];
  };
  status?: {
    observedGeneration?: number;
    conditions?: GangCondition[];
    schedulerTopologyStatuses?: {
      schedulerName: string;
      topologyReference: string;
      inSync: boolean;
      schedulerBackendTopologyObservedGeneration?: number;
      message?: string;
    }[];
  };
};

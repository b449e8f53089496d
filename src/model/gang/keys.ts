import { resource } from "../objects/resource.ts";
import { builtin } from "../resources.generated.ts";
import { podGroupRef } from "../scheduling/podGroup.ts";
import { topologyRef } from "../scheduling/topology.ts";
import type { ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang } from "./types.ts";
/**
 * The labels, annotations, finalizers, scheduling gates and environment variables of the gang API, exactly as in Grove.
 */
export const labels = {
  managedBy: "app.kubernetes.io/managed-by",
  partOf: "app.kubernetes.io/part-of",
  name: "app.kubernetes.io/name",
  component: "app.kubernetes.io/component",
  setReplica: "grove.io/podcliqueset-replica-index",
  group: "grove.io/podcliquescalinggroup",
  groupReplica: "grove.io/podcliquescalinggroup-replica-index",
  clique: "grove.io/podclique",
  podIndex: "grove.io/podclique-pod-index",
  podGang: "grove.io/podgang",
  basePodGang: "grove.io/base-podgang",
  templateHash: "grove.io/pod-template-hash",
  schedulerName: "grove.io/scheduler-name",
} as const;

export const managedByValue = "grove-operator";

export const annotations = {
  topologyName: "grove.io/topology-name",
  disableProtection: "grove.io/disable-managed-resource-protection",
  reconcileTrigger: "grove.io/reconcile-trigger",
  mnnvlGroup: "grove.io/mnnvl-group",
  queue: "kai.scheduler/queue",
  skipPodGrouper: "kai.scheduler/skip-podgrouper",
  podGroupName: "pod-group-name",
} as const;

export const subGroupLabel = "kai.scheduler/subgroup-name";

export const components = {
  service: "pcs-headless-service",
  role: "pod-role",
  roleBinding: "pod-role-binding",
  serviceAccount: "pod-service-account",
  secret: "pod-sa-token-secret",
  group: "pcs-podcliquescalinggroup",
  hpa: "pcs-hpa",
  podGang: "podgang",
  setClique: "pcs-podclique",
  groupClique: "pcsg-podclique",
  claim: "resource-claim",
} as const;

export const finalizers = {
  PodCliqueSet: "grove.io/podcliqueset.grove.io",
  PodClique: "grove.io/podclique.grove.io",
  PodCliqueScalingGroup: "grove.io/podcliquescalinggroup.grove.io",
} as const;

/** Every pod is created with it; it is removed when the pod's gang may be scheduled. */
export const gangGate = "grove.io/podgang-pending-creation";

export const initContainerName = "grove-initc";
/** The downward API files with the gang and the namespace of the waiting pod. */
export const podInfoFolder = "/var/grove/pod-info";
/** The command of Muster's image that waits for the start order. */
export const startOrderProgram = "start-order";

/** Environment variables that the operator sets in containers. A user's variable of the same name is dropped. */
export const variables = {
  setName: "GROVE_PCS_NAME",
  setIndex: "GROVE_PCS_INDEX",
  cliqueName: "GROVE_PCLQ_NAME",
  service: "GROVE_HEADLESS_SERVICE",
  podIndex: "GROVE_PCLQ_POD_INDEX",
  groupName: "GROVE_PCSG_NAME",
  groupPods: "GROVE_PCSG_TEMPLATE_NUM_PODS",
  groupIndex: "GROVE_PCSG_INDEX",
} as const;

export const groveGroup = "grove.io";
export const schedulerGroveGroup = "scheduler.grove.io";
export const groveVersion = "v1alpha1";
export const groveApiVersion = `${groveGroup}/${groveVersion}`;
export const podGangApiVersion = `${schedulerGroveGroup}/${groveVersion}`;

/** The resources of the kinds that the operator reads or writes. */
export const gangResources = {
  PodCliqueSet: resource<PodCliqueSet>(groveGroup, groveVersion, "podcliquesets"),
  PodClique: resource<PodClique>(groveGroup, groveVersion, "podcliques"),
  PodCliqueScalingGroup: resource<PodCliqueScalingGroup>(groveGroup, groveVersion, "podcliquescalinggroups"),
  ClusterTopologyBinding: resource<ClusterTopologyBinding>(groveGroup, groveVersion, "clustertopologybindings"),
  PodGang: resource<PodGang>(schedulerGroveGroup, groveVersion, "podgangs"),
  Pod: builtin.Pod,
  Service: builtin.Service,
  ServiceAccount: builtin.ServiceAccount,
  Secret: builtin.Secret,
  Role: builtin.Role,
  RoleBinding: builtin.RoleBinding,
  HorizontalPodAutoscaler: builtin.HorizontalPodAutoscaler,
  ResourceClaim: builtin.ResourceClaim,
  ResourceClaimTemplate: builtin.ResourceClaimTemplate,
  PodGroup: podGroupRef,
  Topology: topologyRef,
  Event: builtin.CoreEvent,
} as const;

export type GangKind = keyof typeof gangResources;

/**
 * The words of the gang API on objects: labels, annotations, finalizers, gates, variables. They are Grove's, letter by
 * letter.
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

/** What the operator says in variables to containers. A user's variable of one of these names is dropped. */
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

/** Where the objects live that the operator reads or writes. */
export const places = {
  PodCliqueSet: { group: groveGroup, version: groveVersion, plural: "podcliquesets" },
  PodClique: { group: groveGroup, version: groveVersion, plural: "podcliques" },
  PodCliqueScalingGroup: { group: groveGroup, version: groveVersion, plural: "podcliquescalinggroups" },
  ClusterTopologyBinding: { group: groveGroup, version: groveVersion, plural: "clustertopologybindings" },
  PodGang: { group: schedulerGroveGroup, version: groveVersion, plural: "podgangs" },
  Pod: { group: "", version: "v1", plural: "pods" },
  Service: { group: "", version: "v1", plural: "services" },
  ServiceAccount: { group: "", version: "v1", plural: "serviceaccounts" },
  Secret: { group: "", version: "v1", plural: "secrets" },
  Role: { group: "rbac.authorization.k8s.io", version: "v1", plural: "roles" },
  RoleBinding: { group: "rbac.authorization.k8s.io", version: "v1", plural: "rolebindings" },
  HorizontalPodAutoscaler: { group: "autoscaling", version: "v2", plural: "horizontalpodautoscalers" },
  ResourceClaim: { group: "resource.k8s.io", version: "v1", plural: "resourceclaims" },
  ResourceClaimTemplate: { group: "resource.k8s.io", version: "v1", plural: "resourceclaimtemplates" },
  PodGroup: { group: "scheduling.run.ai", version: "v2alpha2", plural: "podgroups" },
  Topology: { group: "kai.scheduler", version: "v1alpha1", plural: "topologies" },
  Event: { group: "events.k8s.io", version: "v1", plural: "events" },
} as const;

export type GangKind = keyof typeof places;

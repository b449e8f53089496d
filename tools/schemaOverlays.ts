/**
 * Facts about Kubernetes types that the model classes do not carry: how lists merge, which objects have one owner, and
 * which strings are quantities. Keys are `group word/Type.field`; they hold for every served version of the group.
 */
export type FieldOverlay = {
  /** Server-side apply: how items are told apart; lists not named here are atomic. */
  list?: "set" | "map";
  keys?: string[];
  /** Values that a key has when an item leaves it out. */
  keyDefaults?: Record<string, string>;
  /** Strategic merge: items merge by this key; empty for a list of plain values. */
  merge?: string;
  /** Strategic merge: `$retainKeys` applies. */
  retain?: true;
  /** Strategic merge: the patch replaces the whole. */
  replace?: true;
  /** One owner for the whole object or map, or (false) not, against the rule of its type. */
  atomic?: boolean;
};

const byName: FieldOverlay = { list: "map", keys: ["name"], merge: "name" };
const byType: FieldOverlay = { list: "map", keys: ["type"], merge: "type" };
const byNameRetain: FieldOverlay = { ...byName, retain: true };
const applyByType: FieldOverlay = { list: "map", keys: ["type"] };
const set: FieldOverlay = { list: "set" };
const atomic: FieldOverlay = { atomic: true };

function map(...keys: [string, ...string[]]): FieldOverlay {
  return { list: "map", keys, merge: keys[0] };
}

function each(types: string[], fields: Record<string, FieldOverlay>): Record<string, FieldOverlay> {
  const all: Record<string, FieldOverlay> = {};
  for (const type of types) for (const [field, overlay] of Object.entries(fields)) all[`${type}.${field}`] = overlay;
  return all;
}

const tcp = { protocol: "TCP" };

export const fieldOverlays: Record<string, FieldOverlay> = {
  "meta/ObjectMeta.ownerReferences": map("uid"),
  "meta/ObjectMeta.finalizers": { list: "set", merge: "" },

  ...each(["core/PodSpec"], {
    containers: byName,
    initContainers: byName,
    ephemeralContainers: byName,
    imagePullSecrets: byName,
    schedulingGates: byName,
    volumes: byNameRetain,
    resourceClaims: byNameRetain,
    hostAliases: map("ip"),
    topologySpreadConstraints: map("topologyKey", "whenUnsatisfiable"),
    nodeSelector: atomic,
  }),
  ...each(["core/Container", "core/EphemeralContainer"], {
    env: byName,
    ports: { ...map("containerPort", "protocol"), keyDefaults: tcp },
    volumeMounts: map("mountPath"),
    volumeDevices: map("devicePath"),
  }),
  ...each(["core/PodStatus"], {
    conditions: byType,
    podIPs: map("ip"),
    hostIPs: { merge: "ip" },
    resourceClaimStatuses: byNameRetain,
  }),
  ...each(["core/ContainerStatus"], { volumeMounts: map("mountPath"), allocatedResourcesStatus: byName }),
  "core/ServiceSpec.ports": { ...map("port", "protocol"), keyDefaults: tcp },
  "core/ServiceSpec.selector": atomic,
  "core/ReplicationControllerSpec.selector": atomic,
  ...each(
    [
      "core/ServiceStatus",
      "core/NodeStatus",
      "core/NamespaceStatus",
      "core/PersistentVolumeClaimStatus",
      "core/ReplicationControllerStatus",
      "core/ComponentStatus",
      "apps/DeploymentStatus",
      "apps/ReplicaSetStatus",
      "apps/StatefulSetStatus",
      "apps/DaemonSetStatus",
      "policy/PodDisruptionBudgetStatus",
      "resource/DeviceTaintRuleStatus",
      "scheduling/PodGroupStatus",
    ],
    { conditions: byType },
  ),
  "autoscaling/HorizontalPodAutoscalerStatus.conditions": byType,
  "batch/JobStatus.conditions": { merge: "type" },
  "core/NodeStatus.addresses": byType,
  "core/NodeSpec.podCIDRs": { list: "set", merge: "" },
  "core/ServiceAccount.secrets": byName,
  "core/PersistentVolumeSpec.claimRef": { atomic: false },
  "apps/DeploymentSpec.strategy": { retain: true },
  "policy/PodDisruptionBudgetSpec.selector": { replace: true },
  "node/Scheduling.nodeSelector": atomic,
  "resource/ResourceClaimStatus.reservedFor": map("uid"),
  "resource/ResourceClaimStatus.devices": { list: "map", keys: ["driver", "device", "pool", "shareID"] },
  "resource/AllocatedDeviceStatus.conditions": applyByType,
  "scheduling/PodGroupSpec.resourceClaims": byNameRetain,
  "scheduling/PodGroupTemplate.resourceClaims": byNameRetain,
  "scheduling/PodGroupStatus.resourceClaimStatuses": byNameRetain,
  "scheduling/WorkloadSpec.podGroupTemplates": { list: "map", keys: ["name"] },
  "storage/CSINodeSpec.drivers": byName,
  ...each(
    ["admissionregistration/MutatingWebhookConfiguration", "admissionregistration/ValidatingWebhookConfiguration"],
    {
      webhooks: byName,
    },
  ),
  ...each(
    [
      "admissionregistration/MutatingWebhook",
      "admissionregistration/ValidatingWebhook",
      "admissionregistration/MutatingAdmissionPolicySpec",
      "admissionregistration/ValidatingAdmissionPolicySpec",
    ],
    { matchConditions: byName },
  ),
  "admissionregistration/ValidatingAdmissionPolicySpec.variables": byName,
  "apiextensions/JSONSchemaProps.x-kubernetes-validations": map("rule"),

  "core/ResourceRequirements.claims": { list: "map", keys: ["name"] },
  "core/ResourceStatus.resources": { list: "map", keys: ["resourceID"] },
  "apiextensions/CustomResourceDefinitionStatus.conditions": applyByType,
  "admissionregistration/ValidatingAdmissionPolicyStatus.conditions": applyByType,
  "certificates/CertificateSigningRequestStatus.conditions": applyByType,

  "core/NodeAllocatableResourceClaimStatus.containers": set,
  "core/ContainerRestartRuleOnExitCodes.values": set,
  "batch/PodFailurePolicyOnExitCodesRequirement.values": set,
  "batch/UncountedTerminatedPods.failed": set,
  "batch/UncountedTerminatedPods.succeeded": set,
  "discovery/Endpoint.addresses": set,
  "storage/CSIDriverSpec.volumeLifecycleModes": set,
  "admissionregistration/ValidatingAdmissionPolicyBindingSpec.validationActions": set,
};

/** Objects with one owner for the whole, wherever they stand. */
export const atomicTypes: ReadonlySet<string> = new Set([
  "meta/LabelSelector",
  "meta/OwnerReference",
  "core/NodeSelector",
  "core/NodeSelectorTerm",
  "core/ObjectReference",
  "core/LocalObjectReference",
  "core/TypedLocalObjectReference",
  "core/SecretReference",
  "core/SecretKeySelector",
  "core/ConfigMapKeySelector",
  "core/FileKeySelector",
  "core/ObjectFieldSelector",
  "core/ResourceFieldSelector",
  "core/ScopeSelector",
  "core/TopologySelectorTerm",
  "core/EndpointAddress",
  "core/EndpointPort",
  "discovery/EndpointPort",
  "autoscaling/v1/CrossVersionObjectReference",
  "networking/ServiceBackendPort",
  "rbac/RoleRef",
  "rbac/Subject",
  "admissionregistration/MatchResources",
  "admissionregistration/NamedRuleWithOperations",
  "admissionregistration/ParamKind",
  "admissionregistration/ParamRef",
  "admissionregistration/Variable",
]);

/** Strings, or strings inside the map or list, that are quantities. */
export const quantityFields: ReadonlySet<string> = new Set([
  "core/ResourceRequirements.limits",
  "core/ResourceRequirements.requests",
  "core/VolumeResourceRequirements.limits",
  "core/VolumeResourceRequirements.requests",
  "core/PodSpec.overhead",
  "core/PodStatus.allocatedResources",
  "core/ContainerStatus.allocatedResources",
  "core/NodeStatus.capacity",
  "core/NodeStatus.allocatable",
  "core/LimitRangeItem.default",
  "core/LimitRangeItem.defaultRequest",
  "core/LimitRangeItem.max",
  "core/LimitRangeItem.min",
  "core/LimitRangeItem.maxLimitRequestRatio",
  "core/ResourceQuotaSpec.hard",
  "core/ResourceQuotaStatus.hard",
  "core/ResourceQuotaStatus.used",
  "core/PersistentVolumeSpec.capacity",
  "core/PersistentVolumeClaimStatus.capacity",
  "core/PersistentVolumeClaimStatus.allocatedResources",
  "core/EmptyDirVolumeSource.sizeLimit",
  "core/ResourceFieldSelector.divisor",
  "core/NodeAllocatableResourceClaimStatus.resources",
  "node/Overhead.podFixed",
  "autoscaling/MetricTarget.value",
  "autoscaling/MetricTarget.averageValue",
  "autoscaling/MetricValueStatus.value",
  "autoscaling/MetricValueStatus.averageValue",
  "autoscaling/HPAScalingRules.tolerance",
  "resource/DeviceCapacity.value",
  "resource/Counter.value",
  "resource/CapacityRequirements.requests",
  "resource/CapacityRequestPolicy.default",
  "resource/CapacityRequestPolicy.validValues",
  "resource/CapacityRequestPolicyRange.min",
  "resource/CapacityRequestPolicyRange.max",
  "resource/CapacityRequestPolicyRange.step",
  "resource/DeviceRequestAllocationResult.consumedCapacity",
  "resource/NodeAllocatableResourceMapping.allocationMultiplier",
  "storage/CSIStorageCapacity.capacity",
  "storage/CSIStorageCapacity.maximumVolumeSize",
]);

/**
 * Types of Kubernetes 1.37 that the 1.36 models lack: each is its 1.36 beta under a new name, with references to the
 * new version.
 */
export const renamedModels: Record<string, string> = {
  V1DeviceTaintRule: "V1beta2DeviceTaintRule",
  V1DeviceTaintRuleSpec: "V1beta2DeviceTaintRuleSpec",
  V1DeviceTaintRuleStatus: "V1beta2DeviceTaintRuleStatus",
  V1DeviceTaintSelector: "V1beta2DeviceTaintSelector",
};

/** Messages of the beta versions that have no v1 twin of their own name: where their Go facts can be read instead. */
export const messageTwins: Record<string, string[]> = {
  BasicDevice: ["Device"],
  DeviceRequest: ["DeviceRequest", "ExactDeviceRequest"],
};

/**
 * Go facts of fields that stand in no message table: `p` pointer, `k` kept when zero, empty for a value that vanishes
 * (or, for an object, is always written).
 */
export const goFacts: Record<string, string> = {
  "resource/DeviceTaintRule.metadata": "",
  "resource/DeviceTaintRule.spec": "k",
  "resource/DeviceTaintRule.status": "",
  "resource/DeviceTaintRuleSpec.deviceSelector": "p",
  "resource/DeviceTaintRuleSpec.taint": "",
  "resource/DeviceTaintRuleStatus.conditions": "",
  "resource/DeviceTaintSelector.driver": "p",
  "resource/DeviceTaintSelector.pool": "p",
  "resource/DeviceTaintSelector.device": "p",
  "resource/Device.basic": "p",
  // The message table takes its name for an embedded struct.
  "storage/VolumeAttachmentSource.inlineVolumeSpec": "p",
};

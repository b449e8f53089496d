/**
 * Fields that a Kubernetes API server encodes as null when they were never set: times, and lists without omitempty (an
 * empty list is encoded as null as well). Clients that compare written with read objects depend on it. Lists that are
 * never empty in a valid object are not listed.
 */
const nullFields: Readonly<Record<string, readonly string[]>> = {
  "io.k8s.api.core.v1.PodCondition": ["lastProbeTime", "lastTransitionTime"],
  "io.k8s.api.core.v1.NodeCondition": ["lastHeartbeatTime", "lastTransitionTime"],
  "io.k8s.api.core.v1.NamespaceCondition": ["lastTransitionTime"],
  "io.k8s.api.core.v1.PersistentVolumeClaimCondition": ["lastProbeTime", "lastTransitionTime"],
  "io.k8s.api.core.v1.ReplicationControllerCondition": ["lastTransitionTime"],
  "io.k8s.api.core.v1.ContainerStateRunning": ["startedAt"],
  "io.k8s.api.core.v1.ContainerStateTerminated": ["startedAt", "finishedAt"],
  "io.k8s.api.core.v1.ContainerImage": ["names"],
  "io.k8s.api.core.v1.Event": ["firstTimestamp", "lastTimestamp", "eventTime"],
  "io.k8s.api.core.v1.EventSeries": ["lastObservedTime"],
  "io.k8s.api.core.v1.LimitRangeSpec": ["limits"],
  "io.k8s.api.core.v1.ProjectedVolumeSource": ["sources"],
  "io.k8s.api.core.v1.TypedLocalObjectReference": ["apiGroup"],
  "io.k8s.api.core.v1.TypedObjectReference": ["apiGroup"],
  "io.k8s.api.core.v1.AzureFilePersistentVolumeSource": ["secretNamespace"],
  "io.k8s.api.apps.v1.DeploymentCondition": ["lastUpdateTime", "lastTransitionTime"],
  "io.k8s.api.apps.v1.DaemonSetCondition": ["lastTransitionTime"],
  "io.k8s.api.apps.v1.ReplicaSetCondition": ["lastTransitionTime"],
  "io.k8s.api.apps.v1.StatefulSetCondition": ["lastTransitionTime"],
  "io.k8s.api.authentication.v1.TokenRequestSpec": ["audiences", "boundObjectRef"],
  "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition": ["lastTransitionTime"],
  "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus": ["currentMetrics"],
  "io.k8s.api.batch.v1.JobCondition": ["lastProbeTime", "lastTransitionTime"],
  "io.k8s.api.batch.v1.PodFailurePolicy": ["rules"],
  "io.k8s.api.certificates.v1.CertificateSigningRequestCondition": ["lastUpdateTime", "lastTransitionTime"],
  "io.k8s.api.discovery.v1.EndpointSlice": ["endpoints", "ports"],
  "io.k8s.api.events.v1.Event": ["eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"],
  "io.k8s.api.events.v1.EventSeries": ["lastObservedTime"],
  "io.k8s.api.rbac.v1.ClusterRole": ["rules"],
  "io.k8s.api.rbac.v1.Role": ["rules"],
  "io.k8s.api.resource.v1.AllocatedDeviceStatus": ["conditions"],
  "io.k8s.api.resource.v1.DeviceClaim": ["requests"],
  "io.k8s.api.resource.v1beta1.AllocatedDeviceStatus": ["conditions"],
  "io.k8s.api.resource.v1beta1.DeviceClaim": ["requests"],
  "io.k8s.api.resource.v1beta2.AllocatedDeviceStatus": ["conditions"],
  "io.k8s.api.resource.v1beta2.DeviceClaim": ["requests"],
  "io.k8s.api.storage.v1.CSINodeDriver": ["topologyKeys"],
  "io.k8s.api.storage.v1.CSINodeSpec": ["drivers"],
  "io.k8s.api.storage.v1.VolumeError": ["time"],
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition": ["lastTransitionTime"],
  "io.k8s.apimachinery.pkg.apis.meta.v1.Condition": ["lastTransitionTime"],
};

export function isWrittenAsNull(definition: string | undefined, field: string): boolean {
  return definition !== undefined && nullFields[definition]?.includes(field) === true;
}

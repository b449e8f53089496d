/**
 * Times that a Kubernetes API server writes as null when they were never set: `lastProbeTime` of every condition of a pod. Clients
 * that compare what they wrote with what they read must see it here as they see it there.
 */
const timesOf: Readonly<Record<string, readonly string[]>> = {
  "io.k8s.api.core.v1.PodCondition": ["lastProbeTime", "lastTransitionTime"],
  "io.k8s.api.core.v1.NodeCondition": ["lastHeartbeatTime", "lastTransitionTime"],
  "io.k8s.api.core.v1.PersistentVolumeClaimCondition": ["lastProbeTime", "lastTransitionTime"],
  "io.k8s.api.core.v1.ReplicationControllerCondition": ["lastTransitionTime"],
  "io.k8s.api.core.v1.ContainerStateRunning": ["startedAt"],
  "io.k8s.api.core.v1.ContainerStateTerminated": ["startedAt", "finishedAt"],
  "io.k8s.api.apps.v1.DeploymentCondition": ["lastUpdateTime", "lastTransitionTime"],
  "io.k8s.api.apps.v1.DaemonSetCondition": ["lastTransitionTime"],
  "io.k8s.api.apps.v1.ReplicaSetCondition": ["lastTransitionTime"],
  "io.k8s.api.apps.v1.StatefulSetCondition": ["lastTransitionTime"],
  "io.k8s.api.batch.v1.JobCondition": ["lastProbeTime", "lastTransitionTime"],
  "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition": ["lastTransitionTime"],
};

export function isWrittenAsNull(definition: string | undefined, field: string): boolean {
  return definition !== undefined && timesOf[definition]?.includes(field) === true;
}

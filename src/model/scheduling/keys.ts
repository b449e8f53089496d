/**
 * The labels, annotations and names of queues, gangs and GPU shares that users, scheduler, binder and nodes agree on.
 */

export const schedulingGroup = "scheduling.run.ai";
export const kaiGroup = "kai.scheduler";

/** Muster schedules pods with this scheduler name; on an embedded cluster also those of the default scheduler. */
export const kaiSchedulerName = "kai-scheduler";
export const defaultSchedulerName = "default-scheduler";

export const labelKeys = {
  queue: "kai.scheduler/queue",
  nodePool: "kai.scheduler/node-pool",
  subGroup: "kai.scheduler/subgroup-name",
  taskPriority: "kai.scheduler/task-priority",
  preemptibility: "kai.scheduler/preemptibility",
  priorityClass: "priorityClassName",
  project: "project",
  /** On a reservation pod, and on a pod that shares one GPU: the group's id. */
  gpuGroup: "runai-gpu-group",
  /** On a pod that shares several GPUs: one label for each group, `<prefix><group>`. */
  gpuGroupPrefix: "runai-gpu-group/",
  /** On a BindRequest. */
  selectedNode: "selected-node",
  app: "app",
  gpuMemory: "nvidia.com/gpu.memory",
  gpuCount: "nvidia.com/gpu.count",
  gpuProduct: "nvidia.com/gpu.product",
  migStrategy: "nvidia.com/mig.strategy",
  gpuWorker: "node-role.kubernetes.io/gpu-worker",
  cpuWorker: "node-role.kubernetes.io/cpu-worker",
  migWorker: "node-role.kubernetes.io/mig-enabled",
  /** On a pod that represents GPU shares to a cluster autoscaler. */
  scalingPodName: "shared-gpu-pod-name",
  scalingPodNamespace: "shared-gpu-pod-namespace",
  /** On a node that allocates the device which the pod's annotation names. */
  pinsDevices: "muster.dev/pins-devices",
} as const;

export const annotationKeys = {
  gpuFraction: "gpu-fraction",
  gpuMemory: "gpu-memory",
  gpuFractionDevices: "gpu-fraction-num-devices",
  gpuFractionContainer: "gpu-fraction-container-name",
  mps: "mps",
  receivedResourceType: "received-resource-type",
  sharedGpuConfigMap: "runai/shared-gpu-configmap",
  podGroup: "pod-group-name",
  /** On a reservation pod: the UUID of its GPU, despite the name. */
  reservedGpu: "run.ai/reserve_for_gpu_index",
  /** On a reservation pod: the N of /dev/nvidiaN of its GPU, where the driver reports it. */
  gpuIndex: "muster.dev/gpu-index",
  skipPodGrouper: "kai.scheduler/skip-podgrouper",
  topOwner: "kai.scheduler/top-owner-metadata",
  staleSince: "kai.scheduler/stale-podgroup-timestamp",
  /** Since when subgroups that the group can do without are below their minimum: `name=time`, separated by commas. */
  staleSubGroups: "muster.dev/stale-subgroups",
  lastStart: "kai.scheduler/last-start-timestamp",
  lastEviction: "kai.scheduler/last-eviction-timestamp",
  batchMinMember: "kai.scheduler/batch-min-member",
  preemptionDelay: "kai.scheduler/preemption-delay",
  stalenessGracePeriod: "kai.scheduler/staleness-grace-period",
  topology: "kai.scheduler/topology",
  topologyRequired: "kai.scheduler/topology-required-placement",
  topologyPreferred: "kai.scheduler/topology-preferred-placement",
  segmentSize: "kai.scheduler/segment-size",
  segmentTopologyRequired: "kai.scheduler/segment-topology-required-placement",
  segmentTopologyPreferred: "kai.scheduler/segment-topology-preferred-placement",
  /** On the BindRequests of one gang: the set they belong to, and how many must exist before any of them starts. */
  commit: "muster.dev/commit",
  commitSize: "muster.dev/commit-size",
  /** On an unscheduled pod: the newest epoch of the scheduler that began while the pod was unscheduled. */
  schedulerEpoch: "muster.dev/scheduler-epoch",
  /**
   * On a BindRequest: the epoch that its pod named when it was decided, or `none`. On any other it is not carried out.
   */
  decidedIn: "muster.dev/decided-in",
  /**
   * On an unscheduled pod: the UID of the last BindRequest that was withdrawn before its bind, or the deleted node of
   * its last bind of unknown outcome, with the version of the pod.
   */
  withdrawn: "muster.dev/withdrawn-request",
  /** On a BindRequest: the PersistentVolume of each claim that waited for the node, as JSON of names. */
  volumes: "muster.dev/volumes",
  /** On a victim: the plan that it is evicted for, and the preemptor that shows whether the plan is still valid. */
  evictedFor: "muster.dev/evicted-for",
  /** On a preemptor: its valid plan. */
  plan: "muster.dev/eviction-plan",
  /** On a reservation pod: the node that it will be bound to, or is. */
  reservesOn: "muster.dev/reserves-on",
  /** On a reservation pod that replaces a lost one: the device that it must get, where the node can choose. */
  pinDevice: "muster.dev/pin-device",
} as const;

export const reservationNamespace = "kai-resource-reservation";
export const reservationAppLabel = "kai-resource-reservation";
/** No scheduler serves this name: the binder binds reservation pods itself. */
export const reservationSchedulerName = "muster-binder";
export const scalingNamespace = "kai-scale-adjust";

/**
 * A reservation pod is identified by both its namespace and its app label: a user's pod may have one of them by chance.
 */
export function isReservationPod(pod: { metadata: { namespace?: string; labels?: Record<string, string> } }): boolean {
  return (
    pod.metadata.namespace === reservationNamespace && pod.metadata.labels?.[labelKeys.app] === reservationAppLabel
  );
}

/** The node on which a pod holds resources, or will hold them if it is a reservation pod that is not bound yet. */
export function nodeHeldBy(pod: {
  metadata: { namespace?: string; labels?: Record<string, string>; annotations?: Record<string, string> };
  spec?: { nodeName?: string };
}): string | undefined {
  const { nodeName = "" } = pod.spec ?? {};
  if (nodeName !== "") return nodeName;
  return isReservationPod(pod) ? pod.metadata.annotations?.[annotationKeys.reservesOn] : undefined;
}

/** The node pool that an object belongs to. */
export function nodePoolOf({
  metadata,
}: {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
}): string {
  return metadata.labels?.[labelKeys.nodePool] ?? "";
}

/** The epoch of the scheduler that a pod names; `none` when no leader changed while it was unscheduled. */
export function epochOf({ metadata }: { metadata: { annotations?: Record<string, string> } }): string {
  return metadata.annotations?.[annotationKeys.schedulerEpoch] ?? "none";
}

/** Ids of the GPU groups that a pod's labels name, in order. */
export function gpuGroupsOfLabels(labels: Readonly<Record<string, string>> | undefined): string[] {
  if (labels === undefined) return [];
  const single = labels[labelKeys.gpuGroup];
  if (single !== undefined) return [single];
  const groups: string[] = [];
  for (const key of Object.keys(labels)) {
    if (key.startsWith(labelKeys.gpuGroupPrefix)) groups.push(key.slice(labelKeys.gpuGroupPrefix.length));
  }
  return groups.sort();
}

/** Builders for tests: every field has a default.  */
import type { CloudSnapshot, CloudVolume, ScalingGroup } from "../../model/inventory/cloud.ts";
import type { AvailabilityNumbers, DiskRow, GpuTypeRow, ReservationRow } from "../../model/inventory/rows.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";

export const nowMs = Date.parse("2026-11-15T12:00:00Z");

export const noNumbers: AvailabilityNumbers = {
  totalClusterGpus: 0,
  availableGpus: 0,
  availableNow: 0,
  maxReservable: 0,
  fullNodesAvailable: 0,
  runningInstances: 0,
  desiredCapacity: 0,
  k8sAllocatableGpus: 0,
  schedulableGpus: 0,
  unmanagedNodes: 0,
  state: "unknown",
  source: "cloud",
  error: "",
  sizeEtas: {},
};

const multiNode = new Set(["h100", "h200", "b200", "a100"]);

export function gpuType(name: string, perNode: number, more: Partial<GpuTypeRow> = {}): GpuTypeRow {
  return {
    gpuType: name,
    instanceType: `${name}.large`,
    maxGpus: perNode,
    maxPerNode: perNode,
    isActive: true,
    resourceName: "nvidia.com/gpu",
    nodeLabelValue: null,
    multiNodeMax: multiNode.has(name) ? 4 : 1,
    slotsPerNode: 3,
    numbers: noNumbers,
    lastUpdateMs: null,
    ...more,
  };
}

/** A scaling group with running instances: `group("p-gpu-nodes-h100", ["i-1", "i-2"])`. */
export function group(name: string, instances: readonly string[], more: Partial<ScalingGroup> = {}): ScalingGroup {
  return {
    name,
    desiredCapacity: instances.length,
    instances: instances.map((id) => ({ id, type: "", lifecycleState: "InService", healthStatus: "Healthy" })),
    tags: {},
    ...more,
  };
}

export interface NodeOptions {
  readonly gpus?: number | string;
  readonly resource?: string;
  readonly instance?: string;
  readonly ready?: string;
  readonly unschedulable?: boolean;
  readonly taints?: readonly { key: string; effect: string }[];
  readonly capacity?: number;
  readonly heartbeat?: string;
  readonly more?: Readonly<Record<string, string>>;
}

export function node(name: string, type: string, options: NodeOptions = {}): Node {
  const { gpus = 8, resource = "nvidia.com/gpu", instance = `i-${name}`, ready = "True" } = options;
  const amounts = { [resource]: String(gpus), ...options.more };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { ...meta(name), labels: { GpuType: type } },
    spec: {
      providerID: `aws:///us-east-2a/${instance}`,
      ...(options.unschedulable === undefined ? {} : { unschedulable: options.unschedulable }),
      ...(options.taints === undefined ? {} : { taints: [...options.taints] }),
    },
    status: {
      allocatable: amounts,
      capacity: { ...amounts, [resource]: String(options.capacity ?? gpus) },
      conditions: [
        {
          type: "Ready",
          status: ready,
          ...(options.heartbeat === undefined ? {} : { lastHeartbeatTime: options.heartbeat }),
        },
      ],
    },
  } as Node;
}

export interface PodOptions {
  readonly phase?: string;
  readonly labels?: Record<string, string>;
  readonly spec?: object;
  readonly status?: object;
  readonly terminating?: boolean;
  readonly resource?: string;
}

export function pod(name: string, on: string, gpus: number, options: PodOptions = {}): Pod {
  const requests = gpus === 0 ? {} : { [options.resource ?? "nvidia.com/gpu"]: String(gpus) };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...meta(name),
      namespace: "default",
      ...(options.labels === undefined ? {} : { labels: options.labels }),
      ...(options.terminating === true ? { deletionTimestamp: "2026-11-15T11:59:00Z" } : {}),
    },
    spec: { nodeName: on, containers: [{ name: "main", resources: { requests } }], ...options.spec },
    status: { phase: options.phase ?? "Running", ...options.status },
  } as Pod;
}

function meta(name: string) {
  return { name, uid: `uid-${name}`, resourceVersion: "1", creationTimestamp: "2026-11-15T00:00:00Z" };
}

export function disk(name: string, more: Partial<DiskRow> = {}): DiskRow {
  return {
    diskId: `id-${name}`,
    userId: "ada",
    diskName: name,
    sizeGb: 100,
    inUse: false,
    reservationId: null,
    isBackingUp: false,
    isDeleted: false,
    snapshotCount: 0,
    volumeId: null,
    lastSnapshotMs: null,
    operationStatus: null,
    lastUpdatedMs: nowMs - 3_600_000,
    rowVersion: 1,
    claimExpiresMs: null,
    volumeState: null,
    missingSinceMs: null,
    ...more,
  };
}

export function volume(id: string, name: string, more: Partial<CloudVolume> = {}): CloudVolume {
  return {
    id,
    sizeGb: 100,
    state: "available",
    createdMs: nowMs - 86_400_000,
    snapshotId: "",
    attachments: [],
    tags: { "gpu-dev-user": "ada", disk_name: name },
    ...more,
  };
}

export function attached(id: string, name: string, state = "attached", more: Partial<CloudVolume> = {}): CloudVolume {
  return volume(id, name, { state: "in-use", attachments: [{ instanceId: "i-1", state }], ...more });
}

export function snapshot(id: string, volumeId: string, more: Partial<CloudSnapshot> = {}): CloudSnapshot {
  return { id, volumeId, state: "completed", startedMs: nowMs - 7_200_000, description: "", tags: {}, ...more };
}

export function reservation(id: string, more: Partial<ReservationRow> = {}): ReservationRow {
  return {
    reservationId: id,
    userId: "ada",
    status: "active",
    gpuType: "h100",
    gpuCount: 8,
    podName: null,
    namespace: "default",
    expiresMs: null,
    ...more,
  };
}

/** Converts rows of PostgreSQL to the model's types. Times are truncated to milliseconds, like those of the cloud. */
import type { AvailabilityNumbers, DiskRow, GpuTypeRow, ReservationRow } from "../../model/inventory/rows.ts";
import type { DriftView, RunView } from "../../ports/database.ts";

export type Row = Readonly<Record<string, unknown>>;

export const typeColumns = `gpu_type, instance_type, max_gpus, max_per_node, is_active, resource_name, node_label_value,
  multi_node_max, slots_per_node, total_cluster_gpus, available_gpus, available_now, max_reservable, full_nodes_available,
  running_instances, desired_capacity, k8s_allocatable_gpus, schedulable_gpus, unmanaged_nodes, availability_state,
  availability_source, availability_error, size_etas, last_availability_update, last_availability_updated_by, description`;

export const diskColumns = `disk_id::text, user_id, disk_name, size_gb, in_use, reservation_id, is_backing_up, is_deleted,
  snapshot_count, ebs_volume_id, last_snapshot_at, operation_status, last_updated, row_version, claim_expires_at,
  volume_state, missing_since`;

export function typeRow(row: Row): GpuTypeRow {
  return {
    gpuType: text(row["gpu_type"]),
    instanceType: text(row["instance_type"]),
    maxGpus: Number(row["max_gpus"]),
    maxPerNode: row["max_per_node"] === null ? null : Number(row["max_per_node"]),
    isActive: row["is_active"] === true,
    resourceName: text(row["resource_name"]),
    nodeLabelValue: row["node_label_value"] === null ? null : text(row["node_label_value"]),
    multiNodeMax: Number(row["multi_node_max"]),
    slotsPerNode: Number(row["slots_per_node"]),
    numbers: numbersOf(row),
    lastUpdateMs: msOf(row["last_availability_update"]),
  };
}

export function numbersOf(row: Row): AvailabilityNumbers {
  return {
    totalClusterGpus: Number(row["total_cluster_gpus"]),
    availableGpus: Number(row["available_gpus"]),
    availableNow: Number(row["available_now"]),
    maxReservable: Number(row["max_reservable"]),
    fullNodesAvailable: Number(row["full_nodes_available"]),
    runningInstances: Number(row["running_instances"]),
    desiredCapacity: Number(row["desired_capacity"]),
    k8sAllocatableGpus: Number(row["k8s_allocatable_gpus"]),
    schedulableGpus: Number(row["schedulable_gpus"]),
    unmanagedNodes: Number(row["unmanaged_nodes"]),
    state: row["availability_state"] as AvailabilityNumbers["state"],
    source: row["availability_source"] as AvailabilityNumbers["source"],
    error: text(row["availability_error"]),
    sizeEtas: row["size_etas"] as AvailabilityNumbers["sizeEtas"],
  };
}

export function diskRow(row: Row): DiskRow {
  return {
    diskId: text(row["disk_id"]),
    userId: text(row["user_id"]),
    diskName: text(row["disk_name"]),
    sizeGb: row["size_gb"] === null ? null : Number(row["size_gb"]),
    inUse: row["in_use"] === true,
    reservationId: textOrNull(row["reservation_id"]),
    isBackingUp: row["is_backing_up"] === true,
    isDeleted: row["is_deleted"] === true,
    snapshotCount: Number(row["snapshot_count"]),
    volumeId: textOrNull(row["ebs_volume_id"]),
    lastSnapshotMs: msOf(row["last_snapshot_at"]),
    operationStatus: textOrNull(row["operation_status"]),
    lastUpdatedMs: msOf(row["last_updated"]) ?? 0,
    rowVersion: Number(row["row_version"]),
    claimExpiresMs: msOf(row["claim_expires_at"]),
    volumeState: textOrNull(row["volume_state"]),
    missingSinceMs: msOf(row["missing_since"]),
  };
}

export function reservationRow(row: Row): ReservationRow {
  return {
    reservationId: text(row["reservation_id"]),
    userId: text(row["user_id"]),
    status: text(row["status"]),
    gpuType: text(row["gpu_type"] ?? "").toLowerCase(),
    gpuCount: Number(row["gpu_count"] ?? 0),
    podName: textOrNull(row["pod_name"]),
    namespace: text(row["namespace"] ?? "default"),
    expiresMs: msOf(row["expires_at"]),
  };
}

export function runView(row: Row): RunView {
  const account = textOrNull(row["aws_account"]);
  return {
    runId: text(row["run_id"]),
    kind: text(row["kind"]),
    startedMs: msOf(row["started_at"]) ?? 0,
    finishedMs: msOf(row["finished_at"]),
    fence: row["fence"] === null ? null : Number(row["fence"]),
    status: text(row["status"]),
    identity: account === null ? null : { account, region: text(row["aws_region"]) },
    counters: row["counters"] as RunView["counters"],
    error: text(row["error"]),
  };
}

export function driftView(row: Row): DriftView {
  return {
    id: Number(row["id"]),
    runId: text(row["run_id"]),
    atMs: msOf(row["at"]) ?? 0,
    closedMs: msOf(row["closed_at"]),
    entity: row["entity"] as DriftView["entity"],
    entityId: text(row["entity_id"]),
    field: text(row["field"]),
    old: textOrNull(row["old"]),
    new: textOrNull(row["new"]),
    action: row["action"] as DriftView["action"],
    reason: text(row["reason"]),
  };
}

export function msOf(value: unknown): number | null {
  return value instanceof Date ? value.getTime() : null;
}

export function text(value: unknown): string {
  return String(value);
}

export function textOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : String(value);
}

/**
 * The rows of the inventory's tables, as decisions read them. Times are milliseconds since 1970, cut to milliseconds.
 */

/** A GPU type that users can request. */
export interface GpuTypeRow {
  readonly gpuType: string;
  readonly instanceType: string;
  readonly maxGpus: number;
  /** GPUs of one node; 0 means a type without GPUs; null means `maxGpus`. The reconciler never writes it. */
  readonly maxPerNode: number | null;
  readonly isActive: boolean;
  /** The resource that pods request: `nvidia.com/gpu`, or a MIG profile. */
  readonly resourceName: string;
  /** The value of the node label `GpuType`; null means the type's own name. */
  readonly nodeLabelValue: string | null;
  /** How many whole nodes one reservation may span; 1 means a single node. */
  readonly multiNodeMax: number;
  /** The number of reservations on a node without GPUs. */
  readonly slotsPerNode: number;
  readonly numbers: AvailabilityNumbers;
  readonly lastUpdateMs: number | null;
}

/** What the reconciler writes about a type. */
export interface AvailabilityNumbers {
  readonly totalClusterGpus: number;
  readonly availableGpus: number;
  /** Free GPUs minus those of reservations that are being prepared. */
  readonly availableNow: number;
  readonly maxReservable: number;
  readonly fullNodesAvailable: number;
  readonly runningInstances: number;
  readonly desiredCapacity: number;
  readonly k8sAllocatableGpus: number;
  readonly schedulableGpus: number;
  readonly unmanagedNodes: number;
  readonly state: AvailabilityState;
  readonly source: AvailabilitySource;
  /** Why the numbers are not fresh; empty when they are. */
  readonly error: string;
  /** When a number of GPUs is free, by that number: `now`, a time, or `unknown`. */
  readonly sizeEtas: SizeEtas;
}

export type AvailabilityState = "fresh" | "stale" | "unknown";
export type AvailabilitySource = "cloud" | "k8s";
export type SizeEtas = Readonly<Record<string, string>>;

/** A user's disk: a name to which volumes are attached over time. */
export interface DiskRow {
  readonly diskId: string;
  readonly userId: string;
  readonly diskName: string;
  readonly sizeGb: number | null;
  readonly inUse: boolean;
  readonly reservationId: string | null;
  readonly isBackingUp: boolean;
  readonly isDeleted: boolean;
  readonly snapshotCount: number;
  readonly volumeId: string | null;
  readonly lastSnapshotMs: number | null;
  readonly operationStatus: string | null;
  readonly lastUpdatedMs: number;
  /** Incremented when the application changes the row; the precondition of a write. */
  readonly rowVersion: number;
  /** When a claim without an attached volume expires. */
  readonly claimExpiresMs: number | null;
  readonly volumeState: string | null;
  /** When a run first found the volume missing. */
  readonly missingSinceMs: number | null;
}

/** The columns of a disk that the reconciler may write. */
export interface DiskChange {
  readonly volumeId?: string;
  readonly sizeGb?: number;
  readonly inUse?: boolean;
  /** The reconciler clears reservations; it sets one only with a new row. */
  readonly reservationId?: null;
  readonly isBackingUp?: boolean;
  readonly snapshotCount?: number;
  readonly lastSnapshotMs?: number;
  readonly volumeState?: string;
  /** True sets `missing_since` to the database's clock; false clears it. */
  readonly missing?: boolean;
}

/** A disk that the cloud has and the database has not. */
export interface DiskImport {
  readonly userId: string;
  readonly diskName: string;
  readonly volumeId: string;
  readonly sizeGb: number;
  readonly createdMs: number;
  readonly inUse: boolean;
  readonly reservationId: string | null;
  readonly isBackingUp: boolean;
  readonly snapshotCount: number;
  readonly lastSnapshotMs: number | null;
  readonly volumeState: string;
}

/** The columns of a reservation that the inventory reads. */
export interface ReservationRow {
  readonly reservationId: string;
  readonly userId: string;
  readonly status: string;
  /** In lower case: some writers store `H100`. */
  readonly gpuType: string;
  readonly gpuCount: number;
  readonly podName: string | null;
  readonly namespace: string;
  readonly expiresMs: number | null;
}

/** Statuses of a reservation that may still hold a disk. */
export const liveReservationStatuses: readonly string[] = [
  "pending",
  "queued",
  "preparing",
  "creating_server",
  "active",
];

/** A difference between database, cloud and cluster. */
export interface DriftEvent {
  readonly entity: "gpu_type" | "disk" | "volume" | "group" | "node" | "run";
  readonly entityId: string;
  readonly field: string;
  readonly old: string | null;
  readonly new: string | null;
  readonly action: "applied" | "reported" | "refused";
  readonly reason: string;
}

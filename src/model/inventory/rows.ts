/**
 * The rows of the inventory's tables, as decisions read them. Times are milliseconds since 1970, cut to milliseconds.
 */

/** One kind of machine that users can ask for. */
export interface GpuTypeRow {
  readonly gpuType: string;
  readonly instanceType: string;
  readonly maxGpus: number;
  /**
   * GPUs of one node; 0 means a type without GPUs; null means `maxGpus`. The seed's: the reconciler never writes it.
   */
  readonly maxPerNode: number | null;
  readonly isActive: boolean;
  /** What pods ask for: `nvidia.com/gpu`, or a slice of one. */
  readonly resourceName: string;
  /** The value of the node label `GpuType`; null means the type's own name. */
  readonly nodeLabelValue: string | null;
  /** How many whole nodes one reservation may span; 1 means a single node. */
  readonly multiNodeMax: number;
  /** Reservations that a node without GPUs takes. */
  readonly slotsPerNode: number;
  readonly numbers: AvailabilityNumbers;
  readonly lastUpdateMs: number | null;
}

/** What the reconciler writes about a type. */
export interface AvailabilityNumbers {
  readonly totalClusterGpus: number;
  readonly availableGpus: number;
  /** Free, less what reservations that are being prepared will take. */
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
  /** GPUs to the moment when that many are free: `now`, a time, or `unknown`. */
  readonly sizeEtas: SizeEtas;
}

export type AvailabilityState = "fresh" | "stale" | "unknown";
export type AvailabilitySource = "cloud" | "k8s";
export type SizeEtas = Readonly<Record<string, string>>;

/** A user's disk: a name. Volumes come and go under it. */
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
  /** Grows whenever the application changes the row; what a write is compared with. */
  readonly rowVersion: number;
  /** Until when a claim without an attached volume is believed. */
  readonly claimExpiresMs: number | null;
  readonly volumeState: string | null;
  /** When a run first found the volume gone. */
  readonly missingSinceMs: number | null;
}

/** The columns of a disk that the reconciler may write: a fixed list, so that no name of a column comes from data. */
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
  /** True marks the row as missing from now on by the database's clock; false forgets it. */
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

/** As much of a reservation as the inventory needs. */
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

/** Database, cloud and cluster disagree: one report. */
export interface DriftEvent {
  readonly entity: "gpu_type" | "disk" | "volume" | "group" | "node" | "run";
  readonly entityId: string;
  readonly field: string;
  readonly old: string | null;
  readonly new: string | null;
  readonly action: "applied" | "reported" | "refused";
  readonly reason: string;
}

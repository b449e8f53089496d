import type { CloudIdentity } from "../model/inventory/cloud.ts";
import type { AvailabilityNumbers, DiskRow, DriftEvent, GpuTypeRow, ReservationRow } from "../model/inventory/rows.ts";
import type { DiskWrite, SnapshotBase, TypeWrite, WriteOutcome } from "../model/inventory/writes.ts";

/** The answer of the database, or why there is none. No call throws when the database is down. */
export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      /** Fenced: a newer run has the lock, and this one must not write any more. */
      readonly reason: "Unavailable" | "Fenced" | "Refused";
      readonly why: string;
    };

/** The remaining time of a run in milliseconds; undefined: no limit. */
export type TimeLeft = () => number | undefined;

/** The database of the reconciler: one writer at a time, and every write checks its fence. */
export interface InventoryDatabase {
  /** Takes the lock and a fencing token that is greater than any before. */
  begin(start: RunStart): Promise<Answer<Beginning>>;
  /** Reads without lock or fence: for a dry run. */
  look(timeLeftMs?: TimeLeft): InventoryReads;
}

export interface RunStart {
  readonly kind: RunKind;
  readonly updatedBy: string;
  /** Start although the inventory is paused. */
  readonly evenIfPaused?: boolean;
  /** The remaining time of the run; statements that take longer are cancelled. Undefined: no limit. */
  readonly timeLeftMs?: TimeLeft;
}

export type RunKind = "all" | "gpu" | "disks";

export type Beginning =
  | { readonly status: "begun"; readonly run: InventoryRun }
  | { readonly status: "locked" }
  | { readonly status: "paused"; readonly by: string; readonly reason: string };

export interface InventoryReads {
  types(): Promise<Answer<TypesRead>>;
  disks(): Promise<Answer<DisksRead>>;
}

export interface TypesRead {
  readonly types: readonly GpuTypeRow[];
  /** Types that may still have capacity. */
  readonly reservations: readonly ReservationRow[];
  /** The database's clock. */
  readonly nowMs: number;
}

export interface DisksRead {
  readonly rows: readonly DiskRow[];
  readonly reservations: readonly ReservationRow[];
  /** Undefined when there is no list of users. */
  readonly knownUsers: readonly string[] | undefined;
  /** The reading of the last run that accepted a listing of the cloud's volumes, however that run ended. */
  readonly lastReading: VolumesReading | undefined;
  readonly snapshotPass: SnapshotMemory | undefined;
  readonly nowMs: number;
}

/** How many volumes a cloud listed, and which cloud. */
export interface VolumesReading {
  readonly volumes: number;
  readonly identity: CloudIdentity;
}

/** The state after the last full read of the snapshots. */
export interface SnapshotMemory {
  readonly fullAtMs: number;
  readonly baseBeforeMs: number;
  readonly bases: ReadonlyMap<string, SnapshotBase>;
}

export interface InventoryRun extends InventoryReads {
  readonly runId: string;
  readonly fence: number;
  /** Records an accepted listing before any write that depends on it, so that it survives a killed run. */
  recordReading(reading: VolumesReading): Promise<Answer<undefined>>;
  /** All types in one transaction. */
  writeTypes(types: readonly TypeWrite[], drift: readonly DriftEvent[]): Promise<Answer<TypesWritten>>;
  /** One batch is one transaction. A row that cannot be written fails alone. */
  writeDisks(writes: readonly DiskWrite[]): Promise<Answer<readonly WriteOutcome[]>>;
  /**
   * Drift that was found and not repaired. An open report is not written again; one that is not found again is closed.
   */
  report(
    phase: "gpu" | "disks",
    reports: readonly DriftEvent[],
  ): Promise<Answer<{ readonly opened: number; readonly closed: number }>>;
  rememberSnapshots(memory: SnapshotMemory): Promise<Answer<{ readonly written: number }>>;
  /** Adds to the record how the run ended; a reading that was recorded stays. */
  finish(end: RunEnd): Promise<Answer<undefined>>;
  /** Releases the lock; safe to call twice, and after any error. */
  release(): Promise<void>;
}

export interface TypesWritten {
  /** Rows whose numbers changed. */
  readonly written: number;
  /** Rows of which only the time of the read has changed. */
  readonly confirmed: number;
  /** Types of the plan that the table no longer has. */
  readonly unknown: readonly string[];
}

export type RunStatus = "ok" | "partial" | "failed" | "skipped" | "refused" | "deadline";

export interface RunEnd {
  readonly status: RunStatus;
  readonly identity?: CloudIdentity;
  readonly cloudReadMs?: number;
  readonly clusterRevision?: string;
  readonly counters: Readonly<Record<string, unknown>>;
  readonly error: string;
}

/** The database for reports and other programs. */
export interface InventoryReader {
  availability(): Promise<Answer<AvailabilityView>>;
  disks(filter: { readonly user?: string; readonly deleted?: boolean }): Promise<Answer<readonly DiskView[]>>;
  runs(limit: number): Promise<Answer<readonly RunView[]>>;
  run(runId: string): Promise<Answer<RunView | undefined>>;
  drift(filter: DriftFilter): Promise<Answer<readonly DriftView[]>>;
  pause(by: string, reason: string): Promise<Answer<undefined>>;
  resume(by: string): Promise<Answer<undefined>>;
  paused(): Promise<Answer<{ readonly by: string; readonly reason: string; readonly sinceMs: number } | undefined>>;
}

export interface AvailabilityView {
  /** All rows are of one statement, and so of one run. */
  readonly readMs: number;
  readonly types: readonly {
    readonly gpuType: string;
    readonly instanceType: string;
    readonly maxPerNode: number;
    readonly parent: string | null;
    readonly description: string;
    readonly numbers: AvailabilityNumbers;
    readonly lastUpdateMs: number | null;
    readonly updatedBy: string | null;
    readonly queued: number;
    readonly inUse: number;
  }[];
}

export interface DiskView extends DiskRow {
  readonly createdMs: number;
  readonly lastUsedMs: number | null;
  readonly diskSize: string | null;
  readonly deleteDate: string | null;
  readonly conflicts: readonly string[];
}

export interface RunView {
  readonly runId: string;
  readonly kind: string;
  readonly startedMs: number;
  readonly finishedMs: number | null;
  readonly fence: number | null;
  readonly status: string;
  readonly identity: CloudIdentity | null;
  readonly counters: Readonly<Record<string, unknown>>;
  readonly error: string;
}

export interface DriftFilter {
  readonly entity?: string;
  readonly entityId?: string;
  readonly runId?: string;
  /** Only open reports. */
  readonly open?: boolean;
  readonly limit: number;
}

export interface DriftView extends DriftEvent {
  readonly id: number;
  readonly runId: string;
  readonly atMs: number;
  readonly closedMs: number | null;
}

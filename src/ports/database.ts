import type { CloudIdentity } from "../model/inventory/cloud.ts";
import type { AvailabilityNumbers, DiskRow, DriftEvent, GpuTypeRow, ReservationRow } from "../model/inventory/rows.ts";
import type { DiskWrite, SnapshotBase, TypeWrite, WriteOutcome } from "../model/inventory/writes.ts";

/** The answer of the database, or why there is none. Nothing here throws on a database that is down. */
export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      /** Fenced: a newer run writes now, and this one must not any more. */
      readonly reason: "Unavailable" | "Fenced" | "Refused";
      readonly why: string;
    };

/** What is left of a run's time in milliseconds; undefined: no bound. */
export type TimeLeft = () => number | undefined;

/** The database as the reconciler needs it: one writer at a time, and every write proves that it still is that one. */
export interface InventoryDatabase {
  /** Takes the lock and a fence that is greater than any before. */
  begin(start: RunStart): Promise<Answer<Beginning>>;
  /** Reads without lock or fence: for a dry run. */
  look(timeLeftMs?: TimeLeft): InventoryReads;
}

export interface RunStart {
  readonly kind: RunKind;
  readonly updatedBy: string;
  /** Begin although the inventory is paused. */
  readonly evenIfPaused?: boolean;
  /** What is left of the run's time; statements that take longer are given up. Undefined: no bound. */
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
  /** Those that may still hold something. */
  readonly reservations: readonly ReservationRow[];
  /** The database's clock. */
  readonly nowMs: number;
}

export interface DisksRead {
  readonly rows: readonly DiskRow[];
  readonly reservations: readonly ReservationRow[];
  /** Undefined when there is no list of users. */
  readonly knownUsers: readonly string[] | undefined;
  /** Of the last run that read the cloud's volumes and believed the listing, however that run ended. */
  readonly lastReading: VolumesReading | undefined;
  readonly snapshotPass: SnapshotMemory | undefined;
  readonly nowMs: number;
}

/** How many volumes a cloud listed, and which cloud. */
export interface VolumesReading {
  readonly volumes: number;
  readonly identity: CloudIdentity;
}

/** What the last full pass over snapshots left behind. */
export interface SnapshotMemory {
  readonly fullAtMs: number;
  readonly baseBeforeMs: number;
  readonly bases: ReadonlyMap<string, SnapshotBase>;
}

export interface InventoryRun extends InventoryReads {
  readonly runId: string;
  readonly fence: number;
  /**
   * Keeps a listing that was believed, before anything is done because of it: a run that is killed has read it all the
   * same.
   */
  recordReading(reading: VolumesReading): Promise<Answer<undefined>>;
  /** All types in one transaction. */
  writeTypes(types: readonly TypeWrite[], drift: readonly DriftEvent[]): Promise<Answer<TypesWritten>>;
  /** One batch is one transaction: whole or absent. A row that cannot be written fails alone. */
  writeDisks(writes: readonly DiskWrite[]): Promise<Answer<readonly WriteOutcome[]>>;
  /**
   * What was found and not changed. A report that is already open is not written again; one that is not made again
   * ends.
   */
  report(
    phase: "gpu" | "disks",
    reports: readonly DriftEvent[],
  ): Promise<Answer<{ readonly opened: number; readonly closed: number }>>;
  rememberSnapshots(memory: SnapshotMemory): Promise<Answer<{ readonly written: number }>>;
  /** Adds to the record how the run ended; a reading that was recorded stays. */
  finish(end: RunEnd): Promise<Answer<undefined>>;
  /** Gives the lock back; safe to call twice, and after anything. */
  release(): Promise<void>;
}

export interface TypesWritten {
  /** Rows whose numbers changed. */
  readonly written: number;
  /** Rows of which only the time of the look is new. */
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

/** The database as people and programs read it. */
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
  /** Only reports that still hold. */
  readonly open?: boolean;
  readonly limit: number;
}

export interface DriftView extends DriftEvent {
  readonly id: number;
  readonly runId: string;
  readonly atMs: number;
  readonly closedMs: number | null;
}

/**
 * The inventory's tables in memory, with the triggers, keys and checks of the real ones. Each change is atomic, as a
 * transaction is; delays and lost answers are added around it.
 */
import type { CloudIdentity } from "../../model/inventory/cloud.ts";
import type { DiskRow, DriftEvent, GpuTypeRow, ReservationRow } from "../../model/inventory/rows.ts";
import type { DiskWrite, SnapshotBase } from "../../model/inventory/writes.ts";
import type { DriftView, RunView } from "../../ports/database.ts";

export type MutableDisk = { -readonly [Key in keyof DiskRow]: DiskRow[Key] } & { createdMs: number };

/** A constraint was violated, as in the real database. */
export class ConstraintError extends Error {}

export interface MemoryRun {
  runId: string;
  kind: string;
  startedMs: number;
  finishedMs: number | null;
  fence: number | null;
  status: string;
  identity: CloudIdentity | null;
  counters: Readonly<Record<string, unknown>>;
  error: string;
}

export class MemoryTables {
  readonly types = new Map<string, GpuTypeRow>();
  readonly reservations = new Map<string, ReservationRow>();
  readonly users = new Set<string>();
  readonly disks = new Map<string, MutableDisk>();
  readonly runs: MemoryRun[] = [];
  readonly drift: (DriftView & { phase: string })[] = [];
  readonly bases = new Map<string, SnapshotBase>();
  snapshots: { fullAtMs: number; baseBeforeMs: number } | undefined;
  fence = 0;
  lockedBy: object | undefined;
  paused: { by: string; reason: string; sinceMs: number } | undefined;
  /** Called for every row that was written, with its state before. */
  onDisk: (before: DiskRow | undefined, after: DiskRow, by: string) => void = () => {};
  readonly nowMs: () => number;
  private ids = 0;

  constructor(nowMs: () => number) {
    this.nowMs = nowMs;
  }

  nextId(kind: string): string {
    return `${kind}-${String(++this.ids).padStart(6, "0")}`;
  }

  disk(user: string, name: string): MutableDisk | undefined {
    for (const row of this.disks.values()) if (row.userId === user && row.diskName === name) return row;
    return undefined;
  }

  /** Returns undefined when the name or the volume is taken: `on conflict do nothing`. */
  insertDisk(
    row: Omit<DiskRow, "diskId" | "rowVersion" | "lastUpdatedMs">,
    createdMs: number,
    by: string,
  ): MutableDisk | undefined {
    if (this.disk(row.userId, row.diskName) !== undefined) return undefined;
    if (row.volumeId !== null && this.holdsVolume(row.volumeId, "")) return undefined;
    const diskId = this.nextId("disk");
    const made: MutableDisk = { ...row, diskId, rowVersion: 1, lastUpdatedMs: this.nowMs(), createdMs };
    this.check(made);
    this.disks.set(diskId, made);
    this.onDisk(undefined, { ...made }, by);
    return made;
  }

  /** An UPDATE with its triggers. Throws ConstraintError, and then nothing has changed. */
  updateDisk(diskId: string, change: Partial<MutableDisk>, by: string): void {
    const before = this.disks.get(diskId);
    if (before === undefined) return;
    const after: MutableDisk = { ...before, ...change, lastUpdatedMs: this.nowMs() };
    const versioned = versionColumns.some((column) => before[column] !== after[column]);
    after.rowVersion = versioned ? before.rowVersion + 1 : before.rowVersion;
    const twin = this.disk(after.userId, after.diskName);
    if (twin !== undefined && twin.diskId !== diskId) throw new ConstraintError("user_id and disk_name are taken");
    if (after.volumeId !== null && !after.isDeleted && this.holdsVolume(after.volumeId, diskId)) {
      throw new ConstraintError("another row has this volume");
    }
    this.check(after);
    this.disks.set(diskId, after);
    this.onDisk(before, { ...after }, by);
  }

  private holdsVolume(volumeId: string, except: string): boolean {
    for (const row of this.disks.values()) {
      if (row.volumeId === volumeId && !row.isDeleted && row.diskId !== except) return true;
    }
    return false;
  }

  private check(row: MutableDisk): void {
    if (row.snapshotCount < 0 || (row.sizeGb !== null && row.sizeGb < 0))
      throw new ConstraintError("a count below zero");
    if (row.reservationId !== null && !this.reservations.has(row.reservationId)) {
      throw new ConstraintError(`there is no reservation ${row.reservationId}`);
    }
  }

  addDrift(runId: string, phase: string, event: DriftEvent): void {
    this.drift.push({ ...event, phase, id: this.drift.length + 1, runId, atMs: this.nowMs(), closedMs: null });
  }

  /** Writes one row as the reconciler asked, if it still is as it was read. */
  apply(write: DiskWrite, by: string): boolean {
    if (write.kind === "insert") {
      const { createdMs, ...row } = write.row;
      const reservationId =
        row.reservationId !== null && this.reservations.has(row.reservationId) ? row.reservationId : null;
      const free = { isDeleted: false, operationStatus: null, claimExpiresMs: null, missingSinceMs: null };
      return this.insertDisk({ ...row, ...free, reservationId }, createdMs, by) !== undefined;
    }
    const row = this.disks.get(write.diskId);
    if (row === undefined || row.rowVersion !== write.rowVersion) return false;
    const { missing, ...change } = write.change;
    const mark = missing === undefined ? {} : { missingSinceMs: missing ? this.nowMs() : null };
    this.updateDisk(write.diskId, { ...change, ...mark }, by);
    return true;
  }

  view(run: MemoryRun): RunView {
    return { ...run };
  }
}

/** What the trigger of the real table compares. */
const versionColumns = [
  "diskName",
  "userId",
  "inUse",
  "reservationId",
  "isBackingUp",
  "isDeleted",
  "volumeId",
  "operationStatus",
  "claimExpiresMs",
] as const;

/**
 * Plans the writes to the disks table: one decision for every volume and every row, from one read of the database and
 * then one of the cloud. A volume that is not listed is not taken as deleted: it must be missing in two reads of this
 * run and in an earlier run. A claim that has not expired is never cleared, and each write carries the version of the
 * row that it was decided on.
 */
import type { CloudVolume, VolumeModification } from "../../model/inventory/cloud.ts";
import {
  type DiskChange,
  type DiskImport,
  type DiskRow,
  type DriftEvent,
  liveReservationStatuses,
  type ReservationRow,
} from "../../model/inventory/rows.ts";
import type { DiskWrite } from "../../model/inventory/writes.ts";
import { type Bucket, type DiskTally, type ExtraCounter, noCounters } from "./diskCounters.ts";
import type { DiskMatches, VolumeMatch } from "./matchDisks.ts";
import type { Read } from "./planAvailability.ts";
import { holdOf, isQuarantined, type VolumeTags } from "./readVolume.ts";
import type { SnapshotSets, SnapshotSummary } from "./snapshotSets.ts";

export interface DiskInput {
  readonly rows: readonly DiskRow[];
  readonly matches: DiskMatches;
  /** Reservations that may still hold a disk, by id. */
  readonly reservations: ReadonlyMap<string, ReservationRow>;
  readonly snapshots: Read<SnapshotSets>;
  /** Volumes and users whose snapshots are unknown, when only a part of the read failed. */
  readonly snapshotsUnknown?: ReadonlySet<string>;
  readonly modifications: ReadonlyMap<string, VolumeModification>;
  /** Looked up a second time, and missing again. */
  readonly confirmedAbsent: { readonly volumeIds: ReadonlySet<string>; readonly users: ReadonlySet<string> };
  /** The database's clock when the rows were read. */
  readonly nowMs: number;
  readonly rules: DiskRules;
}

export interface DiskRules {
  /** How long a claim without an attached volume is valid, when the row has no expiry. */
  readonly leaseMs: number;
  /** A claim on a disk without a volume is checked only when the row has been unchanged for this time. */
  readonly staleClaimMs: number;
  readonly operationMsMax: number;
  /** How long a volume must have been missing before it counts as deleted. */
  readonly missingMs: number;
}

export const diskRulesDefault: DiskRules = {
  leaseMs: 30 * 60_000,
  staleClaimMs: 10 * 60_000,
  operationMsMax: 60 * 60_000,
  missingMs: 0,
};

export interface DiskPlan {
  readonly writes: readonly DiskWrite[];
  readonly reports: readonly DriftEvent[];
  readonly tally: DiskTally;
}

export function planDisks(input: DiskInput): DiskPlan {
  return new Planner(input).plan();
}

class Planner {
  private readonly input: DiskInput;
  private readonly writes: DiskWrite[] = [];
  private readonly reports: DriftEvent[] = [];
  private readonly buckets = new Map<string, Bucket>();
  private readonly also: Record<ExtraCounter, number> = noCounters();

  constructor(input: DiskInput) {
    this.input = input;
  }

  plan(): DiskPlan {
    const { matches, rows } = this.input;
    for (const match of matches.volumes) this.buckets.set(match.volume.id, this.decideVolume(match));
    for (const row of matches.duplicateRows) {
      this.also.db_duplicate++;
      this.report("disk", nameOf(row), "ebs_volume_id", `db_duplicate: ${row.volumeId} is matched with another row`);
    }
    let active = 0;
    let deleted = 0;
    let unlinked = 0;
    for (const { row, successor } of matches.unmatched) {
      const taken = successor !== undefined && this.willLink(row);
      if (row.isDeleted && row.volumeId !== null) deleted++;
      else if (taken) continue;
      else if (row.volumeId === null) unlinked++;
      else active++;
      // A row with a successor was decided together with that volume.
      if (successor === undefined) this.decideUnmatched(row);
    }
    const tally: DiskTally = {
      buckets: this.buckets,
      also: this.also,
      rows: { all: rows.length, orphanedActive: active, orphanedDeleted: deleted, unlinked },
    };
    return { writes: this.writes, reports: this.reports, tally };
  }

  // --- volumes

  private decideVolume(match: VolumeMatch): Bucket {
    const { volume } = match;
    if (isQuarantined(volume)) {
      this.also.quarantined_seen++;
      this.report("volume", volume.id, "gpu-dev-quarantined", "quarantined_seen: tagged by an older service");
    }
    switch (match.is) {
      case "linked":
        return this.decideLinked(match.volume, match.row, match.tags);
      case "ofName":
        return this.decideLink(match.volume, match.row);
      case "new":
        return this.decideImport(match.volume, match.tags);
      case "duplicate": {
        const { sizeGb, createdMs } = volume;
        const created = new Date(createdMs).toISOString();
        const what = `${sizeGb} GiB, created ${created}, ${holdOf(volume)}, ${this.snapshotsOf(volume.id)} snapshots`;
        this.report("volume", volume.id, "disk", `duplicates: ${show(match.tags)}: ${match.why} (${what})`);
        // Reported for the disk as well, because that is where its owner looks.
        this.report(
          "disk",
          show(match.tags),
          "ebs_volume_id",
          `duplicates: ${volume.id} is another volume of this disk`,
        );
        return "duplicates";
      }
      case "nameHeldByDeleted":
        this.report(
          "volume",
          volume.id,
          "disk",
          `name_held_by_deleted: ${show(match.tags)} is the name of a deleted disk`,
        );
        return "name_conflict";
      case "transient":
        if (volume.state === "error") this.report("volume", volume.id, "state", "the volume is in state error");
        return "skipped_transient";
      case "missingTags":
        return "skipped_missing_tags";
      case "invalid":
        this.report("volume", volume.id, "disk", `skipped_invalid: ${match.why}`);
        return "skipped_invalid";
    }
  }

  private decideLinked(volume: CloudVolume, row: DiskRow, tags: VolumeTags | undefined): Bucket {
    if (this.inFlight(row)) return "skipped_in_flight";
    if (row.isDeleted) {
      this.also.deleted_but_present++;
      this.report("disk", nameOf(row), "ebs_volume_id", `deleted_but_present: the volume ${volume.id} still exists`);
    }
    if (tags !== undefined && tags.user !== row.userId) {
      this.also.owner_conflict++;
      this.report("disk", nameOf(row), "user_id", `owner_conflict: the tags of ${volume.id} say ${tags.user}`);
    } else if (tags !== undefined && tags.disk !== row.diskName) {
      this.also.tag_drift++;
      this.report("disk", nameOf(row), "disk_name", `tag_drift: the tags of ${volume.id} say ${tags.disk}`);
    }
    return this.write(row, this.sync(volume, row), volume.id, `synced with ${volume.id}`) ? "updated" : "synced";
  }

  private decideLink(volume: CloudVolume, row: DiskRow): Bucket {
    if (this.inFlight(row)) return "skipped_in_flight";
    if (row.volumeId !== null && !this.isDeletedVolume(row)) {
      this.markMissing(row);
      return "skipped_unconfirmed";
    }
    const why = row.volumeId === null ? `linked to ${volume.id}` : `replaced: ${row.volumeId} was deleted`;
    const { snapshots } = this.input;
    if (volume.snapshotId !== "" && snapshots.ok && snapshots.value.belongs(volume.snapshotId, row.diskId) !== true) {
      this.also.lineage_mismatch++;
      const text = `lineage_mismatch: ${volume.id} was created from ${volume.snapshotId}, which is not a snapshot of this disk`;
      this.report("disk", nameOf(row), "ebs_volume_id", text);
    }
    this.also[row.volumeId === null ? "linked" : "replaced"]++;
    this.write(row, { ...this.sync(volume, row), volumeId: volume.id }, volume.id, why);
    return "updated";
  }

  private decideImport(volume: CloudVolume, tags: VolumeTags): Bucket {
    const held = holdOf(volume) === "held";
    const reservation = tags.reservation === undefined ? undefined : this.input.reservations.get(tags.reservation);
    const isLive = reservation !== undefined && liveReservationStatuses.includes(reservation.status);
    const found = this.snapshots(`new:${volume.id}`, volume.id, tags.user);
    const row: DiskImport = {
      userId: tags.user,
      diskName: tags.disk,
      volumeId: volume.id,
      sizeGb: volume.sizeGb,
      createdMs: volume.createdMs,
      inUse: held,
      reservationId: held && isLive ? reservation.reservationId : null,
      isBackingUp: found?.isBackingUp ?? false,
      snapshotCount: found?.completed ?? 0,
      lastSnapshotMs: found?.lastCompletedMs ?? null,
      volumeState: volume.state,
    };
    const drift: DriftEvent = {
      entity: "disk",
      entityId: `${tags.user}/${tags.disk}`,
      field: "ebs_volume_id",
      old: null,
      new: volume.id,
      action: "applied",
      reason: "imported: the volume is in the cloud and was not in the database",
    };
    this.writes.push({ kind: "insert", row, volumeId: volume.id, drift: [drift] });
    return "created";
  }

  // --- rows without a volume

  private decideUnmatched(row: DiskRow): void {
    if (row.isDeleted) return;
    if (this.inFlight(row)) {
      this.also.skipped_in_flight_rows++;
      return;
    }
    const claimed = row.inUse || row.reservationId !== null;
    const found = this.snapshots(row.diskId, row.volumeId ?? "", row.userId);
    const change: DiskChange = found === undefined ? {} : snapshotChange(row, found);
    const isHeldElsewhere = this.input.matches.heldElsewhere.has(row.diskId);
    if (!claimed && row.volumeId !== null && row.missingSinceMs === null && !isHeldElsewhere) {
      this.markMissing(row, change, `the volume ${row.volumeId} is missing`);
      return;
    }
    if (!claimed || this.hasLiveClaim(row) || isHeldElsewhere) {
      this.write(row, change, undefined, "synced with its snapshots");
      return;
    }
    const released: DiskChange = {
      ...change,
      ...(row.inUse ? { inUse: false } : {}),
      ...(row.reservationId === null ? {} : { reservationId: null }),
    };
    if (row.volumeId === null) {
      const still = this.input.nowMs - row.lastUpdatedMs >= this.input.rules.staleClaimMs;
      if (!still || !this.input.confirmedAbsent.users.has(row.userId)) {
        this.write(row, change, undefined, "synced with its snapshots");
        return;
      }
      this.also.stale_claim++;
      this.write(row, released, undefined, "stale_claim: the disk has no volume, and its reservation has ended");
    } else if (this.isDeletedVolume(row)) {
      this.write(
        row,
        released,
        undefined,
        `orphaned: the volume ${row.volumeId} was deleted, and no reservation claims the disk`,
      );
    } else this.markMissing(row, change);
  }

  /** Missing in two reads of this run, and in an earlier run. */
  private isDeletedVolume(row: DiskRow): boolean {
    const { volumeId, missingSinceMs } = row;
    if (volumeId === null || !this.input.confirmedAbsent.volumeIds.has(volumeId)) return false;
    if (missingSinceMs === null || isMarkedBeforeClaim(row)) return false;
    return this.input.nowMs - missingSinceMs >= this.input.rules.missingMs;
  }

  private willLink(row: DiskRow): boolean {
    return (row.volumeId === null || this.isDeletedVolume(row)) && !this.isInFlight(row);
  }

  private markMissing(
    row: DiskRow,
    change: DiskChange = {},
    why = `the volume ${row.volumeId} is missing; the claim is cleared if the next run does not find it either`,
  ): void {
    if (row.volumeId === null || !this.input.confirmedAbsent.volumeIds.has(row.volumeId)) {
      this.also.reappeared++;
      this.write(row, change, undefined, "synced with its snapshots");
      return;
    }
    const isNew = row.missingSinceMs === null || isMarkedBeforeClaim(row);
    const mark = isNew ? { missing: true, volumeState: "missing" } : {};
    if (isNew) this.also.marked_missing++;
    this.write(row, { ...change, ...mark }, undefined, why);
  }

  // --- shared

  private inFlight(row: DiskRow): boolean {
    if (this.isInFlight(row)) return true;
    if (isRunning(row.operationStatus)) {
      this.also.stale_operation++;
      this.report(
        "disk",
        nameOf(row),
        "operation_status",
        `stale_operation: operation_status is ${row.operationStatus} for more than ${this.input.rules.operationMsMax / 60_000} minutes: check that operation`,
      );
    }
    return false;
  }

  private isInFlight({ operationStatus, lastUpdatedMs }: DiskRow): boolean {
    const young = this.input.nowMs - lastUpdatedMs < this.input.rules.operationMsMax;
    return isRunning(operationStatus) && young;
  }

  private hasLiveClaim(row: DiskRow): boolean {
    const { nowMs, rules, reservations } = this.input;
    if (nowMs >= (row.claimExpiresMs ?? row.lastUpdatedMs + rules.leaseMs)) return false;
    if (row.reservationId === null) return row.inUse && row.claimExpiresMs !== null;
    const reservation = reservations.get(row.reservationId);
    return reservation !== undefined && liveReservationStatuses.includes(reservation.status);
  }

  private sync(volume: CloudVolume, row: DiskRow): DiskChange {
    const change: { -readonly [Key in keyof DiskChange]: DiskChange[Key] } = {};
    if (volume.sizeGb !== row.sizeGb) {
      // A resize that fails restores the old size, so the new size is written only when the resize cannot fail any
      // more.
      const modification = this.input.modifications.get(volume.id);
      if (modification?.state === "modifying") {
        this.also.resizing++;
        this.report("disk", nameOf(row), "size_gb", `resizing to ${modification.targetSizeGb} GiB`);
      } else change.sizeGb = volume.sizeGb;
    }
    if (volume.state !== row.volumeState) change.volumeState = volume.state;
    if (row.missingSinceMs !== null) change.missing = false;
    const hold = holdOf(volume);
    if (hold === "held" && !row.inUse) change.inUse = true;
    // No claim explains the attachment, or only a claim that an earlier run wrote because of it.
    if (hold === "held" && (!row.inUse || (row.reservationId === null && !this.hasLiveClaim(row)))) {
      this.also.unexpected_attach++;
      const by = volume.attachments.map(({ instanceId, state }) => `${instanceId} ${state}`).join(", ");
      this.report("disk", nameOf(row), "in_use", `unexpected_attach: ${volume.id} is attached to ${by}`);
    }
    const claimed = row.inUse || row.reservationId !== null;
    if (hold === "free" && claimed) {
      if (this.hasLiveClaim(row) || this.input.matches.heldElsewhere.has(row.diskId)) this.also.claims_kept++;
      else {
        if (row.inUse) change.inUse = false;
        if (row.reservationId !== null) change.reservationId = null;
      }
    }
    const found = this.snapshots(row.diskId, volume.id, row.userId);
    return found === undefined ? change : { ...change, ...snapshotChange(row, found) };
  }

  /** Undefined when the snapshots of this disk could not be read; their columns are then not written. */
  private snapshots(key: string, volumeId: string, user: string): SnapshotSummary | undefined {
    const { snapshots, snapshotsUnknown } = this.input;
    if (!snapshots.ok || snapshotsUnknown?.has(volumeId) === true || snapshotsUnknown?.has(user) === true) {
      this.also.snapshot_unknown++;
      return undefined;
    }
    const found = snapshots.value.summary(key);
    for (const id of found?.failed ?? []) this.report("volume", volumeId, "snapshot", `the snapshot ${id} failed`);
    return found;
  }

  private snapshotsOf(volumeId: string): string {
    const { snapshots, snapshotsUnknown } = this.input;
    if (!snapshots.ok || snapshotsUnknown?.has(volumeId) === true) return "unknown";
    return String(snapshots.value.summary(`other:${volumeId}`)?.completed ?? 0);
  }

  /** Plans a write of the changed columns, with its reason. Returns whether any column changed. */
  private write(row: DiskRow, change: DiskChange, volumeId: string | undefined, reason: string): boolean {
    if (Object.keys(change).length === 0) return false;
    const drift = driftOf(row, change, reason);
    this.writes.push({ kind: "update", diskId: row.diskId, rowVersion: row.rowVersion, change, volumeId, drift });
    return true;
  }

  private report(entity: DriftEvent["entity"], entityId: string, field: string, reason: string): void {
    this.reports.push({ entity, entityId, field, old: null, new: null, action: "reported", reason });
  }
}

function snapshotChange(row: DiskRow, found: SnapshotSummary): DiskChange {
  const { completed, isBackingUp, lastCompletedMs } = found;
  return {
    ...(completed === row.snapshotCount ? {} : { snapshotCount: completed }),
    ...(isBackingUp === row.isBackingUp ? {} : { isBackingUp }),
    // The time only moves forward: deleting old snapshots does not change when the last one was taken.
    ...(lastCompletedMs === undefined || lastCompletedMs <= (row.lastSnapshotMs ?? -1)
      ? {}
      : { lastSnapshotMs: lastCompletedMs }),
  };
}

function driftOf(row: DiskRow, change: DiskChange, reason: string): DriftEvent[] {
  const found: DriftEvent[] = [];
  const add = (field: string, old: unknown, now: unknown): void => {
    const text = (value: unknown): string | null => (value === null || value === undefined ? null : String(value));
    found.push({ ...applied, entityId: nameOf(row), field, old: text(old), new: text(now), reason });
  };
  if (change.volumeId !== undefined) add("ebs_volume_id", row.volumeId, change.volumeId);
  if (change.sizeGb !== undefined) add("size_gb", row.sizeGb, change.sizeGb);
  if (change.inUse !== undefined) add("in_use", row.inUse, change.inUse);
  if (change.reservationId !== undefined) add("reservation_id", row.reservationId, null);
  if (change.isBackingUp !== undefined) add("is_backing_up", row.isBackingUp, change.isBackingUp);
  if (change.snapshotCount !== undefined) add("snapshot_count", row.snapshotCount, change.snapshotCount);
  if (change.lastSnapshotMs !== undefined) {
    add("last_snapshot_at", isoOf(row.lastSnapshotMs), isoOf(change.lastSnapshotMs));
  }
  if (change.missing !== undefined) add("missing_since", isoOf(row.missingSinceMs), change.missing ? "now" : null);
  else if (change.volumeState !== undefined) add("volume_state", row.volumeState, change.volumeState);
  return found;
}

const applied = { entity: "disk", action: "applied" } as const;

function isoOf(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}

/**
 * The disk was marked as missing while it was idle, and has been claimed since: a new volume may be being created for
 * the claim. `missing_since` and `last_updated` are written in one statement, so a later `last_updated` is from another
 * writer.
 */
function isMarkedBeforeClaim({ inUse, reservationId, missingSinceMs, lastUpdatedMs }: DiskRow): boolean {
  return (inUse || reservationId !== null) && missingSinceMs !== null && lastUpdatedMs > missingSinceMs;
}

function isRunning(status: string | null): boolean {
  return status !== null && status !== "" && status !== "completed" && status !== "failed";
}

function nameOf({ userId, diskName }: DiskRow): string {
  return `${userId}/${diskName}`;
}

function show({ user, disk }: VolumeTags): string {
  return `${user}/${disk}`;
}

/**
 * A small GPU cloud: users' sessions that claim a disk, create its volume, attach, work, detach, snapshot and delete;
 * and the tables and the cloud that they change. The reconciler reads all of it meanwhile.
 */

import type { DiskRow } from "../../model/inventory/rows.ts";
import type { Clock } from "../../ports/clock.ts";
import { StandInCloud } from "../../standin/cloud.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { gpuType } from "./builders.ts";
import { type CallFate, MemoryDatabase } from "./memoryDatabase.ts";
import { MemoryTables } from "./memoryTables.ts";

/** The names of what is reported to the invariants. */
export const reports = {
  begins: "the stage is set",
  claims: "a session holds a disk",
  releases: "a session lets a disk go",
  writesDisk: "a disk was written",
  writesTypes: "types were written",
  runBegins: "a run begins",
  runEnds: "a run is over",
} as const;

export const prefix = "pytorch-gpu-dev";
export const user = "ada";
/** The duration of a claim without an attached volume. */
export const leaseMs = 30_000;

export class Stage {
  readonly tables: MemoryTables;
  readonly cloud: StandInCloud;
  /** The offset of the database's clock. */
  databaseSkewMs = 0;
  /** How many of 1,000 database calls hang. */
  mutePerMille = 0;
  /** Sessions whose machine is partitioned: it may still write to its volumes. */
  readonly lostInstances = new Set<string>();
  private ports: ActorPorts | undefined;
  private counter = 0;

  constructor() {
    const clock: Clock = {
      nowMs: () => this.ports?.clock.nowMs() ?? 0,
      monotonicMs: () => this.ports?.clock.monotonicMs() ?? 0,
      after: () => () => {},
    };
    this.tables = new MemoryTables(() => clock.nowMs() + this.databaseSkewMs);
    this.cloud = new StandInCloud({ clock, random: { uint32: () => ++this.counter } });
    this.tables.onDisk = (before, after, by) => {
      this.ports?.note(diskNote(before, after, by));
      this.ports?.observe(reports.writesDisk, { before, after, by });
    };
    const type = gpuType("h100", 8);
    this.tables.types.set("h100", { ...type, numbers: { ...type.numbers, totalClusterGpus: 16 } });
  }

  /** The process without faults whose clock the tables and the cloud use. */
  host(): ActorSpec {
    return {
      name: "host",
      finite: true,
      isExemptFromFaults: true,
      run: async (ports) => {
        this.ports = ports;
        ports.observe(reports.begins, this);
        this.putGroup("h100", ["i-n1", "i-n2"]);
        for (let n = 0; n < 7; n++)
          this.cloud.groups.set(`aaa-${n}`, { name: `aaa-${n}`, desiredCapacity: 0, instances: [], tags: {} });
      },
    };
  }

  putGroup(type: string, ids: readonly string[]): void {
    const name = `${prefix}-gpu-nodes-${type}`;
    const instances = ids.map((id) => ({ id, type: "", lifecycleState: "InService", healthStatus: "Healthy" }));
    this.cloud.groups.set(name, { name, desiredCapacity: ids.length, instances, tags: { GpuType: type } });
  }

  /** The database connection of one process, with delays and failures. */
  database(ports: ActorPorts): MemoryDatabase {
    return new MemoryDatabase(this.tables, "reconciler", async (what): Promise<CallFate> => {
      const trouble = ports.choose(`database ${what}`, (dice) => (dice.perMille(20) ? dice.between(1, 2) : 0));
      await ports.sleep(1 + (ports.random.uint32() % 15));
      const mute =
        this.mutePerMille === 0
          ? 0
          : ports.choose(`mute ${what}`, (dice) => (dice.perMille(this.mutePerMille) ? dice.between(1, 2) : 0));
      if (mute > 0) {
        ports.note(`database: ${what}, and no answer comes`);
        // A lock of a hanging connection is released when the server closes it: that is not simulated.
        return mute === 1 || what === "begin" ? "muteBefore" : "muteAfter";
      }
      if (trouble > 0) ports.note(`database: ${what}, and the connection broke`);
      else if (what === "disks" || what === "types") ports.note(`reads ${what}`);
      return trouble === 0 ? "answered" : trouble === 1 ? "lostBefore" : "lostAfter";
    });
  }

  /** A crashed process loses its connection, and with it its lock. */
  forgetLocks(): void {
    this.tables.lockedBy = undefined;
  }

  // --- what a session does

  addDisk(name: string): void {
    const blank = {
      userId: user,
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
      claimExpiresMs: null,
      volumeState: null,
      missingSinceMs: null,
    };
    this.tables.insertDisk(blank, this.tables.nowMs(), "app");
  }

  /** Claims in one statement, with a lease: a claim fails if the disk is in use or gone. */
  claim(name: string, reservationId: string): boolean {
    const row = this.tables.disk(user, name);
    if (row === undefined || row.inUse || row.isBackingUp || row.isDeleted) return false;
    const reservation = {
      reservationId,
      userId: user,
      status: "preparing",
      gpuType: "h100",
      gpuCount: 1,
      podName: null,
      namespace: "default",
      expiresMs: null,
    };
    this.tables.reservations.set(reservationId, reservation);
    this.tables.updateDisk(
      row.diskId,
      { inUse: true, reservationId, claimExpiresMs: this.tables.nowMs() + leaseMs },
      "app",
    );
    this.ports?.observe(reports.claims, { diskId: row.diskId, session: reservationId });
    return true;
  }

  setReservation(reservationId: string, status: string): void {
    const row = this.tables.reservations.get(reservationId);
    if (row !== undefined) this.tables.reservations.set(reservationId, { ...row, status });
  }

  /** The session has released the disk: its machine no longer writes. */
  letGo(diskId: string, reservationId: string): void {
    this.ports?.observe(reports.releases, { diskId, session: reservationId });
  }

  /** Frees the row, if it is still this session's. */
  free(diskId: string, reservationId: string): void {
    const row = this.tables.disks.get(diskId);
    if (row?.reservationId !== reservationId) return;
    this.tables.updateDisk(diskId, { inUse: false, reservationId: null, claimExpiresMs: null }, "app");
  }

  nextVolume(): string {
    return `vol-${String(++this.counter).padStart(4, "0")}`;
  }
}

/** The change of a row, for the timeline. */
function diskNote(before: DiskRow | undefined, after: DiskRow, by: string): string {
  const fields = ["diskName", "inUse", "reservationId", "volumeId", "isDeleted", "snapshotCount"] as const;
  const changed = fields.filter((field) => before?.[field] !== after[field]);
  const what = changed.map((field) => `${field} ${before === undefined ? "" : `${before[field]} -> `}${after[field]}`);
  return `${by} ${before === undefined ? "inserts" : "updates"} ${after.userId}/${after.diskName}: ${what.join(", ") || "nothing that counts"}`;
}

/** How long the steps of a session take, in milliseconds. */
export interface SessionPace {
  readonly createMs: number;
  readonly attachMs: number;
  readonly workMs: number;
  readonly detachMs: number;
  readonly snapshotMs: number;
}

export const usualPace: SessionPace = { createMs: 300, attachMs: 400, workMs: 900, detachMs: 500, snapshotMs: 400 };

/** One session from its claim to its end. Chance may cancel it, keep its volume, or rename its disk. */
export async function session(
  stage: Stage,
  ports: ActorPorts,
  name: string,
  id: string,
  pace: SessionPace,
): Promise<void> {
  const jitter = (ms: number): number => ms + (ports.random.uint32() % (1 + (ms >> 1)));
  const odd = (what: string, perMille: number): boolean =>
    ports.choose(what, (dice) => (dice.perMille(perMille) ? 1 : 0)) > 0;
  await ports.sleep(jitter(20));
  if (!stage.claim(name, id)) return;
  const row = stage.tables.disk(user, name);
  if (row === undefined) return;
  const { diskId } = row;
  const instance = `i-${id}`;
  await ports.sleep(jitter(pace.createMs));
  let volumeId = row.volumeId ?? "";
  const kept = stage.cloud.volumes.get(volumeId);
  if (kept?.state !== "available" || kept.deletedMs !== undefined) {
    volumeId = stage.nextVolume();
    const newest = [...stage.cloud.snapshots.values()].filter(({ tags }) => tags["disk_name"] === row.diskName).at(-1);
    stage.cloud.createVolume({
      id: volumeId,
      tags: { "gpu-dev-user": user, disk_name: row.diskName },
      snapshotId: newest?.id ?? "",
      state: "creating",
    });
    ports.note(`makes the volume ${volumeId} of ${row.diskName}`);
    await ports.sleep(jitter(50));
    stage.cloud.changeVolume(volumeId, { state: "available" });
  }
  await ports.sleep(jitter(pace.attachMs));
  stage.cloud.attach(volumeId, instance, "attaching");
  ports.note(`attaches ${volumeId}`);
  await ports.sleep(jitter(60));
  stage.cloud.attach(volumeId, instance, "attached");
  stage.setReservation(id, "active");
  await ports.sleep(jitter(odd("cancelled early", 200) ? 50 : pace.workMs));
  stage.setReservation(id, odd("cancelled", 300) ? "cancelled" : "expired");
  stage.cloud.attach(volumeId, instance, "detaching");
  await ports.sleep(jitter(pace.detachMs));
  stage.cloud.detach(volumeId);
  ports.note(`has detached ${volumeId}`);
  stage.letGo(diskId, id);
  if (!odd("no snapshot", 150)) {
    const snapshotId = `snap-${stage.nextVolume()}`;
    const now = stage.tables.disks.get(diskId)?.diskName ?? row.diskName;
    const snapshot = { id: snapshotId, volumeId, tags: { "gpu-dev-user": user, disk_name: now } };
    stage.cloud.putSnapshot({ ...snapshot, state: "pending" });
    await ports.sleep(jitter(pace.snapshotMs));
    // Its tags may have been changed meanwhile: the disk was renamed.
    stage.cloud.putSnapshot({ id: snapshotId, volumeId, state: "completed" });
  }
  if (!odd("volume kept", 300)) {
    stage.cloud.deleteVolume(volumeId);
    ports.note(`deletes ${volumeId}`);
  }
  await ports.sleep(jitter(30));
  stage.free(diskId, id);
}

/**
 * The database port over tables in memory: held to the same contract as PostgreSQL, with answers that can be late or
 * lost.
 */
import { type DriftEvent, liveReservationStatuses } from "../../model/inventory/rows.ts";
import type { DiskWrite, TypeWrite, WriteOutcome } from "../../model/inventory/writes.ts";
import type {
  Answer,
  Beginning,
  DisksRead,
  InventoryDatabase,
  InventoryReads,
  InventoryRun,
  RunEnd,
  RunStart,
  SnapshotMemory,
  TypesRead,
  TypesWritten,
  VolumesReading,
} from "../../ports/database.ts";
import { ConstraintError, type MemoryTables } from "./memoryTables.ts";

/**
 * The fault of a call: none, the call is lost, or its response is lost after it took effect. A hanging connection stays
 * open and gives no response.
 */
export type CallFate = "answered" | "lostBefore" | "lostAfter" | "muteBefore" | "muteAfter";

/** Waits for the latency of a call, then returns its fault. */
export type Hop = (what: string) => Promise<CallFate>;

const atOnce: Hop = async () => "answered";

export class MemoryDatabase implements InventoryDatabase {
  private readonly tables: MemoryTables;
  private readonly hop: Hop;
  private readonly author: string;

  constructor(tables: MemoryTables, author = "reconciler", hop: Hop = atOnce) {
    this.tables = tables;
    this.hop = hop;
    this.author = author;
  }

  look(): InventoryReads {
    return {
      types: () => ask(this.hop, "types", () => readTypes(this.tables)),
      disks: () => ask(this.hop, "disks", () => readDisks(this.tables)),
    };
  }

  async begin(start: RunStart): Promise<Answer<Beginning>> {
    let taken: object | undefined;
    const answer = await ask(this.hop, "begin", (): Beginning => {
      const { tables } = this;
      const { paused } = tables;
      const row = {
        runId: tables.nextId("run"),
        kind: start.kind,
        startedMs: tables.nowMs(),
        finishedMs: null,
        identity: null,
        counters: {},
        error: "",
      };
      const skipped = (error: string): void => {
        tables.runs.push({ ...row, finishedMs: tables.nowMs(), fence: null, status: "skipped", error });
      };
      if (paused !== undefined && start.evenIfPaused !== true) {
        skipped(`paused by ${paused.by}`);
        return { status: "paused", by: paused.by, reason: paused.reason };
      }
      if (tables.lockedBy !== undefined) {
        skipped("another run holds the lock");
        return { status: "locked" };
      }
      const fence = ++tables.fence;
      // This run holds the lock, so another run that is recorded as running was killed.
      for (const [at, run] of tables.runs.entries()) {
        if (run.status !== "running") continue;
        const error = "abandoned: the run ended without a record";
        tables.runs[at] = { ...run, status: "failed", finishedMs: tables.nowMs(), error };
      }
      tables.runs.push({ ...row, fence, status: "running" });
      const run = new MemoryInventoryRun(tables, this.hop, { runId: row.runId, fence, author: this.author });
      tables.lockedBy = run;
      taken = run;
      return { status: "begun", run };
    });
    // The connection broke before the lock was acknowledged: it is released with its connection.
    if (!answer.ok && taken !== undefined && this.tables.lockedBy === taken) this.tables.lockedBy = undefined;
    return answer;
  }
}

class MemoryInventoryRun implements InventoryRun {
  readonly runId: string;
  readonly fence: number;
  private readonly tables: MemoryTables;
  private readonly hop: Hop;
  private readonly author: string;
  private isBroken = false;
  private isMute = false;

  constructor(tables: MemoryTables, hop: Hop, begun: { runId: string; fence: number; author: string }) {
    this.tables = tables;
    this.hop = hop;
    this.runId = begun.runId;
    this.fence = begun.fence;
    this.author = begun.author;
  }

  types(): Promise<Answer<TypesRead>> {
    return this.asked("types", () => readTypes(this.tables));
  }

  disks(): Promise<Answer<DisksRead>> {
    return this.asked("disks", () => readDisks(this.tables));
  }

  recordReading({ volumes, identity }: VolumesReading): Promise<Answer<undefined>> {
    return this.asked("recordReading", () => {
      const row = this.tables.runs.find(({ runId }) => runId === this.runId);
      if (row !== undefined) Object.assign(row, { identity, counters: { volumes_read: volumes } });
      return undefined;
    });
  }

  writeTypes(types: readonly TypeWrite[], drift: readonly DriftEvent[]): Promise<Answer<TypesWritten>> {
    return this.fenced("writeTypes", () => {
      const { tables } = this;
      for (const { numbers } of types) {
        const { state, availableGpus, totalClusterGpus } = numbers;
        const counts = [availableGpus, totalClusterGpus, numbers.maxReservable, numbers.runningInstances];
        if (counts.some((count) => count < 0)) throw new ConstraintError("a count below zero");
        if (state === "fresh" && availableGpus > totalClusterGpus) throw new ConstraintError("more free than there is");
      }
      let written = 0;
      let confirmed = 0;
      const unknown: string[] = [];
      for (const { gpuType, numbers, changed } of types) {
        const row = tables.types.get(gpuType);
        if (row === undefined) {
          unknown.push(gpuType);
          continue;
        }
        if (!changed && numbers.state !== "fresh") continue;
        const lastUpdateMs = numbers.state === "fresh" ? tables.nowMs() : row.lastUpdateMs;
        tables.types.set(gpuType, { ...row, numbers, lastUpdateMs });
        if (changed) written++;
        else confirmed++;
      }
      for (const event of drift) if (event.action !== "reported") tables.addDrift(this.runId, "gpu", event);
      return { written, confirmed, unknown };
    });
  }

  writeDisks(writes: readonly DiskWrite[]): Promise<Answer<readonly WriteOutcome[]>> {
    return this.fenced("writeDisks", () =>
      writes.map((write): WriteOutcome => {
        try {
          const isDone = this.tables.apply(write, this.author);
          for (const event of write.drift) {
            const reason = "the row has changed since it was read";
            this.tables.addDrift(this.runId, "disks", isDone ? event : { ...event, action: "refused", reason });
          }
          return { volumeId: write.volumeId, result: isDone ? "written" : "changed" };
        } catch (error) {
          if (!(error instanceof ConstraintError)) throw error;
          return { volumeId: write.volumeId, result: "failed", why: error.message };
        }
      }),
    );
  }

  report(phase: "gpu" | "disks", reports: readonly DriftEvent[]): Promise<Answer<{ opened: number; closed: number }>> {
    return this.fenced("report", () => {
      const { tables } = this;
      const wanted = new Map(reports.map((event) => [keyOf(event), event]));
      let closed = 0;
      for (const [at, event] of tables.drift.entries()) {
        if (event.phase !== phase || event.action !== "reported" || event.closedMs !== null) continue;
        if (wanted.delete(keyOf(event))) continue;
        tables.drift[at] = { ...event, closedMs: tables.nowMs() };
        closed++;
      }
      for (const event of wanted.values()) tables.addDrift(this.runId, phase, event);
      return { opened: wanted.size, closed };
    });
  }

  rememberSnapshots({ fullAtMs, baseBeforeMs, bases }: SnapshotMemory): Promise<Answer<{ written: number }>> {
    return this.fenced("rememberSnapshots", () => {
      let written = 0;
      for (const [diskId, base] of bases) {
        const before = this.tables.bases.get(diskId);
        if (!this.tables.disks.has(diskId)) continue;
        if (before?.completed === base.completed && before.lastCompletedMs === base.lastCompletedMs) continue;
        this.tables.bases.set(diskId, base);
        written++;
      }
      this.tables.snapshots = { fullAtMs, baseBeforeMs };
      return { written };
    });
  }

  finish(end: RunEnd): Promise<Answer<undefined>> {
    return this.asked("finish", () => {
      const row = this.tables.runs.find(({ runId }) => runId === this.runId);
      if (row === undefined) return undefined;
      row.finishedMs = this.tables.nowMs();
      row.status = end.status;
      row.identity = end.identity ?? row.identity;
      row.counters = { ...row.counters, ...end.counters };
      row.error = end.error;
      return undefined;
    });
  }

  async release(): Promise<void> {
    if (this.tables.lockedBy === this) this.tables.lockedBy = undefined;
    if (this.isMute) await never();
  }

  /** A run uses one connection. When it breaks the run is over, and its lock is free. */
  private async asked<T>(what: string, run: () => T, fencedBy?: () => string | undefined): Promise<Answer<T>> {
    if (this.isBroken) return { ok: false, reason: "Unavailable", why: `${what}: the connection is gone` };
    if (this.isMute) return never();
    const answer = await ask(
      async (question) => {
        const fate = await this.hop(question);
        if (fate === "muteBefore" || fate === "muteAfter") this.isMute = true;
        return fate;
      },
      what,
      run,
      fencedBy,
    );
    if (!answer.ok && answer.reason === "Unavailable") {
      this.isBroken = true;
      await this.release();
    }
    return answer;
  }

  private fenced<T>(what: string, run: () => T): Promise<Answer<T>> {
    return this.asked(what, run, () =>
      this.tables.fence === this.fence ? undefined : `fence ${this.tables.fence} has replaced ${this.fence}`,
    );
  }
}

async function ask<T>(
  hop: Hop,
  what: string,
  run: () => T,
  fencedBy: () => string | undefined = () => undefined,
): Promise<Answer<T>> {
  const fate = await hop(what);
  if (fate === "muteBefore") return never();
  if (fate === "lostBefore") return { ok: false, reason: "Unavailable", why: `${what}: no connection` };
  const fenced = fencedBy();
  if (fenced !== undefined) return { ok: false, reason: "Fenced", why: fenced };
  try {
    const value = run();
    if (fate === "muteAfter") return never();
    if (fate === "lostAfter") return { ok: false, reason: "Unavailable", why: `${what}: the connection broke` };
    return { ok: true, value };
  } catch (error) {
    if (error instanceof ConstraintError) return { ok: false, reason: "Refused", why: error.message };
    throw error;
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}

function readTypes(tables: MemoryTables): TypesRead {
  return { types: [...tables.types.values()], reservations: live(tables), nowMs: tables.nowMs() };
}

function readDisks(tables: MemoryTables): DisksRead {
  const known = new Set(tables.users);
  if (known.size > 0) for (const { userId } of tables.disks.values()) known.add(userId);
  const last = tables.runs.findLast(({ counters, identity }) => "volumes_read" in counters && identity !== null);
  return {
    rows: [...tables.disks.values()].map(({ createdMs: _, ...row }) => row),
    reservations: live(tables),
    knownUsers: known.size === 0 ? undefined : [...known],
    lastReading:
      last === undefined || last.identity === null
        ? undefined
        : { volumes: Number(last.counters["volumes_read"]), identity: last.identity },
    snapshotPass: tables.snapshots === undefined ? undefined : { ...tables.snapshots, bases: new Map(tables.bases) },
    nowMs: tables.nowMs(),
  };
}

function live(tables: MemoryTables) {
  return [...tables.reservations.values()].filter(({ status }) => liveReservationStatuses.includes(status));
}

function keyOf({ entity, entityId, field, reason }: DriftEvent): string {
  return [entity, entityId, field, reason].join("\n");
}

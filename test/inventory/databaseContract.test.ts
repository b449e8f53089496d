import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Postgres } from "../../src/adapters/postgres.ts";
import type { DiskRow, DriftEvent, GpuTypeRow } from "../../src/model/inventory/rows.ts";
import type { DiskWrite } from "../../src/model/inventory/writes.ts";
import type { InventoryDatabase, InventoryRun } from "../../src/ports/database.ts";
import { gpuType, noNumbers } from "../../src/sim/inventory/builders.ts";
import { MemoryDatabase } from "../../src/sim/inventory/memoryDatabase.ts";
import { MemoryTables } from "../../src/sim/inventory/memoryTables.ts";
import { PostgresForTests } from "./databases.ts";

/** What the application does to its own tables, as far as these tests need it. */
interface Application {
  readonly database: InventoryDatabase;
  addReservation(id: string, status: string): Promise<void>;
  addDisk(name: string, columns?: { volumeId?: string; inUse?: boolean; reservationId?: string }): Promise<string>;
  rename(diskId: string, name: string): Promise<void>;
  claim(diskId: string, reservationId: string): Promise<void>;
  softDelete(diskId: string): Promise<void>;
  addUser(name: string): Promise<void>;
  countSnapshot(diskId: string): Promise<void>;
  drift(): Promise<{ entityId: string; field: string; old: string | null; action: string; open: boolean }[]>;
  runs(): Promise<{ status: string; fence: number | null }[]>;
  pause(): Promise<void>;
}

const server = new PostgresForTests();
beforeAll(() => server.start());
afterAll(() => server.stop());

const worlds: { name: string; make: () => Promise<Application> }[] = [
  { name: "PostgreSQL", make: async () => postgresApplication(await server.database()) },
  { name: "memory", make: async () => memoryApplication() },
];

describe.each(worlds)("the database, $name", ({ make }) => {
  test("one run at a time; the next has a greater fence; a run that was locked out is in the history", async () => {
    const app = await make();
    const first = await begin(app);
    expect(await app.database.begin({ kind: "all", updatedBy: "b" })).toEqual({
      ok: true,
      value: { status: "locked" },
    });
    await first.release();
    await first.release();
    const second = await begin(app);
    expect(second.fence).toBeGreaterThan(first.fence);
    await second.release();
    expect((await app.runs()).map(({ status }) => status).sort()).toEqual(["failed", "running", "skipped"]);
  });

  test("a run that was killed is closed by the next one that holds the lock", async () => {
    const app = await make();
    const killed = await begin(app);
    await killed.release();
    const next = await begin(app);
    expect(new Map((await app.runs()).map(({ fence, status }) => [fence, status]))).toEqual(
      new Map([
        [killed.fence, "failed"],
        [next.fence, "running"],
      ]),
    );
    await next.release();
  });

  test("a run that lost its fence cannot write any more", async () => {
    const app = await make();
    const diskId = await app.addDisk("d");
    const old = await begin(app);
    const { rows } = await disksOf(old);
    await old.release();
    const next = await begin(app);
    const write = update(rows, diskId, { sizeGb: 9 });
    expect(await old.writeDisks([write]).catch((error) => error)).toMatchObject({ ok: false });
    expect((await disksOf(next)).rows[0]?.sizeGb).toBeNull();
    expect(await next.writeDisks([write])).toMatchObject({ ok: true });
    await next.release();
  });

  test("a paused inventory begins no run, unless forced", async () => {
    const app = await make();
    await app.pause();
    const refused = await app.database.begin({ kind: "all", updatedBy: "a" });
    expect(refused).toMatchObject({ ok: true, value: { status: "paused", by: "ada" } });
    const forced = await begin(app, true);
    await forced.release();
  });

  test("a write is refused when the application has changed the row since: claimed, renamed, deleted", async () => {
    const app = await make();
    await app.addReservation("r1", "active");
    const ids = [await app.addDisk("a"), await app.addDisk("b"), await app.addDisk("c"), await app.addDisk("d")];
    const run = await begin(app);
    const { rows } = await disksOf(run);
    await app.claim(ids[0] as string, "r1");
    await app.rename(ids[1] as string, "bb");
    await app.softDelete(ids[2] as string);
    const answer = await run.writeDisks(ids.map((id) => update(rows, id, { inUse: false, volumeState: "available" })));
    expect(answer.ok && answer.value.map(({ result }) => result)).toEqual(["changed", "changed", "changed", "written"]);
    const after = (await disksOf(run)).rows;
    expect(after.find(({ diskId }) => diskId === ids[0])).toMatchObject({ inUse: true, reservationId: "r1" });
    expect((await app.drift()).filter(({ action }) => action === "refused")).toHaveLength(3);
    await run.release();
  });

  test("counting a snapshot does not refuse a write: counts are the reconciler's own", async () => {
    const app = await make();
    const diskId = await app.addDisk("d");
    const run = await begin(app);
    const { rows } = await disksOf(run);
    await app.countSnapshot(diskId);
    const answer = await run.writeDisks([update(rows, diskId, { snapshotCount: 5 })]);
    expect(answer).toMatchObject({ ok: true, value: [{ result: "written" }] });
    await run.release();
  });

  test("an import never overwrites: a name or a volume that is taken stays as it is", async () => {
    const app = await make();
    await app.addDisk("d", { volumeId: "v1" });
    const run = await begin(app);
    const before = (await disksOf(run)).rows;
    const answer = await run.writeDisks([insert("d", "v2"), insert("e", "v1"), insert("f", "v3")]);
    expect(answer.ok && answer.value.map(({ result }) => result)).toEqual(["changed", "changed", "written"]);
    const after = (await disksOf(run)).rows;
    expect(after.find(({ diskName }) => diskName === "d")).toEqual(before[0]);
    expect(after.map(({ diskName }) => diskName).sort()).toEqual(["d", "f"]);
    await run.release();
  });

  test("a volume whose reservation was purged is imported without it", async () => {
    const app = await make();
    await app.addReservation("r1", "active");
    const run = await begin(app);
    await run.writeDisks([insert("d", "v1", { reservationId: "purged" }), insert("e", "v2", { reservationId: "r1" })]);
    const rows = (await disksOf(run)).rows;
    expect(rows.find(({ diskName }) => diskName === "d")?.reservationId).toBeNull();
    expect(rows.find(({ diskName }) => diskName === "e")?.reservationId).toBe("r1");
    await run.release();
  });

  test("a row that cannot be written fails alone", async () => {
    const app = await make();
    const ids = await Promise.all(["a", "b", "c", "d", "e"].map((name) => app.addDisk(name)));
    const run = await begin(app);
    const { rows } = await disksOf(run);
    const writes = ids.map((id, at) => update(rows, id, { sizeGb: at === 2 ? -1 : at }));
    const answer = await run.writeDisks(writes);
    expect(answer.ok && answer.value.map(({ result }) => result)).toEqual([
      "written",
      "written",
      "failed",
      "written",
      "written",
    ]);
    await run.release();
  });

  test("a disk that is missing is marked by the database's clock, and forgets it when it is back", async () => {
    const app = await make();
    const diskId = await app.addDisk("d", { volumeId: "v1" });
    const run = await begin(app);
    await run.writeDisks([update((await disksOf(run)).rows, diskId, { missing: true, volumeState: "missing" })]);
    const marked = await disksOf(run);
    expect(marked.rows[0]).toMatchObject({ volumeState: "missing", rowVersion: 1 });
    expect(Math.abs((marked.rows[0]?.missingSinceMs ?? 0) - marked.nowMs)).toBeLessThan(60_000);
    await run.writeDisks([update(marked.rows, diskId, { missing: false })]);
    expect((await disksOf(run)).rows[0]?.missingSinceMs).toBeNull();
    await run.release();
  });

  test("what was cleared is in the history", async () => {
    const app = await make();
    await app.addReservation("r1", "expired");
    const diskId = await app.addDisk("d", { inUse: true, reservationId: "r1" });
    const run = await begin(app);
    const drift = event({ entityId: "ada/d", field: "reservation_id", old: "r1", action: "applied" });
    const write = {
      ...update((await disksOf(run)).rows, diskId, { inUse: false, reservationId: null }),
      drift: [drift],
    };
    await run.writeDisks([write]);
    expect((await disksOf(run)).rows[0]).toMatchObject({ inUse: false, reservationId: null });
    expect(await app.drift()).toContainEqual(
      expect.objectContaining({ entityId: "ada/d", old: "r1", action: "applied" }),
    );
    await run.release();
  });

  test("a report is written once while it holds, and ends when it is not made again", async () => {
    const app = await make();
    const run = await begin(app);
    const one = event({ entityId: "v1" });
    const two = event({ entityId: "v2" });
    expect(await run.report("disks", [one, two, one])).toMatchObject({ value: { opened: 2, closed: 0 } });
    expect(await run.report("disks", [one, two])).toMatchObject({ value: { opened: 0, closed: 0 } });
    expect(await run.report("gpu", [])).toMatchObject({ value: { opened: 0, closed: 0 } });
    expect(await run.report("disks", [two])).toMatchObject({ value: { opened: 0, closed: 1 } });
    expect((await app.drift()).filter(({ open }) => open).map(({ entityId }) => entityId)).toEqual(["v2"]);
    await run.release();
  });

  test("types are written together or not at all, and a wrong sum is refused", async () => {
    const app = await make();
    const run = await begin(app);
    const fine = {
      gpuType: "h100",
      numbers: { ...noNumbers, totalClusterGpus: 8, availableGpus: 8, state: "fresh" as const },
      changed: true,
    };
    const wrong = {
      gpuType: "h200",
      numbers: { ...noNumbers, totalClusterGpus: 8, availableGpus: 9, state: "fresh" as const },
      changed: true,
    };
    expect(await run.writeTypes([fine, wrong], [])).toMatchObject({ ok: false, reason: "Refused" });
    expect(await numbersOf(run, "h100")).toMatchObject({ state: "unknown" });
    expect(await run.writeTypes([fine], [])).toMatchObject({ ok: true, value: { written: 1, confirmed: 0 } });
    expect(await numbersOf(run, "h100")).toMatchObject({ totalClusterGpus: 8, availableGpus: 8, state: "fresh" });
    expect(await run.writeTypes([{ ...fine, changed: false }], [])).toMatchObject({
      value: { written: 0, confirmed: 1 },
    });
    await run.release();
  });

  test("a stale type keeps the time of its last good read, and a missing one is reported", async () => {
    const app = await make();
    const run = await begin(app);
    const stale = { gpuType: "h100", numbers: { ...noNumbers, state: "stale" as const, error: "503" }, changed: true };
    const answer = await run.writeTypes([stale, { ...stale, gpuType: "unheard-of" }], []);
    expect(answer).toMatchObject({ ok: true, value: { written: 1, unknown: ["unheard-of"] } });
    const types = await run.types();
    expect(types.ok && types.value.types.find((type) => type.gpuType === "h100")?.lastUpdateMs).toBeNull();
    expect(types.ok && types.value.types.some((type) => type.gpuType === "unheard-of")).toBe(false);
    await run.release();
  });

  test("the last reading of volumes, the users and the bases of snapshots are remembered", async () => {
    const app = await make();
    const diskId = await app.addDisk("d");
    const run = await begin(app);
    expect(await disksOf(run)).toMatchObject({
      lastReading: undefined,
      knownUsers: undefined,
      snapshotPass: undefined,
    });
    const bases = new Map([[diskId, { completed: 3, lastCompletedMs: 5_000 }]]);
    const memory = { fullAtMs: 1_000, baseBeforeMs: 500, bases };
    expect(await run.rememberSnapshots(memory)).toMatchObject({ value: { written: 1 } });
    expect(await run.rememberSnapshots(memory)).toMatchObject({ value: { written: 0 } });
    const identity = { account: "1", region: "r" };
    await run.finish({ status: "partial", identity, counters: { volumes_read: 7 }, error: "a row was refused" });
    await run.release();
    // One that is killed after it has read leaves its reading as well.
    const killed = await begin(app);
    await killed.recordReading({ volumes: 9, identity });
    await killed.release();
    const after = await begin(app);
    expect((await disksOf(after)).lastReading).toEqual({ volumes: 9, identity });
    await after.finish({ status: "ok", identity, counters: { volumes_read: 7 }, error: "" });
    await after.release();
    // A run that did not believe what it read leaves the reading before it in force.
    const refused = await begin(app);
    await refused.finish({ status: "refused", identity, counters: { disks: { status: "refused" } }, error: "" });
    await refused.release();
    await app.addUser("eve");
    const next = await begin(app);
    const read = await disksOf(next);
    expect(read.lastReading).toEqual({ volumes: 7, identity });
    expect([...(read.knownUsers ?? [])].sort()).toEqual(["ada", "eve"]);
    expect(read.snapshotPass).toEqual(memory);
    expect((await app.runs()).map(({ status }) => status).sort()).toEqual([
      "failed",
      "ok",
      "partial",
      "refused",
      "running",
    ]);
    await next.release();
  });
});

async function begin(app: Application, evenIfPaused = false): Promise<InventoryRun> {
  const answer = await app.database.begin({ kind: "all", updatedBy: "test", evenIfPaused });
  if (!answer.ok || answer.value.status !== "begun") throw new Error(JSON.stringify(answer));
  return answer.value.run;
}

async function disksOf(run: InventoryRun) {
  const answer = await run.disks();
  if (!answer.ok) throw new Error(answer.why);
  return answer.value;
}

async function numbersOf(run: InventoryRun, name: string) {
  const answer = await run.types();
  if (!answer.ok) throw new Error(answer.why);
  return answer.value.types.find(({ gpuType: type }) => type === name)?.numbers;
}

function update(rows: readonly DiskRow[], diskId: string, change: object): DiskWrite {
  const rowVersion = rows.find((row) => row.diskId === diskId)?.rowVersion ?? 0;
  return {
    kind: "update",
    diskId,
    rowVersion,
    change,
    volumeId: undefined,
    drift: [event({ entityId: diskId, action: "applied" })],
  };
}

function insert(diskName: string, volumeId: string, more: { reservationId?: string } = {}): DiskWrite {
  const row = {
    userId: "ada",
    diskName,
    volumeId,
    sizeGb: 1,
    createdMs: 5_000,
    inUse: true,
    reservationId: null,
    isBackingUp: false,
    snapshotCount: 0,
    lastSnapshotMs: null,
    volumeState: "in-use",
    ...more,
  };
  return { kind: "insert", volumeId, row, drift: [] };
}

function event(more: Partial<DriftEvent>): DriftEvent {
  return {
    entity: "disk",
    entityId: "x",
    field: "f",
    old: null,
    new: null,
    action: "reported",
    reason: "why",
    ...more,
  };
}

function postgresApplication(database: Postgres): Application {
  const query = async (sql: string, values: unknown[] = []) => (await database.pool.query(sql, values)).rows;
  const set = async (diskId: string, what: string, value: unknown): Promise<void> => {
    await query(`update disks set ${what} where disk_id = $1`, value === undefined ? [diskId] : [diskId, value]);
  };
  return {
    database,
    addReservation: async (id, status) => {
      await query("insert into reservations (reservation_id, user_id, status) values ($1, 'ada', $2)", [id, status]);
    },
    addDisk: async (name, { volumeId = null, inUse = false, reservationId = null } = {} as never) => {
      const rows = await query(
        "insert into disks (user_id, disk_name, ebs_volume_id, in_use, reservation_id) values ('ada', $1, $2, $3, $4) returning disk_id::text as id",
        [name, volumeId, inUse, reservationId],
      );
      return (rows[0] as { id: string }).id;
    },
    rename: (diskId, name) => set(diskId, "disk_name = $2", name),
    claim: (diskId, id) => set(diskId, "in_use = true, reservation_id = $2", id),
    softDelete: (diskId) => set(diskId, "is_deleted = true", undefined),
    addUser: async (name) => {
      await query("insert into api_users (username) values ($1)", [name]);
    },
    countSnapshot: (diskId) => set(diskId, "snapshot_count = snapshot_count + 1", undefined),
    drift: async () => {
      const answer = await database.reader.drift({ limit: 100 });
      if (!answer.ok) throw new Error(answer.why);
      return answer.value.map((each) => ({ ...each, open: each.action === "reported" && each.closedMs === null }));
    },
    runs: async () => {
      const answer = await database.reader.runs(100);
      if (!answer.ok) throw new Error(answer.why);
      return [...answer.value];
    },
    pause: async () => {
      await database.reader.pause("ada", "maintenance");
    },
  };
}

function memoryApplication(): Application {
  const tables = new MemoryTables(() => 1_800_000_000_000);
  const types: GpuTypeRow[] = [gpuType("h100", 8), gpuType("h200", 8)];
  for (const type of types) tables.types.set(type.gpuType, type);
  return {
    database: new MemoryDatabase(tables),
    addReservation: async (id, status) => {
      tables.reservations.set(id, {
        reservationId: id,
        userId: "ada",
        status,
        gpuType: "",
        gpuCount: 0,
        podName: null,
        namespace: "default",
        expiresMs: null,
      });
    },
    addDisk: async (name, columns = {}) => {
      const blank = {
        userId: "ada",
        sizeGb: null,
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
      return tables.insertDisk({ ...blank, diskName: name, ...columns }, 0, "app")?.diskId ?? "";
    },
    rename: async (diskId, name) => tables.updateDisk(diskId, { diskName: name }, "app"),
    claim: async (diskId, reservationId) => tables.updateDisk(diskId, { inUse: true, reservationId }, "app"),
    softDelete: async (diskId) => tables.updateDisk(diskId, { isDeleted: true }, "app"),
    addUser: async (name) => {
      tables.users.add(name);
    },
    countSnapshot: async (diskId) => tables.updateDisk(diskId, { snapshotCount: 1 }, "app"),
    drift: async () =>
      tables.drift.map((each) => ({ ...each, open: each.action === "reported" && each.closedMs === null })),
    runs: async () => tables.runs,
    pause: async () => {
      tables.paused = { by: "ada", reason: "maintenance", sinceMs: 0 };
    },
  };
}

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { grantsFor } from "../../src/adapters/postgres/migrations.ts";
import { openPostgres } from "../../src/adapters/postgres.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { inventoryDefaults } from "../../src/control/inventory/inventoryDefaults.ts";
import { runInventory } from "../../src/control/inventory/runInventory.ts";
import type { InventoryDatabase, InventoryRun } from "../../src/ports/database.ts";
import { pod } from "../../src/sim/inventory/builders.ts";
import type { CloudFaults, FailKind } from "../../src/standin/faults.ts";
import { silentLog } from "./databases.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

const world = new InventoryWorld();
beforeAll(() => world.start());
afterAll(() => world.stop());
beforeEach(() => world.fresh());

const tags = (name: string, user = "ada") => ({ "gpu-dev-user": user, disk_name: name });

/** A small cloud with something of everything. */
async function furnish(): Promise<void> {
  world.pool("h100", 6);
  world.pool("t4", 2, 4);
  world.pool("cpu-x86", 1, 0);
  world.pods = [pod("a", "h100-1", 3), pod("gpu-dev-1", "cpu-x86-1", 0)];
  await world.addReservation("r1", "active");
  await world.addReservation("r2", "expired");
  for (let n = 1; n <= 12; n++) {
    world.cloud.createVolume({ id: `v${n}`, sizeGb: 10 * n, tags: tags(`d${n}`) });
    world.cloud.putSnapshot({ id: `s${n}`, volumeId: `v${n}`, tags: tags(`d${n}`) });
    if (n % 3 === 0) await world.addDisk(`d${n}`, { ebs_volume_id: `v${n}` });
  }
  world.cloud.attach("v3", "i-1");
  await world.addDisk("resting", { ebs_volume_id: "v-gone" });
  await world.addDisk("stale", { ebs_volume_id: "v-lost", in_use: true, reservation_id: "r2" });
  world.cloud.createVolume({ id: "dup", tags: tags("d3") });
}

describe("a run", () => {
  test("reports the documented counters, and records them", async () => {
    await furnish();
    const report = await world.run();
    expect(report).toMatchObject({
      status: "ok",
      exitCode: 0,
      identity: { account: "123456789012", region: "us-east-2" },
    });
    expect(report.phases.disks?.counters).toMatchObject({
      aws_volumes: 13,
      db_records: 6,
      created: 8,
      updated: 6,
      synced: 0,
      errors: 0,
      orphaned_db_active: 2,
      orphaned_db_deleted: 0,
      duplicates: 1,
    });
    const [row] = await world.sql("select * from reconcile_runs");
    expect(row).toMatchObject({ status: "ok", kind: "all", aws_account: "123456789012", k8s_rv: "7" });
    expect(row).toMatchObject({ counters: { disks: { aws_volumes: 13, created: 8 }, gpu: { types_active: 10 } } });
    const { calls } = report.cloud;
    expect(calls).toMatchObject({ DescribeAutoScalingGroups: 1, DescribeSnapshots: 3, GetCallerIdentity: 1 });
  });

  test("a second one on the same input writes no row, and changes nothing but when it looked", async () => {
    await furnish();
    await world.run();
    await world.run();
    const before = await world.state();
    const events = await world.sql("select count(*) from drift_events");
    const report = await world.run();
    expect(report.phases.gpu?.rowsWritten).toBe(0);
    expect(report.phases.disks).toMatchObject({ rowsWritten: 0, counters: { updated: 0, created: 0 } });
    expect(await world.state()).toEqual(before);
    expect(await world.sql("select count(*) from drift_events")).toEqual(events);
  });

  test("a dry one prints exactly the plan of the real one, and touches nothing", async () => {
    await furnish();
    const before = await world.state();
    const dry = await world.run({ dryRun: true });
    expect(await world.state()).toEqual(before);
    expect(await world.sql("select * from reconcile_runs")).toEqual([]);
    const real = await world.run();
    expect(dry.plan).toEqual(real.plan);
    expect(dry.phases.disks?.counters).toEqual(real.phases.disks?.counters);
    expect(real.plan.disks.length).toBe(14);
  });

  test("shows the numbers of the document in the row of a type", async () => {
    await furnish();
    await world.run({ kind: "gpu", updatedBy: "x".repeat(200) });
    expect(await world.type("h100")).toMatchObject({
      total_cluster_gpus: 48,
      available_gpus: 45,
      max_reservable: 32,
      full_nodes_available: 5,
      running_instances: 6,
      desired_capacity: 6,
      max_per_node: 8,
      availability_state: "fresh",
      last_availability_updated_by: "x".repeat(100),
    });
    expect(await world.type("t4")).toMatchObject({ total_cluster_gpus: 8, available_gpus: 8, max_reservable: 4 });
    expect(await world.type("cpu-x86")).toMatchObject({ total_cluster_gpus: 3, available_gpus: 2, max_reservable: 1 });
    expect(await world.type("b200")).toMatchObject({
      total_cluster_gpus: 0,
      available_gpus: 0,
      availability_state: "fresh",
    });
  });

  test("the operators' query gives what it always gave", async () => {
    await furnish();
    await world.run({ kind: "gpu" });
    const rows = await world.sql(
      "select gpu_type, available_gpus, total_cluster_gpus, last_availability_update, running_instances from gpu_types where is_active = true order by gpu_type",
    );
    expect(rows.map((row) => row["gpu_type"])).toEqual([
      "a100",
      "a10g",
      "b200",
      "cpu-arm",
      "cpu-x86",
      "h100",
      "h200",
      "l4",
      "t4",
      "t4-small",
    ]);
    expect(rows.find((row) => row["gpu_type"] === "h100")).toEqual({
      gpu_type: "h100",
      available_gpus: 45,
      total_cluster_gpus: 48,
      last_availability_update: expect.any(Date),
      running_instances: 6,
    });
  });

  test("one phase that fails does not stop the other", async () => {
    await furnish();
    world.cloud.setFaults({ fail: [{ operation: "DescribeVolumes", how: "denied" }] });
    const report = await world.run();
    expect(report).toMatchObject({
      status: "failed",
      exitCode: 1,
      phases: { gpu: { status: "ok" }, disks: { status: "failed" } },
    });
    expect(await world.type("h100")).toMatchObject({ available_gpus: 45 });
  });

  test("beside another one that holds the lock is skipped with exit 0, or 4 by a setting", async () => {
    const begun = await world.database.begin({ kind: "all", updatedBy: "other" });
    expect(await world.run()).toMatchObject({ status: "skipped", exitCode: 0 });
    expect(await world.run({ failIfLocked: true })).toMatchObject({ status: "skipped", exitCode: 4 });
    if (begun.ok && begun.value.status === "begun") await begun.value.run.release();
  });

  test("a pause skips it, and a resume does not", async () => {
    await world.database.reader.pause("ada", "maintenance");
    expect(await world.run()).toMatchObject({ status: "skipped", exitCode: 0 });
    expect((await world.run()).error).toContain("maintenance");
    await world.database.reader.resume("ada");
    expect(await world.run()).toMatchObject({ status: "ok" });
  });

  test("stops before its deadline, with exit 3 and whole batches", async () => {
    await furnish();
    const report = await world.run({
      kind: "disks",
      deadlineMs: 10_000,
      margins: { stopMs: 10_000, giveUpMs: 2_000 },
    });
    expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
    expect(await world.sql("select status from reconcile_runs")).toEqual([{ status: "deadline" }]);
    expect((await world.run()).status).toBe("ok");
  });

  test("without a cloud counts the nodes as machines, and disks have no owner", async () => {
    await furnish();
    const ports = {
      clock: systemClock(),
      log: silentLog,
      metrics: world.metrics,
      database: world.database,
      cloud: undefined,
      cluster: world.readCluster,
    };
    const report = await runInventory(ports, { ...inventoryDefaults, deadlineMs: 0 });
    expect(report).toMatchObject({ status: "ok", phases: { gpu: { status: "ok" } } });
    expect(report.phases.disks).toBeUndefined();
    expect(await world.type("h100")).toMatchObject({
      running_instances: 6,
      desired_capacity: 6,
      total_cluster_gpus: 48,
      available_gpus: 45,
    });
  });
});

describe("killed at any moment", () => {
  /** A database whose connection is cut before the n-th question of the run. */
  function dyingAfter(questions: number): InventoryDatabase {
    let left = questions;
    const died = new Error("killed");
    return {
      look: () => world.database.look(),
      begin: async (start) => {
        const answer = await world.database.begin(start);
        if (!answer.ok || answer.value.status !== "begun") return answer;
        const { run } = answer.value;
        const proxied = new Proxy(run, {
          get: (target, name) => {
            const value = Reflect.get(target, name, target);
            if (typeof value !== "function") return value;
            return (...args: unknown[]) => {
              // What kill -9 does to a connection: the server notices, and takes back what was not committed.
              if (name !== "release" && left-- <= 0) throw died;
              return (value as (...given: unknown[]) => unknown).apply(target, args);
            };
          },
        }) as InventoryRun;
        return { ok: true, value: { status: "begun", run: proxied } };
      },
    };
  }

  test.each([0, 1, 2, 3, 4, 5, 6, 7])(
    "after %i questions: each batch is whole or absent, and the next run completes",
    async (questions) => {
      await furnish();
      const ports = {
        clock: systemClock(),
        log: silentLog,
        metrics: world.metrics,
        database: dyingAfter(questions),
        cloud: world.aws.aws(),
        cluster: world.readCluster,
      };
      const options = { ...inventoryDefaults, deadlineMs: 0, disks: { ...inventoryDefaults.disks, batchRows: 4 } };
      await runInventory(ports, options).catch((error: Error) => expect(error.message).toBe("killed"));
      const imported = await world.sql<{ count: string }>("select count(*) from disks");
      const changed = await world.sql<{ count: string }>(
        "select count(distinct entity_id) from drift_events where action = 'applied' and entity = 'disk'",
      );
      // Fourteen writes in batches of four: what is there is a whole number of them, with its history.
      expect([0, 4, 8, 12, 14]).toContain(Number(changed[0]?.count));
      expect(Number(imported[0]?.count)).toBeGreaterThanOrEqual(6);
      expect((await world.run()).status).toBe("ok");
      await world.run();
      expect((await world.run()).phases.disks?.rowsWritten).toBe(0);
      expect((await world.sql("select * from disks")).length).toBe(14);
    },
  );
});

describe("AWS faults: no good number is overwritten, and the run reports the error", () => {
  const everywhere: { fault: string; faults: CloudFaults; status: string; cause: string }[] = [
    { fault: "throttling", faults: { fail: [{ how: "throttle" }] }, status: "failed", cause: "RequestLimitExceeded" },
    { fault: "half pages", faults: { fail: [{ how: "truncated" }] }, status: "failed", cause: "Describe" },
    {
      fault: "an unrelated XML body",
      faults: { fail: [{ how: "unrelated" }] },
      status: "failed",
      cause: "the response has no",
    },
    {
      fault: "expired credentials",
      faults: { fail: [{ how: "expiredCredentials" }] },
      status: "failed",
      cause: "ExpiredToken",
    },
    { fault: "5xx", faults: { fail: [{ how: "internal" }] }, status: "failed", cause: "InternalError" },
    { fault: "503", faults: { fail: [{ how: "unavailable" }] }, status: "failed", cause: "Unavailable" },
    {
      fault: "denied groups alone",
      faults: { fail: [{ operation: "DescribeAutoScalingGroups", how: "denied" }] },
      status: "partial",
      cause: "AccessDenied",
    },
    {
      fault: "throttled snapshots alone",
      faults: { fail: [{ operation: "DescribeSnapshots", how: "throttle" }] },
      status: "partial",
      cause: "RequestLimitExceeded",
    },
    { fault: "empty pages with a token", faults: { emptyPageEvery: 2 }, status: "ok", cause: "" },
    { fault: "duplicated items", faults: { repeatItems: true, shuffle: true }, status: "ok", cause: "" },
  ];

  interface State {
    readonly disks: unknown;
    readonly types: readonly { readonly row: Readonly<Record<string, unknown>> }[];
  }

  const counted = [
    "gpu_type",
    "available_gpus",
    "total_cluster_gpus",
    "max_reservable",
    "full_nodes_available",
    "running_instances",
    "desired_capacity",
  ];
  const numbersOf = ({ types }: State): unknown => types.map(({ row }) => counted.map((column) => row[column]));

  /** A run under faults: it changes no disk and no number, and the next one is well again. */
  async function runUnder(faults: CloudFaults): Promise<{ status: string; error: string }> {
    await furnish();
    await world.run();
    await world.run();
    const good = (await world.state()) as State;
    world.cloud.setFaults(faults);
    const report = await world.run();
    const after = (await world.state()) as State;
    expect(after.disks).toEqual(good.disks);
    expect(numbersOf(after)).toEqual(numbersOf(good));
    world.cloud.setFaults({});
    expect((await world.run()).status).toBe("ok");
    expect(await world.state()).toEqual(good);
    return { status: report.status, error: report.error ?? "" };
  }

  test.each(everywhere)("$fault", async ({ faults, status, cause }) => {
    const report = await runUnder(faults);
    expect(report.status).toBe(status);
    expect(report.error).toContain(cause);
  });

  const operations = ["GetCallerIdentity", "DescribeAutoScalingGroups", "DescribeVolumes", "DescribeSnapshots"];
  const kinds: readonly FailKind[] = [
    "throttle",
    "internal",
    "unavailable",
    "denied",
    "notSigned",
    "expiredCredentials",
    "expiredToken",
    "truncated",
    "unrelated",
    "hangUp",
  ];
  test.each(operations.flatMap((operation) => kinds.map((how) => ({ operation, how }))))(
    "$operation alone: $how",
    async ({ operation, how }) => {
      const { status } = await runUnder({ fail: [{ operation, how }] });
      expect(["failed", "partial"]).toContain(status);
    },
  );

  test("a token that expires between two pages of groups: the types are stale, not zero", async () => {
    for (let n = 0; n < 120; n++)
      world.cloud.groups.set(`other-${n}`, { name: `other-${n}`, desiredCapacity: 0, instances: [], tags: {} });
    world.pool("h100", 2);
    await world.run({ kind: "gpu" });
    expect(await world.type("h100")).toMatchObject({ total_cluster_gpus: 16 });
    world.cloud.setFaults({ fail: [{ operation: "DescribeAutoScalingGroups", call: 2, how: "expiredToken" }] });
    expect(await world.run({ kind: "gpu" })).toMatchObject({ status: "partial", exitCode: 2 });
    expect(await world.type("h100")).toMatchObject({
      total_cluster_gpus: 16,
      available_gpus: 16,
      availability_state: "stale",
      availability_source: "k8s",
    });
  });

  test("a cluster that answers 503 leaves the numbers of the last good run, and says stale", async () => {
    await furnish();
    await world.run({ kind: "gpu" });
    world.clusterDown = "503";
    expect(await world.run({ kind: "gpu" })).toMatchObject({ status: "partial", exitCode: 2 });
    expect(await world.type("h100")).toMatchObject({
      available_gpus: 45,
      max_reservable: 32,
      availability_state: "stale",
      availability_error: "cluster: 503",
    });
  });
});

describe("the four weak spots of the original that lose data", () => {
  test("52 groups: a type on the second page is not zeroed", async () => {
    for (let n = 0; n < 101; n++)
      world.cloud.groups.set(`a-${n}`, { name: `a-${n}`, desiredCapacity: 0, instances: [], tags: {} });
    world.pool("h100", 2);
    await world.run({ kind: "gpu" });
    expect(await world.type("h100")).toMatchObject({ total_cluster_gpus: 16, available_gpus: 16 });
  });

  test("a database read that fails does not import everything again, undelete rows or overwrite operations", async () => {
    await world.addDisk("d", {
      ebs_volume_id: "v1",
      is_deleted: true,
      operation_status: "completed",
      operation_id: "00000000-0000-0000-0000-000000000001",
    });
    world.cloud.createVolume({ id: "v1", tags: tags("d") });
    world.cloud.createVolume({ id: "v2", tags: tags("e") });
    const before = await world.state();
    await world.sql("alter table reservations rename to hidden");
    expect((await world.run({ kind: "disks" })).status).toBe("failed");
    await world.sql("alter table hidden rename to reservations");
    expect(await world.state()).toEqual(before);
  });

  test("an error about snapshots does not overwrite their counts", async () => {
    await world.addDisk("d", { ebs_volume_id: "v1", snapshot_count: 9, volume_state: "available" });
    world.cloud.createVolume({ id: "v1", tags: tags("d") });
    world.cloud.setFaults({ fail: [{ operation: "DescribeSnapshots", how: "internal" }] });
    expect((await world.run({ kind: "disks" })).status).toBe("partial");
    expect(await world.disk("d")).toMatchObject({ snapshot_count: 9 });
  });

  test("a claim that is made between the two reads is not lost", async () => {
    await world.addReservation("r1", "active");
    await world.addDisk("d", { ebs_volume_id: "v0", missing_since: new Date(0), in_use: true, reservation_id: null });
    world.cloud.createVolume({ id: "other", tags: tags("other") });
    const { database } = world;
    const claiming: InventoryDatabase = {
      look: () => database.look(),
      begin: async (start) => {
        const answer = await database.begin(start);
        if (!answer.ok || answer.value.status !== "begun") return answer;
        const { run } = answer.value;
        const disks = run.disks.bind(run);
        run.disks = async () => {
          const read = await disks();
          await world.sql("update disks set in_use = true, reservation_id = 'r1' where disk_name = 'd'");
          return read;
        };
        return answer;
      },
    };
    const ports = {
      clock: systemClock(),
      log: silentLog,
      metrics: world.metrics,
      database: claiming,
      cloud: world.aws.aws(),
      cluster: world.readCluster,
    };
    const report = await runInventory(ports, { ...inventoryDefaults, kind: "disks", deadlineMs: 0 });
    expect(report.phases.disks?.counters).toMatchObject({ skipped_changed: 1 });
    expect(await world.disk("d")).toMatchObject({ in_use: true, reservation_id: "r1" });
  });
});

describe("snapshots between two full passes", () => {
  test("only the last days are read, with the same result", async () => {
    await world.addDisk("d", { ebs_volume_id: "v1" });
    world.cloud.createVolume({ id: "v1", tags: tags("d") });
    for (let n = 0; n < 30; n++)
      world.cloud.putSnapshot({
        id: `old-${n}`,
        volumeId: "v1",
        startedMs: Date.now() - 30 * 86_400_000,
        tags: tags("d"),
      });
    await world.run({ kind: "disks" });
    expect(await world.disk("d")).toMatchObject({ snapshot_count: 30 });
    world.cloud.putSnapshot({ id: "new", volumeId: "v1", tags: tags("d") });
    world.cloud.createVolume({ id: "v2", tags: tags("e") });
    world.cloud.putSnapshot({ id: "of-e", volumeId: "v2", startedMs: Date.now() - 40 * 86_400_000, tags: tags("e") });
    await world.run({ kind: "disks" });
    expect(await world.disk("d")).toMatchObject({ snapshot_count: 31 });
    expect(await world.disk("e")).toMatchObject({ snapshot_count: 1 });
    const windowed = await world.state();
    await world.run({ kind: "disks" }, { snapshotsFullEveryMs: 0 });
    expect(await world.state()).toEqual(windowed);
  });
});

test("what an alert asks for is counted: runs by status, the last success, stale types, ages, counters", async () => {
  await furnish();
  await world.run();
  world.clusterDown = "503";
  await world.run();
  const text = world.metrics.render();
  for (const line of [
    'muster_inventory_runs_total{status="ok"}',
    'muster_inventory_runs_total{status="partial"}',
    "muster_inventory_last_success_timestamp_seconds",
    'muster_inventory_types{state="stale"} 10',
    'muster_inventory_availability_age_seconds{gpu_type="h100"}',
    'muster_inventory_disks{counter="aws_volumes"} 13',
    'muster_inventory_disks{counter="duplicates"} 1',
    'muster_inventory_available_gpus{gpu_type="h100"} 45',
  ]) {
    expect(text).toContain(line);
  }
});

test("volumes without their tags are one line in the log, however many there are", async () => {
  for (let n = 0; n < 50; n++) world.cloud.createVolume({ id: `v${n}`, tags: { "gpu-dev-user": "ada" } });
  const lines: { fields: Readonly<Record<string, unknown>>; message: string }[] = [];
  const log = {
    ...silentLog,
    warn: (fields: Readonly<Record<string, unknown>>, message: string) => void lines.push({ fields, message }),
  };
  const ports = {
    clock: systemClock(),
    log,
    metrics: world.metrics,
    database: world.database,
    cloud: world.aws.aws(),
    cluster: world.readCluster,
  };
  const report = await runInventory(ports, { ...inventoryDefaults, kind: "disks", deadlineMs: 0 });
  expect(report.phases.disks?.counters).toMatchObject({ skipped_missing_tags: 50, created: 0 });
  expect(lines).toHaveLength(1);
  expect(lines[0]?.fields).toMatchObject({ count: 50 });
  expect(lines[0]?.fields["volumes"]).toHaveLength(20);
});

test("a role with only the rights it needs can do a whole run, and nothing else (4.3)", async () => {
  await furnish();
  await world.sql("create role reconciler login password 'secret'");
  await world.sql(grantsFor("reconciler"));
  const url = new URL(world.database.url);
  url.username = "reconciler";
  url.password = "secret";
  const database = await openPostgres({ url: url.href }, { log: silentLog });
  expect(await database.migrate()).toEqual({ applied: [], blocked: [] });
  const ports = {
    clock: systemClock(),
    log: silentLog,
    metrics: world.metrics,
    database,
    cloud: world.aws.aws(),
    cluster: world.readCluster,
  };
  expect(await runInventory(ports, { ...inventoryDefaults, deadlineMs: 0 })).toMatchObject({ status: "ok" });
  for (const sql of [
    "delete from disks",
    "update gpu_types set max_per_node = 0",
    "update disks set is_deleted = true",
    "update reservations set status = 'active'",
    "insert into gpu_types (gpu_type, instance_type, max_gpus, cpus, memory_gb) values ('x', 'x', 1, 1, 1)",
  ]) {
    await expect(database.pool.query(sql), sql).rejects.toThrow("permission denied");
  }
  await database.close();
});

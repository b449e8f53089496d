import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { inventoryDefaults } from "../../src/control/inventory/inventoryDefaults.ts";
import { type RunReport, runInventory } from "../../src/control/inventory/runInventory.ts";
import type { Cloud } from "../../src/ports/cloud.ts";
import type { InventoryDatabase } from "../../src/ports/database.ts";
import { silentLog } from "./databases.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

/** Every line of the race matrix, on a script: t0 is the read of the database, t1 that of the cloud, t2 the write. */
const world = new InventoryWorld();
beforeAll(() => world.start());
afterAll(() => world.stop());
beforeEach(() => world.fresh());

const tags = (name: string) => ({ "gpu-dev-user": "ada", disk_name: name });
const past = new Date(Date.now() - 3_600_000);
const soon = () => new Date(Date.now() + 600_000);

interface Meanwhile {
  readonly betweenReads?: () => Promise<unknown> | unknown;
  readonly beforeWrite?: () => Promise<unknown> | unknown;
}

/** A run of the disks with something that happens between its steps. */
async function runWhile({ betweenReads, beforeWrite }: Meanwhile): Promise<RunReport> {
  const database: InventoryDatabase = {
    look: () => world.database.look(),
    begin: async (start) => {
      const answer = await world.database.begin(start);
      if (!answer.ok || answer.value.status !== "begun") return answer;
      const { run } = answer.value;
      const disks = run.disks.bind(run);
      run.disks = async () => {
        const read = await disks();
        await betweenReads?.();
        return read;
      };
      return answer;
    },
  };
  const aws = world.aws.aws();
  let isFirst = true;
  const cloud: Cloud = {
    identity: (options) => aws.identity(options),
    scalingGroups: (onPage, options) => aws.scalingGroups(onPage, options),
    volumes: (which, onPage, options) => aws.volumes(which, onPage, options),
    modifications: (ids, options) => aws.modifications(ids, options),
    usage: () => aws.usage(),
    snapshots: async (which, onPage, options) => {
      const read = await aws.snapshots(which, onPage, options);
      // After the listing that counts, and before anything is written.
      if (isFirst && which.type !== "pending") {
        isFirst = false;
        await beforeWrite?.();
      }
      return read;
    },
  };
  const ports = {
    clock: systemClock(),
    log: silentLog,
    metrics: world.metrics,
    database,
    cloud,
    cluster: world.readCluster,
  };
  const disks = { ...inventoryDefaults.disks, acceptDrop: true };
  return runInventory(ports, { ...inventoryDefaults, kind: "disks", deadlineMs: 0, disks });
}

const claim = (name: string) => async () => {
  await world.addReservation("r1", "preparing");
  await world.sql("update disks set in_use = true, reservation_id = 'r1', claim_expires_at = $2 where disk_name = $1", [
    name,
    soon(),
  ]);
};
const create = (id: string, name: string, more: object = {}) =>
  world.cloud.createVolume({ id, tags: tags(name), ...more });

describe("the race matrix", () => {
  test("the application makes volume and row before t0: normal", async () => {
    await world.addDisk("d");
    create("v1", "d");
    await runWhile({});
    expect(await world.disk("d")).toMatchObject({ ebs_volume_id: "v1" });
  });

  test("it inserts the row between t0 and t1: the import does nothing, the next run links", async () => {
    create("v1", "d");
    const report = await runWhile({ betweenReads: () => world.addDisk("d", { last_used: past }) });
    expect(report.phases.disks?.counters).toMatchObject({ skipped_changed: 1, created: 0 });
    expect(await world.disk("d")).toMatchObject({ ebs_volume_id: null, last_used: past });
    await runWhile({});
    expect(await world.disk("d")).toMatchObject({ ebs_volume_id: "v1", last_used: past });
  });

  test("it makes the volume between t0 and t1: linked, if the row is as it was", async () => {
    await world.addDisk("d");
    await runWhile({ betweenReads: () => create("v1", "d") });
    expect(await world.disk("d")).toMatchObject({ ebs_volume_id: "v1" });
  });

  test("it claims and makes the volume after t1: the row looks orphaned, and the claim is kept", async () => {
    await world.addDisk("d", { ebs_volume_id: "v0", in_use: true, missing_since: past, volume_state: "missing" });
    const report = await runWhile({
      beforeWrite: async () => {
        await claim("d")();
        create("v1", "d");
      },
    });
    expect(report.phases.disks?.counters).toMatchObject({ skipped_changed: 1 });
    expect(await world.disk("d")).toMatchObject({ in_use: true, reservation_id: "r1" });
  });

  test.each(["betweenReads", "beforeWrite"] as const)(
    "it claims the row %s: the version refuses our write",
    async (when) => {
      await world.addDisk("d", { ebs_volume_id: "v1", size_gb: 1 });
      create("v1", "d");
      const report = await runWhile({ [when]: claim("d") });
      expect(report.phases.disks?.counters).toMatchObject({ skipped_changed: 1, updated: 0 });
      expect(await world.disk("d")).toMatchObject({ in_use: true, reservation_id: "r1", size_gb: 1 });
    },
  );

  test("the volume is attached between t1 and t2: freed only if no reservation claims it, and the next run corrects", async () => {
    await world.addDisk("free", { ebs_volume_id: "v1", in_use: true, volume_state: "available" });
    create("v1", "free");
    await world.addReservation("r2", "active");
    await world.addDisk("claimed", {
      ebs_volume_id: "v2",
      in_use: true,
      reservation_id: "r2",
      claim_expires_at: soon(),
      volume_state: "available",
    });
    create("v2", "claimed");
    await runWhile({
      beforeWrite: () => {
        world.cloud.attach("v1", "i-1");
        world.cloud.attach("v2", "i-2");
      },
    });
    expect(await world.disk("free")).toMatchObject({ in_use: false });
    expect(await world.disk("claimed")).toMatchObject({ in_use: true, reservation_id: "r2" });
    await runWhile({});
    expect(await world.disk("free")).toMatchObject({ in_use: true });
  });

  test("a user cancels and the volume is detaching: in use until it is available", async () => {
    await world.addReservation("r1", "cancelled");
    await world.addDisk("d", { ebs_volume_id: "v1", in_use: true, reservation_id: "r1" });
    create("v1", "d");
    world.cloud.attach("v1", "i-1", "detaching");
    await runWhile({});
    expect(await world.disk("d")).toMatchObject({ in_use: true, reservation_id: "r1" });
    world.cloud.detach("v1");
    await runWhile({});
    expect(await world.disk("d")).toMatchObject({ in_use: false, reservation_id: null });
  });

  test("a snapshot completes between t1 and t2: the count is one behind for one run, never zero", async () => {
    await world.addDisk("d", { ebs_volume_id: "v1", snapshot_count: 1 });
    create("v1", "d");
    world.cloud.putSnapshot({ id: "s1", volumeId: "v1", tags: tags("d") });
    await runWhile({ beforeWrite: () => world.cloud.putSnapshot({ id: "s2", volumeId: "v1", tags: tags("d") }) });
    expect(await world.disk("d")).toMatchObject({ snapshot_count: 1 });
    await runWhile({});
    expect(await world.disk("d")).toMatchObject({ snapshot_count: 2 });
  });

  test("a volume is deleted after its last snapshot, between t0 and t1: the count grows, the row is freed by a later run", async () => {
    await world.addReservation("r1", "expired");
    await world.addDisk("d", { ebs_volume_id: "v1", in_use: true, reservation_id: "r1" });
    create("v1", "d");
    create("other", "other");
    const end = () => {
      world.cloud.putSnapshot({ id: "s1", volumeId: "v1", tags: tags("d") });
      world.cloud.deleteVolume("v1");
    };
    await runWhile({ betweenReads: end });
    expect(await world.disk("d")).toMatchObject({ in_use: true, snapshot_count: 1, volume_state: "missing" });
    await runWhile({});
    expect(await world.disk("d")).toMatchObject({ in_use: false, reservation_id: null, snapshot_count: 1 });
  });

  test("a disk is renamed between t0 and t2: the version refuses, the next run matches by id", async () => {
    await world.addDisk("d", { ebs_volume_id: "v1", size_gb: 1 });
    create("v1", "d");
    const report = await runWhile({
      beforeWrite: () => world.sql("update disks set disk_name = 'e' where disk_name = 'd'"),
    });
    expect(report.phases.disks?.counters).toMatchObject({ skipped_changed: 1 });
    await runWhile({});
    expect(await world.disk("e")).toMatchObject({ ebs_volume_id: "v1", size_gb: 100 });
    expect(await world.sql("select * from disks")).toHaveLength(1);
  });

  test("a disk is restored into a new volume: linked, and a volume from another disk's snapshot is reported", async () => {
    await world.addDisk("d", { ebs_volume_id: "v0", missing_since: past });
    world.cloud.putSnapshot({ id: "s-other", volumeId: "v9", tags: tags("other") });
    create("v1", "d", { snapshotId: "s-other" });
    const report = await runWhile({});
    expect(report.phases.disks?.counters).toMatchObject({ replaced: 1, lineage_mismatch: 1 });
    expect(await world.disk("d")).toMatchObject({ ebs_volume_id: "v1" });
  });

  test("a row is soft-deleted between t0 and t2: the version refuses, and it stays deleted", async () => {
    await world.addDisk("d", { ebs_volume_id: "v1", size_gb: 1 });
    create("v1", "d");
    const report = await runWhile({ beforeWrite: () => world.sql("update disks set is_deleted = true") });
    expect(report.phases.disks?.counters).toMatchObject({ skipped_changed: 1 });
    expect(await world.disk("d")).toMatchObject({ is_deleted: true, size_gb: 1 });
  });

  test("a second reconciler starts: skipped; and when the lock was lost, the fence refuses the first one's writes", async () => {
    await world.addDisk("d", { ebs_volume_id: "v1", size_gb: 1 });
    create("v1", "d");
    let second: RunReport | undefined;
    await runWhile({
      beforeWrite: async () => {
        second = await world.run({ kind: "disks" });
      },
    });
    expect(second).toMatchObject({ status: "skipped" });
    await world.sql("update disks set size_gb = 2");
    // What a failover does: the lock is gone, and another run has begun.
    const lost = await runWhile({ beforeWrite: () => world.sql("update reconcile_control set fence = fence + 1") });
    expect(lost).toMatchObject({ status: "failed", exitCode: 1 });
    expect(lost.error).toContain("fence");
    expect(await world.disk("d")).toMatchObject({ size_gb: 2 });
  });
});

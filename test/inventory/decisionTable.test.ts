import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { InventoryWorld } from "./inventoryWorld.ts";

/** Every row of the decision table once more, through PostgreSQL and the SDK. */
const world = new InventoryWorld();
beforeAll(() => world.start());
afterAll(() => world.stop());
beforeEach(() => world.fresh());

const tags = (name: string, user = "ada") => ({ "gpu-dev-user": user, disk_name: name });
const hourAgo = new Date(Date.now() - 3_600_000);

interface Case {
  fact: string;
  given: () => Promise<void> | void;
  becomes: Record<string, Record<string, unknown>>;
  counters: Record<string, number>;
  status?: string;
}

const volume = (id: string, name: string, more: object = {}) =>
  world.cloud.createVolume({ id, tags: tags(name), ...more });
const known = (name: string, id: string, more: Record<string, unknown> = {}) =>
  world.addDisk(name, { ebs_volume_id: id, volume_state: "available", ...more });

const cases: Case[] = [
  {
    fact: "an unknown volume becomes a disk with its fields",
    given: () => void volume("v1", "d", { sizeGb: 1024, createdMs: 1_700_000_000_000 }),
    becomes: {
      d: {
        user_id: "ada",
        ebs_volume_id: "v1",
        size_gb: 1024,
        in_use: false,
        is_deleted: false,
        reservation_id: null,
        last_used: null,
        operation_id: null,
        created_at: new Date(1_700_000_000_000),
      },
    },
    counters: { created: 1, aws_volumes: 1, db_records: 0 },
  },
  {
    fact: "volumes that come or go are not disks yet, or any more",
    given: () =>
      void [
        volume("v1", "a", { state: "creating" }),
        volume("v2", "b", { state: "deleting" }),
        volume("v3", "c", { state: "error" }),
      ],
    becomes: {},
    counters: { skipped_transient: 3, created: 0 },
  },
  {
    fact: "without its disk tag a volume is skipped, whatever its Name says",
    given: () =>
      void world.cloud.createVolume({ id: "v1", tags: { "gpu-dev-user": "ada", Name: "gpu-dev-disk-ada-d" } }),
    becomes: {},
    counters: { skipped_missing_tags: 1, created: 0 },
  },
  {
    fact: "a name that no API accepts, and an unknown user, are not imported",
    given: async () => {
      await world.sql("insert into api_users (username) values ('ada')");
      volume("v1", "a/b");
      world.cloud.createVolume({ id: "v2", tags: tags("d", "mallory") });
    },
    becomes: {},
    counters: { skipped_invalid: 2 },
  },
  {
    fact: "of two volumes of one new disk the newest is imported",
    given: () => void [volume("v1", "d", { createdMs: 2_000_000 }), volume("v2", "d", { createdMs: 1_000_000 })],
    becomes: { d: { ebs_volume_id: "v1" } },
    counters: { created: 1, duplicates: 1 },
  },
  {
    fact: "what is equal is not written",
    given: async () => {
      await known("d", "v1");
      volume("v1", "d");
    },
    becomes: { d: { row_version: "1", last_updated: expect.any(Date) } },
    counters: { synced: 1, updated: 0 },
  },
  {
    fact: "what differs is written",
    given: async () => {
      await known("d", "v1");
      volume("v1", "d", { sizeGb: 200 });
    },
    becomes: { d: { size_gb: 200 } },
    counters: { updated: 1 },
  },
  {
    fact: "a deleted disk with a volume is synced and stays deleted",
    given: async () => {
      await known("d", "v1", { is_deleted: true });
      volume("v1", "d", { sizeGb: 200 });
    },
    becomes: { d: { size_gb: 200, is_deleted: true } },
    counters: { updated: 1, deleted_but_present: 1 },
  },
  {
    fact: "a renamed disk keeps its volume; a new one of the old name is another disk",
    given: async () => {
      await known("new", "v1");
      volume("v1", "old");
      volume("v2", "old");
    },
    becomes: { new: { ebs_volume_id: "v1" }, old: { ebs_volume_id: "v2" } },
    counters: { synced: 1, created: 1, tag_drift: 1 },
  },
  {
    fact: "ownership never moves",
    given: async () => {
      await known("d", "v1");
      world.cloud.createVolume({ id: "v1", sizeGb: 7, tags: tags("d", "eve") });
    },
    becomes: { d: { user_id: "ada", size_gb: 7 } },
    counters: { updated: 1, owner_conflict: 1 },
  },
  {
    fact: "a disk without a volume gets the one of its name",
    given: async () => {
      await world.addDisk("d");
      volume("v1", "d");
    },
    becomes: { d: { ebs_volume_id: "v1" } },
    counters: { updated: 1, linked: 1 },
  },
  {
    fact: "a replacement is linked once the old volume is gone for good",
    given: async () => {
      await known("d", "v0", { missing_since: hourAgo, volume_state: "missing" });
      volume("v1", "d");
    },
    becomes: { d: { ebs_volume_id: "v1", missing_since: null } },
    counters: { updated: 1, replaced: 1 },
  },
  {
    fact: "a row keeps its live volume",
    given: async () => {
      await known("d", "v1");
      volume("v1", "d");
      volume("v2", "d");
    },
    becomes: { d: { ebs_volume_id: "v1" } },
    counters: { synced: 1, duplicates: 1 },
  },
  {
    fact: "a deleted disk's name is not taken over",
    given: async () => {
      await world.addDisk("d", { is_deleted: true });
      volume("v1", "d");
    },
    becomes: { d: { ebs_volume_id: null, is_deleted: true } },
    counters: { name_conflict: 1, created: 0 },
  },
  {
    fact: "a claimed disk whose volume is gone is freed",
    given: async () => {
      await world.addReservation("r1", "expired");
      await known("d", "v1", { in_use: true, reservation_id: "r1", missing_since: hourAgo, last_updated: hourAgo });
      volume("other", "other");
    },
    becomes: { d: { in_use: false, reservation_id: null, ebs_volume_id: "v1" } },
    counters: { orphaned_db_active: 1, updated: 1 },
  },
  {
    fact: "an idle disk whose volume is gone says so, and its version stays",
    given: async () => {
      await known("d", "v1");
      volume("other", "other");
    },
    becomes: { d: { row_version: "1", volume_state: "missing", missing_since: expect.any(Date) } },
    counters: { orphaned_db_active: 1, updated: 1 },
  },
  {
    fact: "an idle disk whose volume has lost its tags keeps it",
    given: async () => {
      await known("d", "v1");
      world.cloud.createVolume({ id: "v1", sizeGb: 100, tags: {} });
      volume("other", "other");
    },
    becomes: { d: { volume_state: "available", missing_since: null } },
    counters: { marked_missing: 0 },
  },
  {
    fact: "a disk at rest is not written again",
    given: async () => {
      await known("d", "v1", { volume_state: "missing", missing_since: hourAgo });
      volume("other", "other");
    },
    becomes: { d: { row_version: "1", missing_since: hourAgo } },
    counters: { orphaned_db_active: 1, updated: 0 },
  },
  {
    fact: "a deleted disk without a volume is left alone",
    given: async () => {
      await known("d", "v1", { is_deleted: true, in_use: true });
      volume("other", "other");
    },
    becomes: { d: { in_use: true } },
    counters: { orphaned_db_deleted: 1, updated: 0 },
  },
  {
    fact: "a claim on a disk without a volume ends with its reservation",
    given: async () => {
      await world.addReservation("r1", "cancelled");
      await world.addDisk("d", { in_use: true, reservation_id: "r1" });
    },
    becomes: { d: { in_use: false, reservation_id: null } },
    counters: { stale_claim: 1, unlinked: 1 },
  },
  {
    fact: "a row with an operation under way is left to it",
    given: async () => {
      await known("d", "v1", { operation_status: "in_progress", last_updated: new Date() });
      volume("v1", "d", { sizeGb: 7 });
    },
    becomes: { d: { size_gb: 100 } },
    counters: { skipped_in_flight: 1 },
  },
  {
    fact: "unknown snapshots leave what is known about them",
    given: async () => {
      await known("d", "v1", { snapshot_count: 7, is_backing_up: true });
      volume("v1", "d", { sizeGb: 7 });
      world.cloud.setFaults({ fail: [{ operation: "DescribeSnapshots", how: "throttle" }] });
    },
    becomes: { d: { snapshot_count: 7, is_backing_up: true, size_gb: 7 } },
    counters: { updated: 1, snapshot_unknown: 1 },
    status: "partial",
  },
  {
    fact: "one attachment is enough to be in use",
    given: async () => {
      await known("d", "v1", { volume_state: "in-use" });
      volume("v1", "d", {
        state: "in-use",
        attachments: [
          { instanceId: "i-1", state: "detached" },
          { instanceId: "i-2", state: "attached" },
        ],
      });
    },
    becomes: { d: { in_use: true, reservation_id: null } },
    counters: { updated: 1, unexpected_attach: 1 },
  },
  {
    fact: "a volume that an older service set aside is a volume",
    given: async () => {
      await known("d", "v1");
      world.cloud.createVolume({ id: "v1", tags: { ...tags("d"), "gpu-dev-quarantined": "2026-01-01" } });
    },
    becomes: {},
    counters: { synced: 1, quarantined_seen: 1 },
  },
  {
    fact: "of two rows with one volume the living one has it",
    given: async () => {
      await known("d", "v1");
      await known("e", "v1", { is_deleted: true });
      volume("v1", "e", { sizeGb: 9 });
    },
    becomes: { d: { size_gb: 9 }, e: { size_gb: 100 } },
    counters: { updated: 1, db_duplicate: 1 },
  },
  {
    fact: "a disk that is being attached is not freed",
    given: async () => {
      await known("d", "v1", { in_use: true, volume_state: "in-use" });
      volume("v1", "d");
      world.cloud.attach("v1", "i-1", "attaching");
    },
    becomes: { d: { in_use: true } },
    counters: { synced: 1 },
  },
  {
    fact: "a claim in progress is not drift",
    given: async () => {
      await world.addReservation("r1", "preparing");
      await known("d", "v1", { in_use: true, reservation_id: "r1", claim_expires_at: new Date(Date.now() + 600_000) });
      volume("v1", "d");
    },
    becomes: { d: { in_use: true, reservation_id: "r1" } },
    counters: { synced: 1, claims_kept: 1 },
  },
  {
    fact: "a claim whose reservation is over ends, and the reservation is cleared",
    given: async () => {
      await world.addReservation("r1", "failed");
      await known("d", "v1", { in_use: true, reservation_id: "r1" });
      volume("v1", "d");
    },
    becomes: { d: { in_use: false, reservation_id: null } },
    counters: { updated: 1 },
  },
  {
    fact: "a purged reservation's tag does not stop an import",
    given: () => {
      volume("v1", "d", { tags: { ...tags("d"), reservation_id: "purged" } });
      world.cloud.attach("v1", "i-1");
    },
    becomes: { d: { in_use: true, reservation_id: null } },
    counters: { created: 1 },
  },
  {
    fact: "a resize under way is told and not written",
    given: async () => {
      await known("d", "v1");
      volume("v1", "d", { sizeGb: 200 });
      world.cloud.modifications.set("v1", { volumeId: "v1", state: "modifying", targetSizeGb: 200 });
    },
    becomes: { d: { size_gb: 100 } },
    counters: { synced: 1, resizing: 1 },
  },
  {
    fact: "snapshots are counted by the disk, without scanners' copies and those on their way out",
    given: async () => {
      await known("d", "v1");
      volume("v1", "d");
      for (const [id, of, more] of [
        ["s1", "v1", { tags: tags("d") }],
        ["s2", "v-old", { tags: tags("d") }],
        ["s3", "vol-ffffffff", { tags: tags("d") }],
        ["s4", "v-old", { tags: { ...tags("d"), "delete-date": "x" } }],
        ["s5", "v1", { state: "pending", tags: tags("d"), startedMs: Date.now() + 1_000 }],
      ] as const)
        world.cloud.putSnapshot({ id, volumeId: of, startedMs: Date.now() - 60_000, ...more });
    },
    becomes: { d: { snapshot_count: 2, is_backing_up: true } },
    counters: { updated: 1 },
  },
];

describe("the decision table, through PostgreSQL and the SDK", () => {
  test.each(cases)("$fact", async ({ given, becomes, counters, status = "ok" }) => {
    await given();
    const report = await world.run({ kind: "disks" }, { acceptDrop: true });
    expect(report.status).toBe(status);
    expect(report.phases.disks?.counters).toMatchObject(counters);
    for (const [name, columns] of Object.entries(becomes)) expect(await world.disk(name)).toMatchObject(columns);
    // A second run on the same world finds nothing to do, unless it waits for exactly that.
    const again = await world.run({ kind: "disks" }, { acceptDrop: true });
    expect(again.phases.disks?.rowsWritten).toBe(0);
    expect(world.cloud.mutations).toEqual([]);
  });

  test("what seems to be gone is marked first, and acted on by the next run", async () => {
    await world.addReservation("r1", "expired");
    await known("d", "v1", { in_use: true, reservation_id: "r1" });
    volume("other", "other");
    await world.run({ kind: "disks" });
    expect(await world.disk("d")).toMatchObject({ in_use: true, reservation_id: "r1", volume_state: "missing" });
    await world.run({ kind: "disks" });
    expect(await world.disk("d")).toMatchObject({ in_use: false, reservation_id: null });
    const history = await world.sql("select * from drift_events where field = 'reservation_id'");
    expect(history).toMatchObject([{ entity_id: "ada/d", old: "r1", new: null, action: "applied" }]);
  });

  test("a second read that fails confirms nothing, and frees nothing", async () => {
    await world.addReservation("r1", "expired");
    await known("d", "v1", { in_use: true, reservation_id: "r1" });
    volume("other", "other");
    await world.run({ kind: "disks" });
    world.cloud.setFaults({ fail: [{ operation: "DescribeVolumes", call: 2, how: "denied" }] });
    const report = await world.run({ kind: "disks" });
    expect(report).toMatchObject({ status: "partial", exitCode: 2 });
    expect(report.error).toContain("could not be confirmed");
    expect(await world.disk("d")).toMatchObject({ in_use: true, reservation_id: "r1" });
    world.cloud.setFaults({});
    await world.run({ kind: "disks" });
    expect(await world.disk("d")).toMatchObject({ in_use: false, reservation_id: null });
  });

  test("a cloud that cannot be read: nothing is written, exit 1", async () => {
    await known("d", "v1", { in_use: true });
    const before = await world.state();
    world.cloud.setFaults({ fail: [{ operation: "DescribeVolumes", how: "internal" }] });
    const report = await world.run({ kind: "disks" });
    expect(report).toMatchObject({ status: "failed", exitCode: 1 });
    expect(report.error).toContain("InternalError");
    expect(await world.state()).toEqual(before);
  });

  test("a table that cannot be read: nothing is imported", async () => {
    volume("v1", "d");
    await world.sql("alter table disks rename to hidden");
    const report = await world.run({ kind: "disks" });
    expect(report).toMatchObject({ status: "failed", exitCode: 1 });
    await world.sql("alter table hidden rename to disks");
    expect(await world.sql("select * from disks")).toEqual([]);
  });

  test("an empty answer, a third fewer volumes, another account: refused with exit 5, and the flag overrules", async () => {
    for (let n = 1; n <= 20; n++) volume(`v${n}`, `d${n}`);
    await world.run({ kind: "disks" });
    const before = await world.state();
    for (let n = 1; n <= 10; n++) world.cloud.volumes.delete(`v${n}`);
    expect(await world.run({ kind: "disks" })).toMatchObject({ status: "refused", exitCode: 5 });
    const kept = [...world.cloud.volumes];
    world.cloud.volumes.clear();
    expect(await world.run({ kind: "disks" })).toMatchObject({ status: "refused", exitCode: 5 });
    for (const [id, each] of kept) world.cloud.volumes.set(id, each);
    world.cloud.account = "999999999999";
    expect(await world.run({ kind: "disks" })).toMatchObject({ status: "refused", exitCode: 5 });
    world.cloud.account = "123456789012";
    expect(await world.state()).toEqual(before);
    expect(await world.run({ kind: "disks" }, { acceptDrop: true })).toMatchObject({ status: "ok", exitCode: 0 });
  });
});

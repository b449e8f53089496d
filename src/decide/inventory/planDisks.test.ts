import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type DiskPhaseCase, decideDisks } from "../../../testing/decide/inventoryDisks.ts";
import type { CloudVolume } from "../../model/inventory/cloud.ts";
import type { DiskRow } from "../../model/inventory/rows.ts";
import { attached, disk, nowMs, reservation, snapshot, volume } from "../../sim/inventory/builders.ts";

/** A row that already says what the cloud says about its volume. */
const settled = (name: string, volumeId: string, more: Partial<DiskRow> = {}): DiskRow =>
  disk(name, { volumeId, volumeState: "available", ...more });
const longGone = nowMs - 300_000;
const tags = (user: string, name: string) => ({ "gpu-dev-user": user, disk_name: name });

interface Row {
  fact: string;
  world: DiskPhaseCase;
  /** Changes of rows by name; imports are `new:volume`. */
  writes: Record<string, object>;
  counters: Record<string, number>;
  reports?: string[];
}

const table: Row[] = [
  {
    fact: "a volume that the database does not know is imported",
    world: { volumes: [volume("v1", "d", { createdMs: 5 })] },
    writes: {
      "new:v1": {
        userId: "ada",
        diskName: "d",
        sizeGb: 100,
        createdMs: 5,
        inUse: false,
        reservationId: null,
        volumeState: "available",
      },
    },
    counters: { created: 1 },
  },
  {
    fact: "a volume in the making is waited for",
    world: { volumes: [volume("v1", "d", { state: "creating" })] },
    writes: {},
    counters: { skipped_transient: 1 },
  },
  {
    fact: "volumes that go, or failed, are left alone",
    world: {
      volumes: [
        volume("v1", "a", { state: "deleting" }),
        volume("v2", "b", { state: "error" }),
        volume("v3", "c", { state: "deleted" }),
      ],
    },
    writes: {},
    counters: { skipped_transient: 3 },
    reports: ["the volume is in state error"],
  },
  {
    fact: "a volume without its tags is skipped, even if its Name says more",
    world: {
      volumes: [
        volume("v1", "", { tags: { "gpu-dev-user": "ada", Name: "gpu-dev-persistent-ada" } }),
        volume("v2", "d", { tags: { "gpu-dev-user": "", disk_name: "d" } }),
      ],
    },
    writes: {},
    counters: { skipped_missing_tags: 2 },
  },
  {
    fact: "the Name tag counts where the settings say so",
    world: { nameFallback: true, volumes: [volume("v1", "", { tags: { "gpu-dev-user": "ada", Name: "old" } })] },
    writes: { "new:v1": { diskName: "old" } },
    counters: { created: 1 },
  },
  {
    fact: "a name that no API accepts, or without a user, is reported",
    world: { knownUsers: ["ada"], volumes: [volume("v1", "a b/c"), volume("v2", "d", { tags: tags("eve", "d") })] },
    writes: {},
    counters: { skipped_invalid: 2 },
    reports: ["skipped_invalid"],
  },
  {
    fact: "of two new volumes of one disk the newest is imported",
    world: { volumes: [volume("v1", "d", { createdMs: 5 }), volume("v2", "d", { createdMs: 9 })] },
    writes: { "new:v2": {} },
    counters: { created: 1, duplicates: 1 },
    reports: ["duplicates: ada/d"],
  },
  {
    fact: "what is equal is not written",
    world: { rows: [settled("d", "v1")], volumes: [volume("v1", "d")] },
    writes: {},
    counters: { synced: 1, matched: 1 },
  },
  {
    fact: "what differs is written, and only that",
    world: { rows: [settled("d", "v1")], volumes: [volume("v1", "d", { sizeGb: 200 })] },
    writes: { d: { sizeGb: 200 } },
    counters: { updated: 1 },
  },
  {
    fact: "a deleted disk whose volume lives is synced, stays deleted and is reported",
    world: { rows: [settled("d", "v1", { isDeleted: true })], volumes: [volume("v1", "d", { sizeGb: 200 })] },
    writes: { d: { sizeGb: 200 } },
    counters: { updated: 1, deleted_but_present: 1 },
    reports: ["deleted_but_present"],
  },
  {
    fact: "a renamed disk keeps its volume, and a new disk of the old name is another one",
    world: { rows: [settled("new", "v1")], volumes: [volume("v1", "old"), volume("v2", "old")] },
    writes: { "new:v2": { diskName: "old" } },
    counters: { synced: 1, created: 1, tag_drift: 1 },
    reports: ["tag_drift"],
  },
  {
    fact: "a volume whose tags name another owner stays with its row",
    world: { rows: [settled("d", "v1")], volumes: [volume("v1", "d", { sizeGb: 7, tags: tags("eve", "d") })] },
    writes: { d: { sizeGb: 7 } },
    counters: { updated: 1, owner_conflict: 1 },
    reports: ["owner_conflict"],
  },
  {
    fact: "a disk without a volume is linked to the one of its name",
    world: { rows: [disk("d")], volumes: [volume("v1", "d")] },
    writes: { d: { volumeId: "v1", volumeState: "available" } },
    counters: { updated: 1, linked: 1, matched: 1 },
  },
  {
    fact: "a replacement waits until the old volume was missing in two runs",
    world: { rows: [settled("d", "v0")], volumes: [volume("v1", "d")] },
    writes: { d: { missing: true, volumeState: "missing" } },
    counters: { skipped_unconfirmed: 1, orphaned_db_active: 1, marked_missing: 1, updated: 1 },
  },
  {
    fact: "a replacement is linked when the old volume is gone for good",
    world: {
      rows: [settled("d", "v0", { missingSinceMs: longGone, volumeState: "missing" })],
      volumes: [volume("v1", "d")],
    },
    writes: { d: { volumeId: "v1", missing: false, volumeState: "available" } },
    counters: { updated: 1, replaced: 1, matched: 1 },
  },
  {
    fact: "nothing is replaced when the second read shows the old volume",
    world: {
      rows: [settled("d", "v0", { missingSinceMs: longGone, volumeState: "missing" })],
      volumes: [volume("v1", "d")],
      reappear: ["v0"],
    },
    writes: {},
    counters: { skipped_unconfirmed: 1, reappeared: 1 },
  },
  {
    fact: "a volume made from a snapshot of another disk is told (lineage)",
    world: { rows: [disk("d")], volumes: [volume("v1", "d", { snapshotId: "s9" })], snapshots: [snapshot("s9", "v7")] },
    writes: { d: {} },
    counters: { lineage_mismatch: 1 },
    reports: ["lineage_mismatch"],
  },
  {
    fact: "a row keeps its live volume; the other is reported",
    world: { rows: [settled("d", "v1")], volumes: [volume("v1", "d"), volume("v2", "d", { createdMs: nowMs })] },
    writes: {},
    counters: { synced: 1, duplicates: 1 },
    reports: ["duplicates"],
  },
  {
    fact: "a deleted disk's name is not taken over: the disk would not be visible",
    world: { rows: [disk("d", { isDeleted: true })], volumes: [volume("v1", "d")] },
    writes: {},
    counters: { name_conflict: 1 },
    reports: ["name_held_by_deleted"],
  },
  {
    fact: "a claimed disk whose volume is not there is marked, not freed",
    world: { rows: [settled("d", "v1", { inUse: true, reservationId: "r1" })] },
    writes: { d: { missing: true, volumeState: "missing" } },
    counters: { orphaned_db_active: 1, updated: 1, marked_missing: 1 },
  },
  {
    fact: "an idle disk is not marked when the second read shows its volume",
    world: { rows: [settled("d", "v1")], reappear: ["v1"] },
    writes: {},
    counters: { orphaned_db_active: 1, reappeared: 1, marked_missing: 0 },
  },
  {
    fact: "and freed by the next run, its reservation kept in the history",
    world: {
      rows: [
        settled("d", "v1", { inUse: true, reservationId: "r1", missingSinceMs: longGone, volumeState: "missing" }),
      ],
    },
    writes: { d: { inUse: false, reservationId: null } },
    counters: { orphaned_db_active: 1, updated: 1 },
  },
  {
    fact: "a claim that is still good outlives a missing volume",
    world: {
      rows: [
        settled("d", "v1", { inUse: true, reservationId: "r1", missingSinceMs: longGone, claimExpiresMs: nowMs + 1 }),
      ],
      reservations: [reservation("r1", { status: "preparing" })],
    },
    writes: {},
    counters: { orphaned_db_active: 1, updated: 0 },
  },
  {
    fact: "an idle disk whose volume is gone says so",
    world: { rows: [settled("d", "v1")] },
    writes: { d: { missing: true, volumeState: "missing" } },
    counters: { orphaned_db_active: 1, updated: 1, marked_missing: 1 },
  },
  {
    fact: "a disk at rest is not written again",
    world: { rows: [settled("d", "v1", { volumeState: "missing", missingSinceMs: longGone })] },
    writes: {},
    counters: { orphaned_db_active: 1, updated: 0 },
  },
  {
    fact: "a claim that is younger than the mark of its missing volume waits for a run of its own",
    world: { rows: [settled("d", "v1", { inUse: true, missingSinceMs: longGone, lastUpdatedMs: longGone + 1 })] },
    writes: { d: { missing: true, volumeState: "missing" } },
    counters: { orphaned_db_active: 1, updated: 1, marked_missing: 1 },
  },
  {
    fact: "a deleted disk without its volume is not written",
    world: { rows: [settled("d", "v1", { isDeleted: true, inUse: true })] },
    writes: {},
    counters: { orphaned_db_deleted: 1 },
  },
  {
    fact: "a claim on a disk without a volume ends with its reservation",
    world: { rows: [disk("d", { inUse: true, reservationId: "r1" })] },
    writes: { d: { inUse: false, reservationId: null } },
    counters: { stale_claim: 1, unlinked: 1, updated: 1 },
  },
  {
    fact: "but not before the row has been still for a while",
    world: { rows: [disk("d", { inUse: true, lastUpdatedMs: nowMs - 1 })] },
    writes: {},
    counters: { stale_claim: 0, unlinked: 1 },
  },
  {
    fact: "a row with an operation under way is left to it",
    world: {
      rows: [
        settled("d", "v1", { operationStatus: "in_progress", lastUpdatedMs: nowMs - 60_000 }),
        settled("e", "v2", { operationStatus: "queued", inUse: true, lastUpdatedMs: nowMs - 60_000 }),
      ],
      volumes: [volume("v1", "d", { sizeGb: 9 })],
    },
    writes: {},
    counters: { skipped_in_flight: 1, skipped_in_flight_rows: 1 },
  },
  {
    fact: "an operation that never ended is reported and no longer waited for",
    world: {
      rows: [settled("d", "v1", { operationStatus: "in_progress" })],
      volumes: [volume("v1", "d", { sizeGb: 9 })],
    },
    writes: { d: { sizeGb: 9 } },
    counters: { updated: 1, stale_operation: 1 },
    reports: ["stale_operation"],
  },
  {
    fact: "unknown snapshots leave what is known about them",
    world: {
      rows: [settled("d", "v1", { snapshotCount: 7, isBackingUp: true })],
      volumes: [volume("v1", "d", { sizeGb: 9 })],
      snapshots: "unknown",
    },
    writes: { d: { sizeGb: 9 } },
    counters: { updated: 1, snapshot_unknown: 1 },
  },
  {
    fact: "a volume with several attachments is in use if one holds it",
    world: {
      rows: [settled("d", "v1", { volumeState: "in-use" })],
      volumes: [
        attached("v1", "d", "attached", {
          attachments: [
            { instanceId: "i-1", state: "detached" },
            { instanceId: "i-2", state: "attached" },
          ],
        }),
      ],
    },
    writes: { d: { inUse: true } },
    counters: { updated: 1, unexpected_attach: 1 },
    reports: ["unexpected_attach"],
  },
  {
    fact: "a volume that an older service set aside is a volume",
    world: {
      rows: [settled("d", "v1")],
      volumes: [volume("v1", "d", { tags: { ...tags("ada", "d"), "gpu-dev-quarantined": "true" } })],
    },
    writes: {},
    counters: { synced: 1, quarantined_seen: 1 },
    reports: ["quarantined_seen"],
  },
  {
    fact: "of two rows with one volume the living one has it",
    world: {
      rows: [settled("d", "v1"), settled("e", "v1", { isDeleted: true })],
      volumes: [volume("v1", "e", { sizeGb: 9 })],
    },
    writes: { d: { sizeGb: 9 } },
    counters: { updated: 1, db_duplicate: 1, matched: 2 },
    reports: ["db_duplicate"],
  },
  {
    fact: "a disk that is being attached is in use",
    world: {
      rows: [settled("d", "v1", { volumeState: "in-use", inUse: true })],
      volumes: [attached("v1", "d", "attaching")],
    },
    writes: {},
    counters: { synced: 1 },
  },
  {
    fact: "a disk that is being detached is in use until it is free",
    world: {
      rows: [settled("d", "v1", { volumeState: "in-use", inUse: true })],
      volumes: [attached("v1", "d", "detaching")],
    },
    writes: {},
    counters: { synced: 1 },
  },
  ...(["attaching", "detaching"] as const).map((state) => ({
    fact: "an attaching or detaching volume makes its disk in use",
    world: { rows: [settled("d", "v1", { volumeState: "in-use" })], volumes: [attached("v1", "d", state)] },
    writes: { d: { inUse: true } },
    counters: { updated: 1, unexpected_attach: 1 },
    reports: ["unexpected_attach"],
  })),
  {
    fact: "a disk that cannot be detached is in use",
    world: { rows: [settled("d", "v1", { volumeState: "in-use" })], volumes: [attached("v1", "d", "busy")] },
    writes: { d: { inUse: true } },
    counters: { updated: 1 },
  },
  {
    fact: "a volume in use without an attachment changes nothing",
    world: {
      rows: [settled("d", "v1", { volumeState: "in-use", inUse: true })],
      volumes: [volume("v1", "d", { state: "in-use" })],
    },
    writes: {},
    counters: { synced: 1 },
  },
  {
    fact: "a claim in progress is not drift",
    world: {
      rows: [settled("d", "v1", { inUse: true, reservationId: "r1", lastUpdatedMs: nowMs - 60_000 })],
      volumes: [volume("v1", "d")],
      reservations: [reservation("r1", { status: "creating_server" })],
    },
    writes: {},
    counters: { synced: 1, claims_kept: 1 },
  },
  {
    fact: "a claim whose lease is over is cleared, volume free",
    world: {
      rows: [settled("d", "v1", { inUse: true, reservationId: "r1", claimExpiresMs: nowMs - 1 })],
      volumes: [volume("v1", "d")],
      reservations: [reservation("r1")],
    },
    writes: { d: { inUse: false, reservationId: null } },
    counters: { updated: 1 },
  },
  {
    fact: "a claim of a reservation that is over is cleared",
    world: {
      rows: [settled("d", "v1", { inUse: true, reservationId: "r1", lastUpdatedMs: nowMs - 60_000 })],
      volumes: [volume("v1", "d")],
      reservations: [reservation("r1", { status: "cancelled" })],
    },
    writes: { d: { inUse: false, reservationId: null } },
    counters: { updated: 1 },
  },
  {
    fact: "an attached volume makes its disk in use, without a reservation",
    world: { rows: [settled("d", "v1")], volumes: [attached("v1", "d")] },
    writes: { d: { inUse: true, volumeState: "in-use" } },
    counters: { updated: 1, unexpected_attach: 1 },
    reports: ["unexpected_attach"],
  },
  {
    fact: "an imported disk has the reservation of its tag if it lives and the volume is attached",
    world: {
      volumes: [
        attached("v1", "a", "attached", { tags: { ...tags("ada", "a"), reservation_id: "r1" } }),
        attached("v2", "b", "attached", { tags: { ...tags("ada", "b"), "reservation-id": "purged" } }),
        volume("v3", "c", { tags: { ...tags("ada", "c"), reservation_id: "r1" } }),
      ],
      reservations: [reservation("r1")],
    },
    writes: {
      "new:v1": { inUse: true, reservationId: "r1" },
      "new:v2": { inUse: true, reservationId: null },
      "new:v3": { inUse: false, reservationId: null },
    },
    counters: { created: 3 },
  },
  {
    fact: "a resize counts when it cannot fail any more",
    world: {
      rows: [settled("d", "v1")],
      volumes: [volume("v1", "d", { sizeGb: 200 })],
      modifications: [{ volumeId: "v1", state: "modifying", targetSizeGb: 200 }],
    },
    writes: {},
    counters: { synced: 1, resizing: 1 },
    reports: ["resizing"],
  },
  {
    fact: "and that is while it is optimized",
    world: {
      rows: [settled("d", "v1")],
      volumes: [volume("v1", "d", { sizeGb: 200 })],
      modifications: [{ volumeId: "v1", state: "optimizing", targetSizeGb: 200 }],
    },
    writes: { d: { sizeGb: 200 } },
    counters: { updated: 1 },
  },
  {
    fact: "of new volumes the attached one is the disk, before the newest",
    world: { volumes: [attached("v1", "d", "attached", { createdMs: 1 }), volume("v2", "d", { createdMs: 9 })] },
    writes: { "new:v1": {} },
    counters: { created: 1, duplicates: 1 },
  },
  {
    fact: "two attached volumes of one disk are left to a person",
    world: { rows: [disk("d")], volumes: [attached("v1", "d"), attached("v2", "d")] },
    writes: {},
    counters: { duplicates: 2, unlinked: 1 },
    reports: ["two volumes of this disk are attached"],
  },
  {
    fact: "the volume marked active is the disk, before the newest",
    world: {
      volumes: [
        volume("v1", "d", { createdMs: 1, tags: { ...tags("ada", "d"), ActiveVolume: "true" } }),
        volume("v2", "d", { createdMs: 9 }),
      ],
    },
    writes: { "new:v1": {} },
    counters: { created: 1, duplicates: 1 },
  },
  {
    fact: "a disk one of whose other volumes is attached is not freed",
    world: {
      rows: [settled("d", "v1", { inUse: true, reservationId: "r1" })],
      volumes: [volume("v1", "d"), attached("v2", "d")],
    },
    writes: {},
    counters: { synced: 1, duplicates: 1, claims_kept: 1 },
  },
  {
    fact: "snapshots of a disk at rest are counted by its name",
    world: {
      rows: [settled("d", "v1", { snapshotCount: 1, lastSnapshotMs: 5, missingSinceMs: longGone })],
      snapshots: [
        snapshot("s1", "v-old", { tags: tags("ada", "d"), startedMs: 7 }),
        snapshot("s2", "v1", { startedMs: 9 }),
      ],
    },
    writes: { d: { snapshotCount: 2, lastSnapshotMs: 9 } },
    counters: { orphaned_db_active: 1, updated: 1 },
  },
];

describe("the decision table", () => {
  test.each(table)("$fact", ({ world, writes, counters, reports = [] }) => {
    const decided = decideDisks(world);
    const found: Record<string, object> = {};
    for (const write of decided.plan.writes) {
      if (write.kind === "insert") found[`new:${write.volumeId}`] = write.row;
      else found[write.diskId.slice(3)] = write.change;
    }
    expect(Object.keys(found).sort()).toEqual(Object.keys(writes).sort());
    for (const [name, change] of Object.entries(writes)) {
      if (name.startsWith("new:") || Object.keys(change).length === 0) expect(found[name]).toMatchObject(change);
      else expect(found[name]).toEqual(change);
    }
    expect(decided.counters).toMatchObject(counters);
    for (const reason of reports) {
      expect(
        decided.plan.reports.some((report) => report.reason.includes(reason)),
        reason,
      ).toBe(true);
    }
  });

  test("the reservation that is cleared stays in the history", () => {
    const rows = [settled("d", "v1", { inUse: true, reservationId: "r1", missingSinceMs: longGone })];
    const drift = decideDisks({ rows }).plan.writes.flatMap((write) => write.drift);
    expect(drift).toContainEqual(
      expect.objectContaining({ entityId: "ada/d", field: "reservation_id", old: "r1", new: null }),
    );
  });

  test("every write carries the version of the row that it was decided on", () => {
    const rows = [settled("d", "v1", { rowVersion: 41 })];
    const [write] = decideDisks({ rows, volumes: [volume("v1", "d", { sizeGb: 9 })] }).plan.writes;
    expect(write).toMatchObject({ kind: "update", rowVersion: 41 });
  });
});

describe("whatever the cloud and the database say", () => {
  const state = fc.constantFrom("available", "in-use", "creating", "deleting", "deleted", "error");
  const name = fc.constantFrom("a", "b", "c", "bad name", "");
  const someVolume = fc
    .record({
      id: fc.constantFrom("v1", "v2", "v3", "v4", "v5"),
      name,
      state,
      held: fc.boolean(),
      createdMs: fc.nat(9),
      user: fc.constantFrom("ada", "eve", ""),
    })
    .map(
      ({ id, name: diskName, state: volumeState, held, createdMs, user }): CloudVolume =>
        volume(id, diskName, {
          state: held ? "in-use" : volumeState,
          createdMs,
          attachments: held ? [{ instanceId: "i-1", state: "attached" }] : [],
          tags: tags(user, diskName),
        }),
    );
  const someRow = fc.record({
    name: fc.constantFrom("a", "b", "c"),
    volumeId: fc.constantFrom(null, "v1", "v2", "v9"),
    inUse: fc.boolean(),
    isDeleted: fc.boolean(),
    missing: fc.boolean(),
    operation: fc.constantFrom(null, "running"),
  });
  const world = fc.record({
    volumes: fc.uniqueArray(someVolume, { selector: ({ id }) => id, maxLength: 5 }),
    rows: fc.uniqueArray(someRow, { selector: ({ name: rowName }) => rowName, maxLength: 3 }),
    outcome: fc.constantFrom("written", "changed", "failed"),
  });
  const build = (drawn: {
    volumes: CloudVolume[];
    rows: {
      name: string;
      volumeId: string | null;
      inUse: boolean;
      isDeleted: boolean;
      missing: boolean;
      operation: string | null;
    }[];
  }): DiskPhaseCase => ({
    volumes: drawn.volumes,
    rows: drawn.rows.map(({ name: diskName, missing, operation, ...rest }) =>
      disk(diskName, {
        ...rest,
        missingSinceMs: missing ? longGone : null,
        operationStatus: operation,
        lastUpdatedMs: nowMs - 60_000,
      }),
    ),
  });

  test("the sums close, whatever becomes of the writes", () => {
    fc.assert(
      fc.property(world, (drawn) => {
        decideDisks(build(drawn), drawn.outcome as "written");
      }),
      { numRuns: 500 },
    );
  });

  test("the order of the list changes nothing", () => {
    fc.assert(
      fc.property(world, (drawn) => {
        const built = build(drawn);
        const turned = {
          ...built,
          volumes: [...(built.volumes ?? [])].reverse(),
          rows: [...(built.rows ?? [])].reverse(),
        };
        expect(decideDisks(turned).plan).toEqual(decideDisks(built).plan);
      }),
    );
  });

  test("a held volume never frees its disk, a row is written at most once, and none is ever deleted or undeleted", () => {
    fc.assert(
      fc.property(world, (drawn) => {
        const built = build(drawn);
        const { plan } = decideDisks(built);
        const written = plan.writes.map((write) =>
          write.kind === "insert" ? `${write.row.userId}/${write.row.diskName}` : write.diskId,
        );
        expect(new Set(written).size).toBe(written.length);
        const held = new Set(drawn.volumes.filter(({ attachments }) => attachments.length > 0).map(({ id }) => id));
        for (const write of plan.writes) {
          if (write.kind === "update" && write.volumeId !== undefined && held.has(write.volumeId)) {
            expect(write.change.inUse).not.toBe(false);
            expect(write.change.reservationId).toBeUndefined();
          }
          expect(Object.keys(write.kind === "update" ? write.change : {})).not.toContain("isDeleted");
        }
      }),
    );
  });
});

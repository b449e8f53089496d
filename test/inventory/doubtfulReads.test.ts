import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { inventoryDefaults } from "../../src/control/inventory/inventoryDefaults.ts";
import { type InventoryPorts, runInventory } from "../../src/control/inventory/runInventory.ts";
import type { InventoryDatabase } from "../../src/ports/database.ts";
import type { Log } from "../../src/ports/log.ts";
import { node, pod } from "../../src/sim/inventory/builders.ts";
import { silentLog } from "./databases.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

const world = new InventoryWorld();
beforeAll(() => world.start());
afterAll(() => world.stop());
beforeEach(() => world.fresh());

const dayMs = 86_400_000;
const tags = (name: string, user = "ada") => ({ "gpu-dev-user": user, disk_name: name });
const ago = (days: number): number => Date.now() - days * dayMs;

let made = 0;

function snapshots(volumeId: string, name: string, count: number, startedMs: number, tagged: boolean, state?: string) {
  for (let n = 0; n < count; n++) {
    world.cloud.putSnapshot({
      id: `snap-${++made}`,
      volumeId,
      startedMs: startedMs + n,
      tags: tagged ? tags(name) : { Backup: "aws-backup" },
      ...(state === undefined ? {} : { state }),
    });
  }
}

/** Default, full, default, full, default: what the rows say after each. */
async function counts(...names: string[]): Promise<Record<string, number[]>> {
  const seen: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]));
  for (const every of [3_600_000, 0, 3_600_000, 0, 3_600_000]) {
    const report = await world.run({ kind: "disks" }, { snapshotsFullEveryMs: every });
    expect(report.error).toBe("");
    for (const name of names) seen[name]?.push((await world.disk(name))["snapshot_count"] as number);
  }
  return seen;
}

describe("snapshots that carry none of our tags (AWS Backup, lifecycle policies, the console)", () => {
  test("count in every run, however it reads: alone, and beside tagged ones", async () => {
    for (const name of ["gina", "hank", "ivy"]) world.cloud.createVolume({ id: `vol-${name}`, tags: tags(name) });
    snapshots("vol-gina", "gina", 2, ago(0.1), false);
    snapshots("vol-hank", "hank", 1, ago(0.1), true);
    snapshots("vol-hank", "hank", 2, ago(0.2), false);
    snapshots("vol-ivy", "ivy", 1, ago(0.1), true);
    snapshots("vol-ivy", "ivy", 2, ago(20), false);
    expect(await counts("gina", "hank", "ivy")).toEqual({
      gina: [2, 2, 2, 2, 2],
      hank: [3, 3, 3, 3, 3],
      ivy: [3, 3, 3, 3, 3],
    });
  });

  test("count for an idle disk whose volume is deleted", async () => {
    await world.addDisk("rest", { ebs_volume_id: "vol-rest" });
    world.cloud.createVolume({ id: "vol-other", tags: tags("other") });
    snapshots("vol-rest", "rest", 2, ago(0.1), false);
    snapshots("vol-rest", "rest", 1, ago(9), false);
    expect(await counts("rest")).toEqual({ rest: [3, 3, 3, 3, 3] });
  });

  test("set is_backing_up while one is pending, between full passes as well", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("a") });
    snapshots("vol-a", "a", 1, ago(3), true);
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ snapshot_count: 1, is_backing_up: false });
    snapshots("vol-a", "a", 1, ago(0.01), false, "pending");
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ snapshot_count: 1, is_backing_up: true });
  });

  test("a disk that gets another volume between full passes counts that volume's, and no longer the old one's", async () => {
    world.cloud.createVolume({ id: "vol-old", tags: tags("d") });
    snapshots("vol-old", "d", 2, ago(30), false);
    snapshots("vol-old", "d", 1, ago(30), true);
    await world.run({ kind: "disks" });
    expect(await world.disk("d")).toMatchObject({ snapshot_count: 3 });
    world.cloud.deleteVolume("vol-old");
    world.cloud.createVolume({ id: "vol-new", tags: tags("d") });
    snapshots("vol-new", "d", 4, ago(5), false);
    await world.run({ kind: "disks" });
    await world.run({ kind: "disks" });
    await world.run({ kind: "disks" });
    expect(await world.disk("d")).toMatchObject({ ebs_volume_id: "vol-new", snapshot_count: 5 });
    await world.run({ kind: "disks" }, { snapshotsFullEveryMs: 0 });
    expect(await world.disk("d")).toMatchObject({ snapshot_count: 5 });
  });

  test("count in every run of a database whose clock is days behind", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("a") });
    snapshots("vol-a", "a", 2, ago(0.1), true);
    snapshots("vol-a", "a", 1, ago(3), false);
    const seen: unknown[] = [];
    for (const every of [0, 3_600_000, 3_600_000]) {
      const ports = {
        clock: systemClock(),
        log: silentLog,
        metrics: world.metrics,
        database: world.skewed(-2.5 * dayMs),
        cloud: world.aws.aws(),
        cluster: world.readCluster,
      };
      const disks = { ...inventoryDefaults.disks, snapshotsFullEveryMs: every };
      await runInventory(ports, { ...inventoryDefaults, kind: "disks", deadlineMs: 0, disks });
      seen.push((await world.disk("a"))["snapshot_count"]);
    }
    expect(seen).toEqual([3, 3, 3]);
  });

  test("a snapshot that was pending for days counts as soon as it is whole", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("a") });
    world.cloud.putSnapshot({ id: "slow", volumeId: "vol-a", startedMs: ago(4), state: "pending", tags: {} });
    snapshots("vol-a", "a", 1, ago(0.1), true);
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ snapshot_count: 1 });
    world.cloud.putSnapshot({ id: "slow", volumeId: "vol-a", state: "completed" });
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ snapshot_count: 2 });
  });

  test("cost few calls: one listing of all, one question about pending ones, one that tries the filter", async () => {
    for (let n = 0; n < 30; n++) {
      world.cloud.createVolume({ id: `vol-${n}`, tags: tags(`d${n}`) });
      snapshots(`vol-${n}`, `d${n}`, 40, ago(30), n % 2 === 0);
      snapshots(`vol-${n}`, `d${n}`, 2, ago(0.1), n % 3 === 0);
    }
    const full = await world.run({ kind: "disks" });
    expect(full.cloud.calls["DescribeSnapshots"]).toBe(2 + 1 + 1);
    // The imported rows have no base yet; the run after that has.
    await world.run({ kind: "disks" });
    const window = await world.run({ kind: "disks" });
    expect(window.cloud.calls["DescribeSnapshots"]).toBe(2);
    expect(window.phases.disks?.rowsWritten).toBe(0);
  });
});

describe("a cloud that does not understand a wildcard in start-time", () => {
  test("is noticed by the full pass: every run reads all, and no count falls", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("a") });
    snapshots("vol-a", "a", 3, ago(0.1), true);
    snapshots("vol-a", "a", 1, ago(40), true);
    world.literalTimes = true;
    expect(await counts("a")).toEqual({ a: [4, 4, 4, 4, 4] });
  });

  test("is noticed by the full pass when all snapshots are older than the window: the next snapshot counts", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("a") });
    snapshots("vol-a", "a", 2, ago(40), true);
    world.literalTimes = true;
    await world.run({ kind: "disks" });
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ snapshot_count: 2 });
    snapshots("vol-a", "a", 1, ago(0.1), true);
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ snapshot_count: 3 });
  });
});

describe("two volumes of one disk", () => {
  const shown = async (): Promise<string> => {
    const [row] = await world.sql<{ reason: string }>(
      "select reason from drift_events where entity = 'volume' and entity_id = 'vol-b' and closed_at is null",
    );
    return row?.reason ?? "";
  };

  test("are reported with the snapshots of each, full and incremental", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("d"), createdMs: ago(1) });
    world.cloud.createVolume({ id: "vol-b", tags: tags("d"), createdMs: ago(50) });
    world.cloud.createVolume({ id: "vol-c", tags: tags("c") });
    snapshots("vol-b", "d", 3, ago(45), true);
    snapshots("vol-c", "c", 2, ago(0.1), false);
    for (const every of [3_600_000, 0, 3_600_000]) {
      await world.run({ kind: "disks" }, { snapshotsFullEveryMs: every });
      expect(await shown()).toContain(" 3 snapshots");
    }
  });

  test("untagged snapshots of other volumes are none of theirs", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("d"), createdMs: ago(1) });
    world.cloud.createVolume({ id: "vol-b", tags: tags("d"), createdMs: ago(50) });
    world.cloud.createVolume({ id: "vol-c", tags: tags("c") });
    snapshots("vol-c", "c", 2, ago(0.1), false);
    for (const every of [3_600_000, 0, 3_600_000]) {
      await world.run({ kind: "disks" }, { snapshotsFullEveryMs: every });
      expect(await shown()).toContain(" 0 snapshots");
    }
  });

  test("the disk itself reports them", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("d"), createdMs: ago(1) });
    world.cloud.createVolume({ id: "vol-b", tags: tags("d"), createdMs: ago(50) });
    await world.run({ kind: "disks" });
    const read = await world.database.reader.disks({});
    expect(read.ok && read.value.map(({ diskName, conflicts }) => [diskName, conflicts])).toEqual([
      ["d", [expect.stringContaining("vol-b")]],
    ]);
  });
});

describe("the guard against a listing that is suddenly empty", () => {
  async function many(count: number): Promise<void> {
    for (let n = 0; n < count; n++) world.cloud.createVolume({ id: `v${n}`, tags: tags(`d${n}`) });
    world.cloud.attach("v50", "i-1");
    world.cloud.attach("v51", "i-2");
  }

  test.each([
    {
      fact: "a row that can never be written",
      trouble: async () => {
        await world.sql("alter table disks add constraint c check (user_id <> 'zed')");
        world.cloud.createVolume({ id: "vz", tags: tags("z", "zed") });
      },
    },
    {
      fact: "snapshots that may not be read",
      trouble: async () =>
        world.cloud.setFaults({ fail: [{ operation: "DescribeSnapshots", how: "denied" as const }] }),
    },
  ])("is armed by a run that was partial: $fact", async ({ trouble }) => {
    await many(56);
    await trouble();
    expect((await world.run({ kind: "disks" })).status).toBe("partial");
    const before = await world.state();
    for (let n = 0; n < 52; n++) world.cloud.deleteVolume(`v${n}`);
    for (let round = 0; round < 3; round++) {
      expect(await world.run({ kind: "disks" })).toMatchObject({ status: "refused", exitCode: 5 });
    }
    expect(await world.state()).toEqual(before);
  });

  test("is armed on the first reading of a database that has rows: disks in use have volumes", async () => {
    for (let n = 0; n < 55; n++) await world.addDisk(`d${n}`, { ebs_volume_id: `v${n}`, in_use: true });
    for (let n = 0; n < 6; n++) world.cloud.createVolume({ id: `v${n}`, tags: tags(`d${n}`) });
    const before = await world.state();
    for (let round = 0; round < 3; round++) {
      expect(await world.run({ kind: "disks" })).toMatchObject({ status: "refused", exitCode: 5 });
    }
    expect(await world.state()).toEqual(before);
  });

  test("is armed by a run that wrote its rows and was killed before its record", async () => {
    await many(56);
    const killed: InventoryDatabase = {
      look: () => world.database.look(),
      begin: async (start) => {
        const answer = await world.database.begin(start);
        if (!answer.ok || answer.value.status !== "begun") return answer;
        answer.value.run.finish = () => Promise.reject(new Error("killed"));
        return answer;
      },
    };
    const ports = {
      clock: systemClock(),
      log: silentLog,
      metrics: world.metrics,
      database: killed,
      cloud: world.aws.aws(),
      cluster: world.readCluster,
    };
    const options = { ...inventoryDefaults, kind: "disks" as const, deadlineMs: 0 };
    await expect(runInventory(ports, options)).rejects.toThrow("killed");
    expect(await world.sql("select status from reconcile_runs")).toEqual([{ status: "running" }]);
    for (let n = 0; n < 52; n++) world.cloud.deleteVolume(`v${n}`);
    expect(await world.run({ kind: "disks" })).toMatchObject({ status: "refused", exitCode: 5 });
  });

  test("another account is refused after partial runs as well", async () => {
    await many(56);
    world.cloud.setFaults({ fail: [{ operation: "DescribeSnapshots", how: "denied" }] });
    await world.run({ kind: "disks" });
    world.cloud.account = "999999999999";
    expect(await world.run({ kind: "disks" })).toMatchObject({ status: "refused", exitCode: 5 });
  });

  test("an override by a person counts once: then the smaller number is the one to compare with", async () => {
    await many(56);
    world.cloud.setFaults({ fail: [{ operation: "DescribeSnapshots", how: "denied" }] });
    await world.run({ kind: "disks" });
    for (let n = 0; n < 52; n++) world.cloud.deleteVolume(`v${n}`);
    expect((await world.run({ kind: "disks" }, { acceptDrop: true })).status).toBe("partial");
    expect((await world.run({ kind: "disks" })).status).toBe("partial");
  });
});

describe("numbers that contradict each other are unknown, not a fresh zero", () => {
  const beat = (agoMs: number): string => new Date(Date.now() - agoMs).toISOString();
  const events = () =>
    world.sql<{ entity: string; entity_id: string; reason: string }>(
      "select entity, entity_id, reason from drift_events where action = 'reported' and closed_at is null order by entity, entity_id, reason",
    );

  /** Six nodes that report all the time. */
  function cluster(): void {
    world.pool("h100", 6);
    world.nodes = world.nodes.map((_, at) =>
      node(`h100-${at + 1}`, "h100", { instance: `i-h100-${at + 1}`, heartbeat: beat(1_000 * (at + 1)) }),
    );
    world.pods = [pod("a", "h100-1", 3)];
  }

  /** A database whose clock is wrong. */
  async function runSkewed(skewMs: number) {
    const shifted = world.skewed(skewMs);
    return runInventory(
      {
        clock: systemClock(),
        log: silentLog,
        metrics: world.metrics,
        database: shifted,
        cloud: world.aws.aws(),
        cluster: world.readCluster,
      },
      { ...inventoryDefaults, kind: "gpu", deadlineMs: 0 },
    );
  }

  test("a database clock that is 20 minutes ahead: the numbers stay, and the reason is said", async () => {
    cluster();
    expect((await world.run({ kind: "gpu" })).status).toBe("ok");
    const report = await runSkewed(20 * 60_000);
    expect(report).toMatchObject({ status: "partial", exitCode: 2 });
    expect(report.error).toMatch(/clock/);
    expect(await world.type("h100")).toMatchObject({ available_gpus: 45, availability_state: "stale" });
    expect((await world.type("h100"))["availability_error"]).toMatch(/heartbeat.*clock/);
    expect((await events()).filter(({ entity }) => entity === "run")).toHaveLength(1);
    // Right again, and the report is over.
    expect((await world.run({ kind: "gpu" })).status).toBe("ok");
    expect(await events()).toEqual([]);
  });

  test("a few minutes of difference change nothing", async () => {
    cluster();
    expect((await runSkewed(12 * 60_000)).status).toBe("ok");
    expect(await world.type("h100")).toMatchObject({ available_gpus: 45, availability_state: "fresh" });
    expect((await runSkewed(-20 * 60_000)).status).toBe("ok");
    expect(await world.type("h100")).toMatchObject({ available_gpus: 45, availability_state: "fresh" });
  });

  test("one node without a heartbeat is closed, and one whose clock is ahead closes no other", async () => {
    cluster();
    const more = { instance: "i-h100-6" };
    world.nodes = [...world.nodes.slice(0, 5), node("h100-6", "h100", { ...more, heartbeat: beat(-3_600_000) })];
    expect((await world.run({ kind: "gpu" })).status).toBe("ok");
    expect(await world.type("h100")).toMatchObject({ available_gpus: 45 });
    world.nodes = [...world.nodes.slice(0, 5), node("h100-6", "h100", { ...more, heartbeat: beat(3_600_000) })];
    expect((await world.run({ kind: "gpu" })).status).toBe("ok");
    expect(await world.type("h100")).toMatchObject({ available_gpus: 37 });
    expect((await events()).map(({ entity_id, reason }) => [entity_id, reason])).toEqual([
      ["h100-6", expect.stringContaining("no heartbeat")],
    ]);
  });

  test("an API that lists no nodes while instances are in service", async () => {
    cluster();
    await world.run({ kind: "gpu" });
    world.nodes = [];
    world.pods = [];
    const report = await world.run({ kind: "gpu" });
    expect(report).toMatchObject({ status: "partial", exitCode: 2 });
    expect(report.error).toMatch(/no nodes.*6 instances/);
    expect(await world.type("h100")).toMatchObject({
      available_gpus: 45,
      running_instances: 6,
      availability_state: "stale",
    });
  });

  test("an API that lists another cluster's nodes", async () => {
    cluster();
    await world.run({ kind: "gpu" });
    world.nodes = [node("other", "h100", { instance: "i-elsewhere", heartbeat: beat(1_000) })];
    const report = await world.run({ kind: "gpu" });
    expect(report).toMatchObject({ status: "partial", exitCode: 2 });
    expect(await world.type("h100")).toMatchObject({ available_gpus: 45, availability_state: "stale" });
  });

  test("no instances and no nodes count as zero", async () => {
    expect((await world.run({ kind: "gpu" })).status).toBe("ok");
    expect(await world.type("h100")).toMatchObject({ available_gpus: 0, availability_state: "fresh" });
  });

  test("unschedulable nodes and instances without a node are counted and reported", async () => {
    cluster();
    await world.run({ kind: "gpu" });
    const at = (n: number) => ({ instance: `i-h100-${n}`, heartbeat: beat(1_000) });
    world.nodes = [
      ...world.nodes.slice(0, 1),
      node("h100-2", "h100", { ...at(2), ready: "False" }),
      node("h100-3", "h100", { ...at(3), unschedulable: true }),
      node("h100-4", "h100", { ...at(4), taints: [{ key: "gpu-health", effect: "NoSchedule" }] }),
      node("h100-5", "h100", { instance: "i-h100-5", heartbeat: beat(3_600_000) }),
    ];
    const report = await world.run({ kind: "gpu" });
    expect(report.phases.gpu?.counters).toMatchObject({
      nodes_not_ready: 1,
      nodes_cordoned: 1,
      nodes_tainted: 1,
      nodes_silent: 1,
      instances_without_node: 1,
      types_fresh: 10,
    });
    expect((await events()).map(({ entity, entity_id, reason }) => `${entity}/${entity_id}: ${reason}`)).toEqual([
      expect.stringMatching(/^gpu_type\/h100: instances_without_node: .*i-h100-6/),
      expect.stringMatching(/^node\/h100-2: unschedulable: not ready/),
      expect.stringMatching(/^node\/h100-3: unschedulable: cordoned/),
      expect.stringMatching(/^node\/h100-4: unschedulable: tainted gpu-health/),
      expect.stringMatching(/^node\/h100-5: unschedulable: no heartbeat/),
    ]);
    expect(world.metrics.render()).toContain('muster_inventory_types{state="fresh"} 10');
  });
});

describe("a disk whose volume was deleted", () => {
  test("while it was idle says so, and says when it is back", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("a") });
    world.cloud.createVolume({ id: "vol-b", tags: tags("b") });
    await world.run({ kind: "disks" });
    world.cloud.deleteVolume("vol-a");
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({
      volume_state: "missing",
      missing_since: expect.any(Date),
      ebs_volume_id: "vol-a",
      is_deleted: false,
    });
    expect((await world.run({ kind: "disks" })).phases.disks?.rowsWritten).toBe(0);
    world.cloud.createVolume({ id: "vol-a", tags: tags("a") });
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ volume_state: "available", missing_since: null });
  });

  test("a claim that came after the disk was marked is looked at in two runs of its own", async () => {
    world.cloud.createVolume({ id: "vol-a", tags: tags("a") });
    world.cloud.createVolume({ id: "vol-b", tags: tags("b") });
    await world.run({ kind: "disks" });
    world.cloud.deleteVolume("vol-a");
    await world.run({ kind: "disks" });
    await world.addReservation("r1", "cancelled");
    await world.sql("update disks set in_use = true, reservation_id = 'r1' where disk_name = 'a'");
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ in_use: true, reservation_id: "r1" });
    await world.run({ kind: "disks" });
    expect(await world.disk("a")).toMatchObject({ in_use: false, reservation_id: null });
  });
});

describe("tags and attachments", () => {
  test("a disk whose volume and snapshots carry both spellings is one disk", async () => {
    const both = { "gpu-dev-user": "erin", "disk-name": "work", disk_name: "old" };
    world.cloud.createVolume({ id: "vol-e", tags: both });
    world.cloud.putSnapshot({ id: "s1", volumeId: "vol-before", tags: both });
    await world.run({ kind: "disks" });
    expect(await world.disk("work")).toMatchObject({ user_id: "erin", snapshot_count: 1 });
  });

  test("an attachment that no reservation explains is reported until it ends", async () => {
    await world.addDisk("d", { ebs_volume_id: "v1" });
    world.cloud.createVolume({ id: "v1", tags: tags("d") });
    world.cloud.attach("v1", "i-7");
    const open = async () =>
      (
        await world.sql(
          "select 1 from drift_events where reason like 'unexpected_attach%' and action = 'reported' and closed_at is null",
        )
      ).length;
    for (let round = 0; round < 3; round++) {
      await world.run({ kind: "disks" });
      expect(await world.disk("d")).toMatchObject({ in_use: true });
      expect(await open()).toBe(1);
    }
    world.cloud.detach("v1");
    await world.run({ kind: "disks" });
    expect(await open()).toBe(0);
  });
});

test("an import that fails is logged as one, an update that fails as the other", async () => {
  await world.addDisk("d", { ebs_volume_id: "v1", size_gb: 100 });
  world.cloud.createVolume({ id: "v1", sizeGb: 13, tags: tags("d") });
  world.cloud.createVolume({ id: "v2", sizeGb: 13, tags: tags("e") });
  await world.sql("alter table disks add constraint c check (size_gb <> 13)");
  const lines: { message: string; volumeId: unknown }[] = [];
  const log: Log = {
    ...silentLog,
    error: (fields, message) => void lines.push({ message, volumeId: (fields as { volumeId?: unknown }).volumeId }),
  };
  const ports: InventoryPorts = {
    clock: systemClock(),
    log,
    metrics: world.metrics,
    database: world.database,
    cloud: world.aws.aws(),
    cluster: world.readCluster,
  };
  await runInventory(ports, { ...inventoryDefaults, kind: "disks", deadlineMs: 0 });
  expect(lines.filter(({ volumeId }) => volumeId !== undefined)).toEqual(
    expect.arrayContaining([
      { message: "Error reconciling volume", volumeId: "v1" },
      { message: "Error importing volume", volumeId: "v2" },
    ]),
  );
});

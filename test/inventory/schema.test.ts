import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { migrate } from "../../src/adapters/postgres/migrate.ts";
import { migrations } from "../../src/adapters/postgres/migrations.ts";
import { PostgresForTests } from "./databases.ts";

const server = new PostgresForTests();
beforeAll(() => server.start());
afterAll(() => server.stop());

describe("the schema", () => {
  test("is made by steps that are each taken once, and seeds ten types", async () => {
    const database = await server.database({ migrate: false });
    expect((await database.migrate()).applied).toEqual(migrations.map(({ name }) => name));
    expect(await database.migrate()).toEqual({ applied: [], blocked: [] });
    const { rows } = await database.pool.query(
      "select gpu_type, instance_type, max_per_node, total_cluster_gpus, multi_node_max, slots_per_node from gpu_types order by gpu_type",
    );
    expect(rows).toHaveLength(10);
    expect(rows.find(({ gpu_type }) => gpu_type === "h100")).toEqual({
      gpu_type: "h100",
      instance_type: "p5.48xlarge",
      max_per_node: 8,
      total_cluster_gpus: 16,
      multi_node_max: 4,
      slots_per_node: 3,
    });
    expect(rows.find(({ gpu_type }) => gpu_type === "t4")).toMatchObject({
      max_per_node: 4,
      total_cluster_gpus: 8,
      multi_node_max: 1,
    });
  });

  test("is made once, by however many at the same time", async () => {
    const database = await server.database({ migrate: false });
    const all = await Promise.all([1, 2, 3].map(() => database.migrate()));
    expect(all.flatMap(({ applied }) => applied).sort()).toEqual(migrations.map(({ name }) => name).sort());
  });

  test("grows over the tables of an older service, keeps their rows, and does not reset live capacity", async () => {
    const database = await server.database({ migrate: false });
    const older = migrations.filter(({ name }) => name < "011");
    for (const { sql } of older) await database.pool.query(sql);
    await database.pool.query(
      "insert into gpu_types (gpu_type, instance_type, max_gpus, cpus, memory_gb, total_cluster_gpus, max_per_node, is_active) values ('h100', 'p5.48xlarge', 8, 1, 1, 80, 8, null)",
    );
    await database.pool.query(
      "insert into disks (user_id, disk_name, in_use, is_deleted, snapshot_count) values ('ada', 'd', null, null, null)",
    );
    expect((await database.migrate()).applied).toEqual(migrations.map(({ name }) => name));
    const types = await database.pool.query(
      "select total_cluster_gpus, is_active, multi_node_max from gpu_types where gpu_type = 'h100'",
    );
    expect(types.rows).toEqual([{ total_cluster_gpus: 80, is_active: true, multi_node_max: 4 }]);
    const disks = await database.pool.query("select in_use, is_deleted, snapshot_count, row_version from disks");
    expect(disks.rows).toEqual([{ in_use: false, is_deleted: false, snapshot_count: 0, row_version: "1" }]);
  });

  test("postpones the unique index until an operator has removed the duplicates", async () => {
    const database = await server.database({ migrate: false });
    const client = await database.pool.connect();
    await migrate(client, migrations.slice(0, -1));
    client.release();
    await database.pool.query(
      "insert into disks (user_id, disk_name, ebs_volume_id) values ('ada', 'a', 'v1'), ('ada', 'b', 'v1')",
    );
    expect(await database.migrate()).toEqual({
      applied: [],
      blocked: [{ name: "014_muster_one_row_per_volume", by: ["v1"] }],
    });
    await database.pool.query("update disks set is_deleted = true where disk_name = 'b'");
    expect((await database.migrate()).applied).toEqual(["014_muster_one_row_per_volume"]);
  });

  test.each([
    ["a count below zero", "update gpu_types set available_gpus = -1"],
    [
      "more free than there is, in a fresh row",
      "update gpu_types set available_gpus = 99, availability_state = 'fresh'",
    ],
    ["an unknown state", "update gpu_types set availability_state = 'odd'"],
    ["fewer than no snapshots", "insert into disks (user_id, disk_name, snapshot_count) values ('ada', 'x', -1)"],
    [
      "one volume on two live rows",
      "insert into disks (user_id, disk_name, ebs_volume_id) values ('ada', 'x', 'v'), ('ada', 'y', 'v')",
    ],
    [
      "a reservation that does not exist",
      "insert into disks (user_id, disk_name, reservation_id) values ('ada', 'z', 'nope')",
    ],
    [
      "a disk that is neither in use nor not",
      "insert into disks (user_id, disk_name, in_use) values ('ada', 'x', null)",
    ],
  ])("refuses %s", async (_, sql) => {
    const database = await server.database();
    await expect(database.pool.query(sql)).rejects.toThrow(/constraint/);
  });

  test("a row's version grows with what the application changes, and not with counts and observations", async () => {
    const database = await server.database();
    await database.pool.query("insert into disks (user_id, disk_name) values ('ada', 'd')");
    const versionAfter = async (change: string) =>
      (await database.pool.query<{ row_version: string }>(`update disks set ${change} returning row_version`)).rows[0]
        ?.row_version;
    expect(
      await versionAfter("size_gb = 5, snapshot_count = 2, volume_state = 'available', missing_since = now()"),
    ).toBe("1");
    expect(await versionAfter("in_use = true")).toBe("2");
    expect(await versionAfter("disk_name = 'e'")).toBe("3");
    expect(await versionAfter("row_version = 1")).toBe("3");
  });
});

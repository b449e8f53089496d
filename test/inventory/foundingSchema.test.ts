import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { migrations } from "../../src/adapters/postgres/migrations.ts";
import type { Postgres } from "../../src/adapters/postgres.ts";
import { PostgresForTests } from "./databases.ts";

/** Databases that another service made: with the columns that the founding document lists, and no others. */
const server = new PostgresForTests();
beforeAll(() => server.start());
afterAll(() => server.stop());

const gpuTypes = `
create table gpu_types (
  gpu_type varchar(50) primary key,
  instance_type varchar(100),
  max_gpus integer,
  cpus integer,
  memory_gb integer,
  is_active boolean default true,
  total_cluster_gpus integer,
  available_gpus integer,
  max_reservable integer,
  full_nodes_available integer,
  running_instances integer,
  desired_capacity integer,
  max_per_node integer,
  last_availability_update timestamptz,
  last_availability_updated_by varchar(100)
);
insert into gpu_types (gpu_type, instance_type, max_gpus, max_per_node, total_cluster_gpus)
  values ('h100', 'p5.48xlarge', 8, 8, 80), ('gaudi', 'dl1.24xlarge', 8, 8, 16);`;

const diskFields = `
  disk_name text not null,
  user_id text not null,
  ebs_volume_id text,
  size_gb integer,
  in_use boolean,
  reservation_id varchar(255),
  is_deleted boolean,
  snapshot_count integer,
  is_backing_up boolean,
  last_snapshot_at timestamptz,
  operation_id uuid,
  operation_status text,
  operation_error text,
  last_used timestamptz,
  latest_snapshot_content_s3 text`;
const diskRows = "insert into disks (user_id, disk_name, ebs_volume_id, size_gb) values ('ada', 'data', 'v1', 10);";

const keys = [
  {
    fact: "keyed by an id",
    disks: `create table disks (disk_id uuid primary key default gen_random_uuid(), ${diskFields});`,
  },
  { fact: "keyed by user and name", disks: `create table disks (${diskFields}, primary key (user_id, disk_name));` },
  { fact: "without any key", disks: `create table disks (${diskFields});` },
];

async function made(...statements: string[]): Promise<Postgres> {
  const database = await server.database({ migrate: false });
  for (const statement of statements) await database.pool.query(statement);
  return database;
}

/** All tables, columns, indexes, triggers and functions: what a migration can leave behind. */
async function shape({ pool }: Postgres): Promise<unknown> {
  const of = async (sql: string) => (await pool.query(sql)).rows;
  return {
    columns: await of(
      "select table_name, column_name, data_type from information_schema.columns where table_schema = 'public' order by 1, 2",
    ),
    indexes: await of("select indexname from pg_indexes where schemaname = 'public' order by 1"),
    triggers: await of("select tgname from pg_trigger where not tgisinternal order by 1"),
    functions: await of("select proname from pg_proc where pronamespace = 'public'::regnamespace order by 1"),
  };
}

describe("the founding document's tables", () => {
  test.each(keys)("are taken over, $fact: rows stay, and both services can write", async ({ disks }) => {
    const database = await made(gpuTypes, disks, diskRows);
    expect((await database.migrate()).applied).toEqual(migrations.map(({ name }) => name));
    const types = await database.pool.query(
      "select gpu_type, total_cluster_gpus, available_gpus, availability_state from gpu_types order by gpu_type",
    );
    expect(types.rows).toEqual([
      { gpu_type: "gaudi", total_cluster_gpus: 16, available_gpus: 0, availability_state: "unknown" },
      { gpu_type: "h100", total_cluster_gpus: 80, available_gpus: 0, availability_state: "unknown" },
    ]);
    await database.pool.query("update gpu_types set total_cluster_gpus = 88 where gpu_type = 'h100'");
    await database.pool.query("update disks set size_gb = 20");
    const begun = await database.begin({ kind: "all", updatedBy: "test" });
    if (!begun.ok || begun.value.status !== "begun") throw new Error("not begun");
    const { run } = begun.value;
    const read = await run.disks();
    expect(read).toMatchObject({ ok: true, value: { rows: [{ diskName: "data", sizeGb: 20, inUse: false }] } });
    const row = read.ok ? read.value.rows[0] : undefined;
    const change = { sizeGb: 30, snapshotCount: 2 };
    const write = { diskId: row?.diskId ?? "", rowVersion: row?.rowVersion ?? 0, volumeId: "v1", change, drift: [] };
    expect(await run.writeDisks([{ kind: "update", ...write }])).toMatchObject({
      ok: true,
      value: [{ result: "written" }],
    });
    await run.release();
    await database.pool.query("insert into disks (user_id, disk_name) values ('ada', 'more')");
    await database.pool.query("insert into gpu_types (gpu_type) values ('new')");
    await expect(database.pool.query("insert into disks (user_id, disk_name) values ('ada', 'data')")).rejects.toThrow(
      /unique/,
    );
  });

  test("of which only the types are there", async () => {
    const database = await made(gpuTypes);
    await database.migrate();
    expect((await database.pool.query("select count(*)::int as n from gpu_types")).rows).toEqual([{ n: 2 }]);
  });

  test("of which an earlier migration took half, and left a trigger that fails every update", async () => {
    const database = await made(gpuTypes, `create table disks (${diskFields});`, diskRows);
    // What a version before this one committed until its step 012 failed.
    await database.pool.query(`
      create table muster_migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now());
      create function muster_touch_updated_at() returns trigger language plpgsql as
        $$ begin new.updated_at = now(); return new; end $$;
      create trigger update_gpu_types_updated_at before update on gpu_types
        for each row execute function muster_touch_updated_at();
      insert into muster_migrations (name, checksum) values ('001_users_and_keys', ''), ('004_gpu_types', '');
      create table api_users (username text); create table api_keys (key_hash text)`);
    await expect(database.pool.query("update gpu_types set max_gpus = 8")).rejects.toThrow(/updated_at/);
    await database.migrate();
    await database.pool.query("update gpu_types set max_gpus = 8");
  });
});

describe("tables that do not fit are refused with what to do, and stay as they were", () => {
  test.each([
    {
      fact: "an id of another type",
      statements: [gpuTypes, `create table disks (disk_id serial primary key, ${diskFields})`],
      says: "column disks.disk_id is integer, and must be uuid",
    },
    {
      fact: "times without a zone",
      statements: [gpuTypes.replace("last_availability_update timestamptz", "last_availability_update timestamp")],
      says: "column gpu_types.last_availability_update is timestamp without time zone, and must be timestamp with time zone",
    },
    {
      fact: "a table about something else",
      statements: ["create table disks (serial_number text)"],
      says: "table disks has no column disk_name, user_id",
    },
    {
      fact: "two rows of one disk",
      statements: [`create table disks (${diskFields})`, diskRows, diskRows],
      says: "disks_one_name",
    },
    {
      fact: "a view in the place of a table",
      statements: [
        "create view domain_mappings as select 1 as one",
        gpuTypes,
        "create view reconcile_runs as select 1 as one",
      ],
      says: "011_muster_runs_and_drift",
    },
  ])("$fact", async ({ statements, says }) => {
    const database = await made(...statements);
    const before = await shape(database);
    const refused = await database.migrate().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refused).toMatchObject({ code: "database-schema-refused", message: expect.stringContaining(says) });
    expect(refused).toMatchObject({ message: expect.stringContaining("nothing was changed") });
    expect(await shape(database)).toEqual(before);
  });

  test("a role without rights to the schema", async () => {
    const database = await made(gpuTypes, "create role visitor", "revoke create on schema public from public");
    const client = await database.pool.connect();
    await client.query("set role visitor");
    const { migrate } = await import("../../src/adapters/postgres/migrate.ts");
    await expect(migrate(client)).rejects.toMatchObject({
      code: "database-schema-refused",
      cure: expect.stringContaining("owner"),
    });
    await client.query("reset role");
    client.release();
  });
});

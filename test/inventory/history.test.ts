import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { grantsFor } from "../../src/adapters/postgres/migrations.ts";
import { openPostgres, type Postgres } from "../../src/adapters/postgres.ts";
import { silentLog } from "./databases.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

/** What is left of runs that are over, by whatever end. */
const world = new InventoryWorld();
beforeAll(() => world.start());
beforeEach(() => world.fresh());
afterAll(() => world.stop());

test("a run whose connection was cut stays open until the next run closes it", async () => {
  world.pool("h100", 1);
  const { readCluster } = world;
  world.readCluster = async () => {
    await world.sql(
      "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and pid <> pg_backend_pid() and database = (select oid from pg_database where datname = current_database())",
    );
    return readCluster();
  };
  await world.sql("create function no_record() returns trigger language plpgsql as $$ begin return null; end $$");
  await world.sql("create trigger no_record before update on reconcile_runs for each row execute function no_record()");
  await world.run({ kind: "gpu" });
  world.readCluster = readCluster;
  await world.sql("drop trigger no_record on reconcile_runs");
  expect(await world.sql("select status, error from reconcile_runs")).toEqual([{ status: "running", error: "" }]);
  await world.run({ kind: "gpu" });
  expect(
    await world.sql("select status, error, finished_at is not null as over from reconcile_runs order by fence"),
  ).toEqual([
    { status: "failed", error: "abandoned: the run ended without a record", over: true },
    { status: "ok", error: "", over: true },
  ]);
});

describe("history older than it is kept", () => {
  async function age(days: number, count: number, status = "partial"): Promise<void> {
    await world.sql(
      `insert into reconcile_runs (run_id, kind, started_at, finished_at, status, counters)
       select gen_random_uuid(), 'disks', now() - make_interval(days => $1), now(), $2,
         jsonb_build_object('disks', jsonb_build_object('status', $2::text)) from generate_series(1, $3)`,
      [days, status, count],
    );
  }

  async function drift(days: number, action: string, closed: boolean): Promise<void> {
    await world.sql(
      `insert into drift_events (run_id, at, phase, entity, entity_id, field, action, reason, closed_at)
       values (gen_random_uuid(), now() - make_interval(days => $1), 'disks', 'disk', gen_random_uuid()::text, 'size_gb', $2, '',
         case when $3 then now() end)`,
      [days, action, closed],
    );
  }

  async function run(database: Postgres): Promise<void> {
    const before = world.database;
    world.database = Object.assign(database, { url: before.url });
    try {
      expect(await world.run({ kind: "gpu" })).toMatchObject({ status: "ok" });
    } finally {
      world.database = before;
      await database.close();
    }
  }

  const counts = async (): Promise<object> => {
    const [row] = await world.sql(
      "select (select count(*)::int from reconcile_runs) as runs, (select count(*)::int from drift_events where phase = 'disks') as events",
    );
    return row ?? {};
  };

  test("is deleted, all but the newest thousand runs, the last good one, and reports that still hold", async () => {
    await age(200, 1, "ok");
    await age(100, 1_100);
    await age(1, 900);
    await drift(100, "applied", false);
    await drift(100, "reported", true);
    await drift(100, "reported", false);
    await drift(1, "applied", false);
    await run(await openPostgres({ url: world.database.url, historyDays: 90 }, { log: silentLog }));
    // 900 young ones, 99 old ones and the run itself are the newest thousand; the good one is older than all of them.
    expect(await counts()).toEqual({ runs: 1_001, events: 2 });
    expect(await world.sql("select from reconcile_runs where counters #>> '{disks,status}' = 'ok'")).toHaveLength(1);
    expect(await world.sql("select action from drift_events where phase = 'disks' order by at")).toEqual([
      { action: "reported" },
      { action: "applied" },
    ]);
  });

  test("stays where nothing is said about it", async () => {
    await age(400, 1_100);
    await drift(400, "applied", false);
    await run(await openPostgres({ url: world.database.url }, { log: silentLog }));
    expect(await counts()).toEqual({ runs: 1_101, events: 1 });
  });

  test("stays where the role may not delete, and the run is none the worse", async () => {
    await age(400, 1_100);
    await world.sql("create role careful login password 'secret'");
    await world.sql(grantsFor("careful"));
    await world.sql("revoke delete on reconcile_runs, drift_events from careful");
    const url = new URL(world.database.url);
    url.username = "careful";
    url.password = "secret";
    await run(await openPostgres({ url: url.href, historyDays: 90 }, { log: silentLog }));
    expect(await counts()).toEqual({ runs: 1_101, events: 0 });
  });
});

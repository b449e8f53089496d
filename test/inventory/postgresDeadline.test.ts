import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openPostgres } from "../../src/adapters/postgres.ts";
import { silentLog } from "./databases.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

/** A real PostgreSQL that is held up: by a lock of the application, or because its process does not run. */
const world = new InventoryWorld();
const folder = mkdtempSync(join(tmpdir(), "muster-deadline-"));
const stopped = new Set<number>();
beforeAll(() => world.start());
beforeEach(async () => {
  await world.fresh();
  world.pool("h100", 1);
  world.cloud.createVolume({ id: "v1", sizeGb: 50, tags: { "gpu-dev-user": "ada", disk_name: "data" } });
  await world.addDisk("data", { ebs_volume_id: "v1", size_gb: 1 });
});
afterEach(() => {
  for (const pid of stopped) process.kill(pid, "SIGCONT");
  stopped.clear();
});
afterAll(async () => {
  await world.stop();
  rmSync(folder, { recursive: true, force: true });
});

const deadlineMs = 6_000;
/** A shared machine is slow; without a bound the wait would not end at all. */
const limitMs = 25_000;

/** Ends when the promise does, or says that it did not. */
async function within<T>(promise: Promise<T>): Promise<T | "still waiting"> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"still waiting">((done) => {
    timer = setTimeout(() => done("still waiting"), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A server does not notice that the client of a statement that waits for a lock is gone: only its own time-out ends it. */
const waitingStatements =
  "select query from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

async function holding<T>(statement: string, use: () => Promise<T>): Promise<T> {
  const other = await openPostgres({ url: world.database.url }, { log: silentLog });
  const client = await other.pool.connect();
  try {
    await client.query("begin");
    await client.query(statement);
    return await use();
  } finally {
    await client.query("rollback");
    client.release();
    await other.close();
  }
}

describe("a deadline binds the database", () => {
  test("a row that the application holds: exit 3, nothing written, and a record that says so", async () => {
    const [report, waiting] = await holding("select from disks for update", async () => [
      await within(world.run({ kind: "disks", deadlineMs })),
      await world.sql(waitingStatements),
    ]);
    expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
    expect(waiting).toEqual([]);
    expect((await world.disk("data"))["size_gb"]).toBe(1);
    expect(await world.sql("select status from reconcile_runs")).toEqual([{ status: "deadline" }]);
    expect(await world.run({ kind: "disks" })).toMatchObject({ status: "ok" });
    expect((await world.disk("data"))["size_gb"]).toBe(50);
  });

  test("a table that a migration of the application holds: reads end as well", async () => {
    const [report, waiting] = await holding("lock table disks, gpu_types in access exclusive mode", async () => [
      await within(world.run({ deadlineMs })),
      await world.sql(waitingStatements),
    ]);
    expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
    expect(waiting).toEqual([]);
  });

  test("a fence that cannot be taken: the run has not begun, and ends", async () => {
    const report = await holding("select from reconcile_control for update", () => within(world.run({ deadlineMs })));
    expect(report).toMatchObject({ status: "deadline", exitCode: 3, runId: null });
  });

  test("a dry run ends too", async () => {
    const report = await holding("lock table disks, gpu_types in access exclusive mode", () =>
      within(world.run({ deadlineMs, dryRun: true })),
    );
    expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
  });

  test("a backend that hangs: exit 3, and the record is written over another connection", async () => {
    const { readCluster } = world;
    world.readCluster = async () => {
      const [row] = await world.sql<{ pid: number }>(
        "select pid from pg_locks where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database())",
      );
      if (row !== undefined) {
        process.kill(row.pid, "SIGSTOP");
        stopped.add(row.pid);
      }
      return readCluster();
    };
    try {
      expect(await within(world.run({ deadlineMs }))).toMatchObject({ status: "deadline", exitCode: 3 });
    } finally {
      world.readCluster = readCluster;
    }
    expect(stopped.size).toBe(1);
    expect(await world.sql("select status from reconcile_runs")).toEqual([{ status: "deadline" }]);
  });

  test("connections go back without the limits that the run gave them", async () => {
    await world.run({ deadlineMs: 60_000 });
    const { rows } = await world.database.pool.query("show statement_timeout");
    expect(rows).toEqual([{ statement_timeout: "0" }]);
  });

  test("the program itself: a migration that another holds up ends with the deadline", async () => {
    const fresh = await world.server.database({ migrate: false });
    const client = await fresh.pool.connect();
    await client.query("begin; select pg_advisory_xact_lock(727001)");
    try {
      expect(await within(muster(["--deadline", "4s"], fresh.url))).toMatchObject({ code: 3 });
    } finally {
      await client.query("rollback");
      client.release();
    }
  });

  test("the program itself: a server that accepts and says nothing ends with the deadline", async () => {
    const { createServer } = await import("node:net");
    const mute = createServer(() => {});
    await new Promise<void>((done) => mute.listen(0, "127.0.0.1", done));
    try {
      const { port } = mute.address() as { port: number };
      const ended = await within(muster(["--deadline", "4s"], `postgresql://u:p@127.0.0.1:${port}/x`));
      expect(ended).toMatchObject({ code: 3 });
      expect(ended).toMatchObject({ stderr: expect.stringContaining('"level":"ERROR"') });
    } finally {
      mute.close();
    }
  });
});

function muster(args: string[], url: string): Promise<{ code: number | null; stderr: string }> {
  const main = join(import.meta.dirname, "../../dist/bundle/program/main.js");
  return new Promise((done) => {
    const child = spawn(process.execPath, [main, "inventory", "run", "--once", ...args], {
      cwd: folder,
      env: {
        PATH: process.env["PATH"] ?? "",
        DATABASE_URL: url,
        AWS_ENDPOINT_URL: world.aws.url,
        AWS_ACCESS_KEY_ID: "a",
        AWS_SECRET_ACCESS_KEY: "b",
        KUBECONFIG: "/nonexistent",
      },
    });
    let stderr = "";
    child.stdout.resume();
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    child.once("close", (code) => done({ code, stderr }));
    setTimeout(() => child.kill("SIGKILL"), limitMs + 10_000).unref();
  });
}

/** The inventory's database in PostgreSQL: a pool that checks each connection before use, one writer, and readers. */
import { randomUUID } from "node:crypto";
import type { Pool } from "pg";
import { UsageError, UserError } from "../model/userError.ts";
import type { Answer, Beginning, InventoryDatabase, InventoryReads, RunStart, TimeLeft } from "../ports/database.ts";
import type { Log } from "../ports/log.ts";
import { answering, answerOf } from "./postgres/answer.ts";
import { type Migrated, migrate } from "./postgres/migrate.ts";
import { PostgresReader } from "./postgres/postgresReader.ts";
import { inventoryLock, PostgresRun } from "./postgres/postgresRun.ts";
import { readDisks, readTypes } from "./postgres/reads.ts";
import { connectWithin, type Queries, TimedClient, unlimited } from "./postgres/timedClient.ts";

export interface PostgresOptions {
  readonly url: string;
  /** `application_name` of the connections. */
  readonly applicationName?: string;
  /** Check each connection before use; default true. */
  readonly healthCheck?: boolean;
  readonly connectMs?: number;
  /** How long runs and drift events are kept, in days; undefined keeps them forever. */
  readonly historyDays?: number;
}

export interface Postgres extends InventoryDatabase {
  readonly pool: Pool;
  readonly reader: PostgresReader;
  migrate(timeLeft?: TimeLeft): Promise<Migrated>;
  close(): Promise<void>;
}

/** The time-out of the health check; a connection that does not answer is replaced. */
const healthCheckMs = 5_000;
/** The minimum time to connect, however little time is left. */
const connectMsMin = 1_000;

/** Connects, or throws a UserError with the cure. */
export async function openPostgres(
  options: PostgresOptions,
  ports: { readonly log: Log },
  timeLeft: TimeLeft = unlimited,
): Promise<Postgres> {
  const { default: pg } = await import("pg");
  const { hostname, port, pathname } = addressOf(options.url);
  const { connectMs = 10_000 } = options;
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName ?? "muster",
    connectionTimeoutMillis: Math.min(connectMs, Math.max(connectMsMin, timeLeft() ?? connectMs)),
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    max: 8,
  });
  // The pool replaces an idle connection that broke; without a listener the error would end the process.
  pool.on("error", (error) => ports.log.warn({ error }, "an idle database connection broke"));
  try {
    const client = new TimedClient(await connectWithin(() => pool.connect(), timeLeft), timeLeft);
    try {
      await client.healthCheck(connectMs);
    } finally {
      await client.release();
    }
  } catch (cause) {
    // A pending connection ends by its own time-out and is not awaited.
    void pool.end().catch(() => {});
    throw new UserError(
      "database-unreachable",
      `Failed to initialize connection pool: ${hostname}:${port || 5432}${pathname}: ${messageOf(cause)}`,
      "start the database, and set POSTGRES_* or DATABASE_URL to its address, user and password",
      { cause },
    );
  }
  return new PostgresDatabase(pool, options.healthCheck ?? true, options.historyDays);
}

function addressOf(url: string): URL {
  try {
    return new URL(url);
  } catch (cause) {
    throw new UsageError(
      "inventory-setting-invalid",
      "the URL of the database cannot be parsed (not shown: it contains the password)",
      "pass postgresql://user:password@host:5432/name, with special characters percent-encoded",
      { cause },
    );
  }
}

class PostgresDatabase implements Postgres {
  readonly pool: Pool;
  readonly reader: PostgresReader;
  private readonly healthCheck: boolean;
  private readonly historyDays: number | undefined;

  constructor(pool: Pool, healthCheck: boolean, historyDays: number | undefined) {
    this.pool = pool;
    this.historyDays = historyDays;
    this.reader = new PostgresReader(pool);
    this.healthCheck = healthCheck;
  }

  migrate(timeLeft: TimeLeft = unlimited): Promise<Migrated> {
    return this.withClient(migrate, timeLeft);
  }

  look(timeLeft: TimeLeft = unlimited): InventoryReads {
    return {
      types: () => answering(() => this.withClient(readTypes, timeLeft)),
      disks: () => answering(() => this.withClient(readDisks, timeLeft)),
    };
  }

  async begin(start: RunStart): Promise<Answer<Beginning>> {
    const { timeLeftMs = unlimited } = start;
    let client: TimedClient;
    try {
      client = await this.connect(timeLeftMs);
    } catch (error) {
      return answerOf(error);
    }
    try {
      await client.setTimeouts();
      const control = await client.query<{ paused: boolean; paused_by: string; paused_reason: string }>(
        "select paused, paused_by, paused_reason from reconcile_control where id = 1",
      );
      const { paused = false, paused_by: by = "", paused_reason: reason = "" } = control.rows[0] ?? {};
      if (paused && start.evenIfPaused !== true) {
        await skip(client, start, `paused by ${by}${reason === "" ? "" : `: ${reason}`}`);
        await client.release();
        return { ok: true, value: { status: "paused", by, reason } };
      }
      const lock = await client.query<{ got: boolean }>("select pg_try_advisory_lock($1) as got", [inventoryLock]);
      if (lock.rows[0]?.got !== true) {
        await skip(client, start, "another run holds the lock");
        await client.release();
        return { ok: true, value: { status: "locked" } };
      }
      const { rows } = await client.query<{ fence: string }>(
        "update reconcile_control set fence = fence + 1 where id = 1 returning fence",
      );
      const fence = Number(rows[0]?.fence);
      const runId = randomUUID();
      const updatedBy = start.updatedBy.slice(0, 100);
      // This run holds the lock, so a row with status `running` belongs to a run that was killed or lost its
      // connection.
      await client.query(
        `update reconcile_runs set finished_at = now(), status = 'failed', error = 'abandoned: the run ended without a record'
         where status = 'running'`,
      );
      await client.query("insert into reconcile_runs (run_id, kind, fence, updated_by) values ($1, $2, $3, $4)", [
        runId,
        start.kind,
        fence,
        updatedBy,
      ]);
      const { historyDays } = this;
      const begun = { runId, fence, updatedBy, ...(historyDays === undefined ? {} : { historyDays }) };
      const run = new PostgresRun(client, begun, (use) => this.withClient(use, timeLeftMs));
      return { ok: true, value: { status: "begun", run } };
    } catch (error) {
      // Closing the connection releases its lock.
      client.fail(error);
      await client.release();
      return answerOf(error);
    }
  }

  async close(): Promise<void> {
    await this.pool.end();
  }

  private async withClient<T>(use: (client: Queries) => Promise<T>, timeLeft: TimeLeft): Promise<T> {
    const client = await this.connect(timeLeft);
    try {
      await client.setTimeouts();
      return await use(client);
    } finally {
      await client.release();
    }
  }

  /** Returns a connection that has passed the health check. A connection that broke or hangs is closed. */
  private async connect(timeLeft: TimeLeft): Promise<TimedClient> {
    for (let attempt = 1; ; attempt++) {
      const client = new TimedClient(await connectWithin(() => this.pool.connect(), timeLeft), timeLeft);
      if (!this.healthCheck) return client;
      try {
        await client.healthCheck(healthCheckMs);
        return client;
      } catch (error) {
        client.fail(error);
        await client.release();
        if (attempt === 3) throw error;
      }
    }
  }
}

async function skip(client: Queries, { kind, updatedBy }: RunStart, why: string): Promise<void> {
  await client.query(
    `insert into reconcile_runs (run_id, kind, finished_at, status, updated_by, error)
     values ($1, $2, now(), 'skipped', $3, $4)`,
    [randomUUID(), kind, updatedBy.slice(0, 100), why],
  );
}

function messageOf(cause: unknown): string {
  if (cause instanceof AggregateError) return cause.errors.map(messageOf).join("; ");
  return cause instanceof Error ? cause.message : String(cause);
}

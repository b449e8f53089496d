/** The inventory's database in a real PostgreSQL: a pool that looks before it lends, one writer, readers beside it. */
import { randomUUID } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { UserError } from "../model/userError.ts";
import type { Answer, Beginning, InventoryDatabase, InventoryReads, RunStart } from "../ports/database.ts";
import type { Log } from "../ports/log.ts";
import { answerOf, asking } from "./postgres/answer.ts";
import { type Migrated, migrate } from "./postgres/migrate.ts";
import { PostgresReader } from "./postgres/postgresReader.ts";
import { inventoryLock, PostgresRun } from "./postgres/postgresRun.ts";
import { readDisks, readTypes } from "./postgres/reads.ts";

export interface PostgresOptions {
  readonly url: string;
  /** What the server's list of connections calls us. */
  readonly applicationName?: string;
  /** Ask a connection for a sign of life before it is lent; default true. */
  readonly healthCheck?: boolean;
  readonly connectMs?: number;
}

export interface Postgres extends InventoryDatabase {
  readonly pool: Pool;
  readonly reader: PostgresReader;
  migrate(): Promise<Migrated>;
  close(): Promise<void>;
}

/** Connects, or says what a person can do about it. */
export async function openPostgres(options: PostgresOptions, ports: { readonly log: Log }): Promise<Postgres> {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName ?? "muster",
    connectionTimeoutMillis: options.connectMs ?? 10_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    max: 8,
  });
  // An idle connection that breaks is the pool's to replace; without a listener it would end the process.
  pool.on("error", (error) => ports.log.warn({ error }, "an idle database connection broke"));
  try {
    await pool.query("select 1");
  } catch (cause) {
    await pool.end().catch(() => {});
    const { hostname, port, pathname } = new URL(options.url);
    throw new UserError(
      "database-unreachable",
      `Failed to initialize connection pool: ${hostname}:${port || 5432}${pathname}: ${messageOf(cause)}`,
      "see that the database runs, and that POSTGRES_* or DATABASE_URL name it, its user and its password",
      { cause },
    );
  }
  return new PostgresDatabase(pool, options.healthCheck ?? true);
}

class PostgresDatabase implements Postgres {
  readonly pool: Pool;
  readonly reader: PostgresReader;
  private readonly healthCheck: boolean;

  constructor(pool: Pool, healthCheck: boolean) {
    this.pool = pool;
    this.reader = new PostgresReader(pool);
    this.healthCheck = healthCheck;
  }

  migrate(): Promise<Migrated> {
    return migrate(this.pool);
  }

  look(): InventoryReads {
    return {
      types: () => asking(() => this.lend(readTypes)),
      disks: () => asking(() => this.lend(readDisks)),
    };
  }

  async begin(start: RunStart): Promise<Answer<Beginning>> {
    let client: PoolClient;
    try {
      client = await this.connect();
    } catch (error) {
      return answerOf(error);
    }
    try {
      const control = await client.query<{ paused: boolean; paused_by: string; paused_reason: string }>(
        "select paused, paused_by, paused_reason from reconcile_control where id = 1",
      );
      const { paused = false, paused_by: by = "", paused_reason: reason = "" } = control.rows[0] ?? {};
      if (paused && start.evenIfPaused !== true) {
        await skip(client, start, `paused by ${by}${reason === "" ? "" : `: ${reason}`}`);
        client.release();
        return { ok: true, value: { status: "paused", by, reason } };
      }
      const lock = await client.query<{ got: boolean }>("select pg_try_advisory_lock($1) as got", [inventoryLock]);
      if (lock.rows[0]?.got !== true) {
        await skip(client, start, "another run holds the lock");
        client.release();
        return { ok: true, value: { status: "locked" } };
      }
      const { rows } = await client.query<{ fence: string }>(
        "update reconcile_control set fence = fence + 1 where id = 1 returning fence",
      );
      const fence = Number(rows[0]?.fence);
      const runId = randomUUID();
      const updatedBy = start.updatedBy.slice(0, 100);
      await client.query("insert into reconcile_runs (run_id, kind, fence, updated_by) values ($1, $2, $3, $4)", [
        runId,
        start.kind,
        fence,
        updatedBy,
      ]);
      return { ok: true, value: { status: "begun", run: new PostgresRun(client, { runId, fence, updatedBy }) } };
    } catch (error) {
      // Closing the connection gives back whatever lock it took.
      client.release(error instanceof Error ? error : true);
      return answerOf(error);
    }
  }

  async close(): Promise<void> {
    await this.pool.end();
  }

  private async lend<T>(use: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.connect();
    try {
      return await use(client);
    } finally {
      client.release();
    }
  }

  /** A connection that has just answered. One that died while it lay idle is thrown away, not lent. */
  private async connect(): Promise<PoolClient> {
    for (let attempt = 1; ; attempt++) {
      const client = await this.pool.connect();
      if (!this.healthCheck) return client;
      try {
        await client.query("select 1");
        return client;
      } catch (error) {
        client.release(error instanceof Error ? error : true);
        if (attempt === 3) throw error;
      }
    }
  }
}

async function skip(client: PoolClient, { kind, updatedBy }: RunStart, why: string): Promise<void> {
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

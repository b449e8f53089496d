/** Takes the steps of the schema that the database has not seen, each once and whole, whoever else tries at the same time. */
import { createHash } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { type Migration, migrations, seedSql } from "./migrations.ts";

export interface Migrated {
  readonly applied: readonly string[];
  /** Steps that something in the data stands in the way of, with what. */
  readonly blocked: readonly { readonly name: string; readonly by: readonly string[] }[];
}

/** Any number will do, as long as nobody else means something else by it. */
const lockKey = 727_001;

export async function migrate(pool: Pool, steps: readonly Migration[] = migrations): Promise<Migrated> {
  const client = await pool.connect();
  try {
    // A role that may not change the schema finds it complete, and asks for nothing.
    if ((await pending(client, steps)).length === 0) return { applied: [], blocked: [] };
    await client.query("select pg_advisory_lock($1)", [lockKey]);
    try {
      await client.query(
        "create table if not exists muster_migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())",
      );
      const applied: string[] = [];
      const blocked: { name: string; by: string[] }[] = [];
      for (const step of await pending(client, steps)) {
        const by = step.blockedBy === undefined ? [] : (await client.query(step.blockedBy)).rows;
        if (by.length > 0) {
          blocked.push({ name: step.name, by: by.map((row: object) => Object.values(row).join(" ")) });
          continue;
        }
        await client.query("begin");
        try {
          await client.query(step.sql);
          if (step.name === seededAfter) await client.query(seedSql);
          await client.query("insert into muster_migrations (name, checksum) values ($1, $2)", [
            step.name,
            sumOf(step),
          ]);
          await client.query("commit");
        } catch (error) {
          await client.query("rollback");
          throw new Error(`${step.name}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
        }
        applied.push(step.name);
      }
      return { applied, blocked };
    } finally {
      await client.query("select pg_advisory_unlock($1)", [lockKey]);
    }
  } finally {
    client.release();
  }
}

/** When all columns of the seed exist. */
const seededAfter = "012_muster_availability";

async function pending(client: PoolClient, steps: readonly Migration[]): Promise<Migration[]> {
  const { rows } = await client.query<{ there: string | null }>(
    "select to_regclass('muster_migrations')::text as there",
  );
  if (rows[0]?.there === null) return [...steps];
  const done = new Set(
    (await client.query<{ name: string }>("select name from muster_migrations")).rows.map(({ name }) => name),
  );
  return steps.filter(({ name }) => !done.has(name));
}

function sumOf({ sql }: Migration): string {
  return createHash("sha256").update(sql).digest("hex").slice(0, 16);
}

/**
 * Applies the pending schema migrations in one transaction. An advisory lock makes concurrent processes wait for each
 * other. A database whose tables lack columns or have other types than Muster needs is refused and not changed.
 */
import { createHash } from "node:crypto";
import { UserError } from "../../model/userError.ts";
import { columnProblems } from "./columnProblems.ts";
import { type Migration, migrations, seedSql } from "./migrations.ts";
import type { Queries } from "./timedClient.ts";

export interface Migrated {
  readonly applied: readonly string[];
  /** Migrations that were postponed because existing rows block them, and those rows as text. */
  readonly blocked: readonly { readonly name: string; readonly by: readonly string[] }[];
}

/** The key of the advisory lock; the number is arbitrary. */
const lockKey = 727_001;

export async function migrate(client: Queries, steps: readonly Migration[] = migrations): Promise<Migrated> {
  // Without pending migrations no rights to change the schema are needed.
  if ((await pending(client, steps)).length === 0) return { applied: [], blocked: [] };
  let at = "";
  try {
    await client.query("begin");
    await client.query("select pg_advisory_xact_lock($1)", [lockKey]);
    const unfit = await columnProblems(client);
    if (unfit.length > 0) throw new Error(unfit.join("; "));
    // The default GPU types are inserted only if these migrations create the table, not into another service's table.
    const createsTypes = !(await exists(client, "gpu_types"));
    await client.query(
      "create table if not exists muster_migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())",
    );
    const applied: string[] = [];
    const blocked: { name: string; by: string[] }[] = [];
    for (const step of await pending(client, steps)) {
      at = `${step.name}: `;
      const by = step.blockedBy === undefined ? [] : (await client.query(step.blockedBy)).rows;
      if (by.length > 0) {
        blocked.push({ name: step.name, by: by.map((row: object) => Object.values(row).join(" ")) });
        continue;
      }
      await client.query(step.sql);
      if (step.name === seededAfter && createsTypes) await client.query(seedSql);
      await client.query("insert into muster_migrations (name, checksum) values ($1, $2)", [step.name, digestOf(step)]);
      applied.push(step.name);
    }
    await client.query("commit");
    return { applied, blocked };
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw refusal(at, error);
  }
}

/** Errors about tables and permissions become a UserError; time-outs and connection errors stay as they are. */
function refusal(at: string, error: unknown): unknown {
  const {
    code = "",
    message = String(error),
    detail,
  } = (error ?? {}) as { code?: string; message?: string; detail?: string };
  const isData = code === "" ? at === "" && error instanceof Error : /^(22|23|42|2B|0A)/.test(code);
  if (!isData) return error;
  const denied = code === "42501";
  return new UserError(
    "database-schema-refused",
    `the schema was not migrated, and nothing was changed: ${at}${message}${detail === undefined ? "" : ` (${detail})`}`,
    denied
      ? "run `muster inventory run --once` once as the owner of the tables"
      : "fix the named table or column, or use a separate database for Muster; docs/inventory.md lists what existing tables must have",
    { cause: error },
  );
}

/** The migration after which all columns of the seed exist. */
const seededAfter = "012_muster_availability";

async function pending(client: Queries, steps: readonly Migration[]): Promise<Migration[]> {
  if (!(await exists(client, "muster_migrations"))) return [...steps];
  const { rows } = await client.query<{ name: string }>("select name from muster_migrations");
  const done = new Set(rows.map(({ name }) => name));
  return steps.filter(({ name }) => !done.has(name));
}

async function exists(client: Queries, table: string): Promise<boolean> {
  const { rows } = await client.query<{ there: string | null }>("select to_regclass($1)::text as there", [table]);
  return rows[0]?.there !== null;
}

/** Recorded for operators, to tell which text of a migration was applied; it is not compared. */
function digestOf({ sql }: Migration): string {
  return createHash("sha256").update(sql).digest("hex").slice(0, 16);
}

/**
 * Takes the steps of the schema that the database has not seen: all of them or none, however many processes try at the
 * same time. A database whose tables do not fit is refused as it is.
 */
import { createHash } from "node:crypto";
import { UserError } from "../../model/userError.ts";
import { foreignColumns } from "./foreignColumns.ts";
import { type Migration, migrations, seedSql } from "./migrations.ts";
import type { Queries } from "./timedClient.ts";

export interface Migrated {
  readonly applied: readonly string[];
  /** Steps that something in the data stands in the way of, with what. */
  readonly blocked: readonly { readonly name: string; readonly by: readonly string[] }[];
}

/** Any number will do, as long as no other program means something else by it. */
const lockKey = 727_001;

export async function migrate(client: Queries, steps: readonly Migration[] = migrations): Promise<Migrated> {
  // A role that may not change the schema finds it complete, and asks for nothing.
  if ((await pending(client, steps)).length === 0) return { applied: [], blocked: [] };
  let at = "";
  try {
    await client.query("begin");
    await client.query("select pg_advisory_xact_lock($1)", [lockKey]);
    const unfit = await foreignColumns(client);
    if (unfit.length > 0) throw new Error(unfit.join("; "));
    // Types are the owner's to name: only a table that is made here gets the usual ones.
    const isOurs = !(await exists(client, "gpu_types"));
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
      if (step.name === seededAfter && isOurs) await client.query(seedSql);
      await client.query("insert into muster_migrations (name, checksum) values ($1, $2)", [step.name, sumOf(step)]);
      applied.push(step.name);
    }
    await client.query("commit");
    return { applied, blocked };
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw refusal(at, error);
  }
}

/** A person can do something about tables and rights; what ended for want of time or connection stays what it is. */
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
    `the schema was not brought up to date, and nothing was changed: ${at}${message}${detail === undefined ? "" : ` (${detail})`}`,
    denied
      ? "run `muster inventory run --once` once as the owner of the tables"
      : "change what is named, or give Muster a database of its own; docs/inventory.md says what it expects of tables that exist",
    { cause: error },
  );
}

/** When all columns of the seed exist. */
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

function sumOf({ sql }: Migration): string {
  return createHash("sha256").update(sql).digest("hex").slice(0, 16);
}

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EmbeddedPostgres, openEmbeddedPostgres } from "../../src/adapters/disk/embeddedPostgres.ts";
import { openPostgres, type Postgres } from "../../src/adapters/postgres.ts";
import type { Log } from "../../src/ports/log.ts";

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** A real PostgreSQL for one file of tests; each test gets a database of its own. */
export class PostgresForTests {
  private server: EmbeddedPostgres | undefined;
  private folder = "";
  private count = 0;
  private readonly open = new Set<Postgres>();

  async start(): Promise<void> {
    this.folder = mkdtempSync(join(tmpdir(), "muster-pg-"));
    // As root the server runs as somebody else, who must be able to get here.
    const { chmodSync } = await import("node:fs");
    chmodSync(this.folder, 0o755);
    this.server = await openEmbeddedPostgres(this.folder, { durable: false });
    const { default: pg } = await import("pg");
    const admin = new pg.Client({ connectionString: this.adminUrl });
    await admin.connect();
    await admin.query("create database migrated");
    await admin.end();
    const template = await openPostgres({ url: this.urlOf("migrated") }, { log: silentLog });
    await template.migrate();
    await template.close();
  }

  get adminUrl(): string {
    if (this.server === undefined) throw new Error("not started");
    return this.server.url;
  }

  private urlOf(name: string): string {
    return this.adminUrl.replace(/\/gpudev$/, `/${name}`);
  }

  /** An empty database, migrated unless a test wants to see that itself. */
  async database(options: { migrate?: boolean } = {}): Promise<Postgres & { url: string }> {
    const { default: pg } = await import("pg");
    const name = `t${++this.count}`;
    const admin = new pg.Client({ connectionString: this.adminUrl });
    await admin.connect();
    const like = options.migrate === false ? "" : " template migrated strategy file_copy";
    await admin.query(`create database ${name}${like}`);
    await admin.end();
    const url = this.urlOf(name);
    const database = await openPostgres({ url }, { log: silentLog });
    this.open.add(database);
    return Object.assign(database, { url });
  }

  async stop(): Promise<void> {
    for (const database of this.open) if (!database.pool.ended) await database.close().catch(() => {});
    await this.server?.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

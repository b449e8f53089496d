/** A database that is opened by the first run that needs it. A failed attempt is repeated by the next run. */
import type { Postgres } from "../../adapters/postgres.ts";
import { UserError } from "../../model/userError.ts";
import type { Answer, Beginning, InventoryDatabase, InventoryReads, RunStart, TimeLeft } from "../../ports/database.ts";
import type { Log } from "../../ports/log.ts";
import type { OpenDatabase } from "./openInventory.ts";

export class LateDatabase implements InventoryDatabase {
  /** Why the last attempt to open it failed; undefined once it is open. */
  failure: Error | undefined;
  private readonly open: (timeLeft: TimeLeft) => Promise<OpenDatabase>;
  private readonly log: Log;
  private logged: Error | undefined;
  private opened: OpenDatabase | undefined;
  private opening: Promise<OpenDatabase> | undefined;

  constructor(open: (timeLeft: TimeLeft) => Promise<OpenDatabase>, log: Log) {
    this.open = open;
    this.log = log;
  }

  async begin(start: RunStart): Promise<Answer<Beginning>> {
    const found = await this.answer(start.timeLeftMs);
    return found.ok ? found.value.begin(start) : found;
  }

  look(timeLeft?: TimeLeft): InventoryReads {
    const reads = async <T>(read: (reads: InventoryReads) => Promise<Answer<T>>): Promise<Answer<T>> => {
      const found = await this.answer(timeLeft);
      return found.ok ? read(found.value.look(timeLeft)) : found;
    };
    return { types: () => reads((each) => each.types()), disks: () => reads((each) => each.disks()) };
  }

  /** The database, or the error for the user. */
  async mustOpen(timeLeft: TimeLeft = () => undefined): Promise<Postgres> {
    if (this.opened !== undefined) return this.opened.database;
    this.opening ??= this.open(timeLeft);
    try {
      this.opened = await this.opening;
      this.failure = undefined;
      return this.opened.database;
    } catch (error) {
      this.failure = error instanceof Error ? error : new Error(String(error));
      throw error;
    } finally {
      this.opening = undefined;
    }
  }

  /** A database that is still being opened is closed afterwards: its pool would keep the process alive. */
  async close(): Promise<void> {
    const late = this.opening?.then((found) => found.close()).catch(() => undefined);
    await (this.opened === undefined ? late : this.opened.close());
  }

  private async answer(timeLeft: TimeLeft | undefined): Promise<Answer<Postgres>> {
    try {
      return { ok: true, value: await this.mustOpen(timeLeft) };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      // Both phases of a dry run open the database; the failure is logged once.
      if (this.failure !== this.logged) {
        this.logged = this.failure;
        const advice = error instanceof UserError ? { code: error.code, cure: error.cure } : {};
        this.log.error({ why, ...advice }, "Failed to initialize connection pool");
      }
      return { ok: false, reason: "Unavailable", why };
    }
  }
}

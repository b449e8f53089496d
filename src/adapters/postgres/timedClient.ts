/**
 * A connection whose statements are limited by the remaining time of the run. The server's statement_timeout and
 * lock_timeout come first, which leaves the connection usable; if the server does not answer at all, the client times
 * out and closes the connection.
 */

import type { PoolClient, QueryResult, QueryResultRow } from "pg";
import type { TimeLeft } from "../../ports/database.ts";

/** The part of a database connection that queries need. */
export interface Queries {
  query<R extends QueryResultRow = QueryResultRow>(text: string, values?: unknown[]): Promise<QueryResult<R>>;
}

/** The minimum time-out of a statement: the result of a run is written after its deadline. */
const timeoutMsMin = 1_000;
/** How much longer than the server's time-out the client waits. */
const graceMs = 500;

export const unlimited: TimeLeft = () => undefined;

export class TimedClient implements Queries {
  private readonly client: PoolClient;
  private readonly timeLeft: TimeLeft;
  private failed: Error | undefined;
  private hasTimeouts = false;

  constructor(client: PoolClient, timeLeft: TimeLeft) {
    this.client = client;
    this.timeLeft = timeLeft;
    client.on("error", this.onError);
  }

  private readonly onError = (error: Error): void => this.fail(error);

  /** Why the connection cannot be used any more. */
  get broken(): Error | undefined {
    return this.failed;
  }

  /** Marks the connection as broken. */
  fail(error: unknown): void {
    this.failed ??= error instanceof Error ? error : new Error(String(error));
  }

  /** Sets the server's time-outs for the next statements. A shorter limit of the role or the database stays. */
  async setTimeouts(): Promise<void> {
    const left = this.left();
    if (left === undefined) return;
    this.hasTimeouts = true;
    await this.query(
      `select set_config(name, case when reset_val::bigint between 1 and $1::bigint then reset_val else $1::text end, false)
       from pg_settings where name in ('statement_timeout', 'lock_timeout')`,
      [String(Math.ceil(left))],
    );
  }

  /** Fails if the server does not answer within `withinMs`. */
  async healthCheck(withinMs: number): Promise<void> {
    await this.send("select 1", undefined, Math.min(withinMs, this.left() ?? withinMs));
  }

  query<R extends QueryResultRow = QueryResultRow>(text: string, values?: unknown[]): Promise<QueryResult<R>> {
    return this.send<R>(text, values, this.left());
  }

  private async send<R extends QueryResultRow>(
    text: string,
    values: unknown[] | undefined,
    left: number | undefined,
  ): Promise<QueryResult<R>> {
    if (this.failed !== undefined) throw this.failed;
    if (left === undefined) return this.client.query<R>(text, values);
    try {
      const limit = { query_timeout: left + graceMs };
      return await this.client.query<R>({ text, ...(values === undefined ? {} : { values }), ...limit });
    } catch (error) {
      // The client's own time-out: the statement is still running, and nothing else can be sent.
      if (error instanceof Error && error.message === "Query read timeout") {
        this.failed = new Error(`the database did not answer within ${Math.round(left + graceMs)} ms`);
        throw this.failed;
      }
      throw error;
    }
  }

  /** Returns the connection to the pool with its original time-outs; a broken connection is closed. */
  async release(): Promise<void> {
    try {
      if (this.failed === undefined && this.hasTimeouts)
        await this.query("reset statement_timeout; reset lock_timeout");
    } catch (error) {
      this.fail(error);
    }
    this.client.removeListener("error", this.onError);
    this.client.release(this.failed);
  }

  private left(): number | undefined {
    const left = this.timeLeft();
    return left === undefined ? undefined : Math.max(timeoutMsMin, left);
  }
}

/**
 * A connection of the pool, or an error when none is free in time. A connection that arrives later is returned to the
 * pool.
 */
export async function connectWithin(connect: () => Promise<PoolClient>, timeLeft: TimeLeft): Promise<PoolClient> {
  const left = timeLeft();
  if (left === undefined) return connect();
  const limitMs = Math.max(timeoutMsMin, left);
  let isLate = false;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => {
      isLate = true;
      fail(new Error(`no connection to the database within ${Math.round(limitMs)} ms`));
    }, limitMs);
  });
  const connecting = connect().then((client) => {
    if (isLate) client.release();
    return client;
  });
  try {
    return await Promise.race([connecting, late]);
  } finally {
    clearTimeout(timer);
    connecting.catch(() => {});
  }
}

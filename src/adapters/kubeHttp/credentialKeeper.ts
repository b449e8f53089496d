import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { CredentialSource, Credentials } from "./connection.ts";

/** The current credentials, and a number that increases with every change. */
export interface HeldCredentials {
  readonly credentials: Credentials;
  readonly generation: number;
}

/** After rejected credentials the source is called no more often than this. */
const reloadIntervalMsMin = 1_000;

/**
 * Caches credentials until they are old or rejected. However many requests need new ones, the source is called once.
 * Tokens in files are rotated while the process runs; a file that cannot be read for a moment does not invalidate a
 * token that still works.
 */
export class CredentialKeeper {
  private readonly source: CredentialSource;
  private readonly clock: Clock;
  private readonly log: Log;
  private held: HeldCredentials | undefined;
  private heldSinceMs = 0;
  private asking: Promise<HeldCredentials> | undefined;
  private notAgainBeforeMs = 0;

  constructor(source: CredentialSource, clock: Clock, log: Log) {
    this.source = source;
    this.clock = clock;
    this.log = log;
  }

  /**
   * The cached credentials, reloaded when `goodForMs` has passed. If the reload fails the previous ones are returned,
   * so they may be expired; only if there are none does it reject.
   */
  current(): HeldCredentials | Promise<HeldCredentials> {
    const { held } = this;
    if (held === undefined) return this.ask(false);
    const { goodForMs } = held.credentials;
    if (goodForMs === undefined || this.clock.nowMs() - this.heldSinceMs < goodForMs) return held;
    return this.ask(false).catch((error: unknown) => {
      this.log.warn({ cause: error }, "credentials could not be reloaded; the previous ones are used");
      this.heldSinceMs = this.clock.nowMs();
      return held;
    });
  }

  /** The server rejected these credentials. If another request has replaced them already, the new ones are used. */
  afterRefusal(refused: HeldCredentials): HeldCredentials | Promise<HeldCredentials> {
    if (this.held !== undefined && this.held.generation !== refused.generation) return this.held;
    // The source may be a program that takes a second, and many calls may be rejected.
    if (this.held !== undefined && this.clock.nowMs() < this.notAgainBeforeMs) return this.held;
    return this.ask(true).finally(() => {
      this.notAgainBeforeMs = this.clock.nowMs() + reloadIntervalMsMin;
    });
  }

  private ask(refused: boolean): Promise<HeldCredentials> {
    this.asking ??= this.find(refused).finally(() => {
      this.asking = undefined;
    });
    return this.asking;
  }

  private async find(refused: boolean): Promise<HeldCredentials> {
    const credentials = await this.source({ refused });
    const before = this.held;
    this.heldSinceMs = this.clock.nowMs();
    this.held =
      before !== undefined && isSame(before.credentials, credentials)
        ? before
        : { credentials, generation: (before?.generation ?? 0) + 1 };
    return this.held;
  }
}

export function hasSameCertificate(a: Credentials, b: Credentials): boolean {
  return a.certificate === b.certificate && a.key === b.key;
}

function isSame(a: Credentials, b: Credentials): boolean {
  return hasSameCertificate(a, b) && a.authorization === b.authorization && a.goodForMs === b.goodForMs;
}

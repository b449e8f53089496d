import { failure } from "../../model/objects/status.ts";
import type { Random } from "../../ports/random.ts";

/** A fault for tests: an effect on the next requests of a kind. Reachable only from within the process. */
export interface Fault {
  /** `get`, `create`...; any verb when left out. */
  readonly verb?: string;
  /** Plural; any resource when left out. */
  readonly resource?: string;
  /** How many requests it affects; all when left out. */
  times?: number;
  /** Respond with this status code. */
  readonly code?: 409 | 410 | 429 | 500 | 503 | 504;
  /** Delay before the request is handled. */
  readonly delayMs?: number;
  /** The write takes effect, but the response is lost: the connection is closed. */
  readonly breakAfter?: boolean;
}

const reasons: Record<number, string> = {
  409: "Conflict",
  410: "Expired",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/** Faults of the whole API: a share of calls is rejected, all are slow, and watches are late. */
export interface Pressure {
  readonly status: number;
  readonly share: number;
  readonly delayMs: number;
  readonly watchDelayMs: number;
}

/** The effect on one call: a delay, then perhaps an error. */
export interface Pressed {
  readonly delayMs: number;
  readonly status: number | undefined;
}

/** The active faults. */
export class Faults {
  private armed: Fault[] = [];
  private pressureNow: () => Pressure | undefined = () => undefined;
  private random: Random | undefined;

  /** Sets the source of the current pressure; a random draw decides which calls it affects. */
  setPressure(pressureNow: () => Pressure | undefined, random: Random): void {
    this.pressureNow = pressureNow;
    this.random = random;
  }

  get watchDelayMs(): number {
    return this.pressureNow()?.watchDelayMs ?? 0;
  }

  /** The effect of the pressure on one call. */
  press(): Pressed | undefined {
    const pressure = this.pressureNow();
    if (pressure === undefined || this.random === undefined) return undefined;
    const isHit = this.random.uint32() / 2 ** 32 < pressure.share;
    return { delayMs: pressure.delayMs, status: isHit ? pressure.status : undefined };
  }

  arm(fault: Fault): () => void {
    this.armed.push(fault);
    return () => {
      this.armed = this.armed.filter((other) => other !== fault);
    };
  }

  clear(): void {
    this.armed = [];
  }

  /** The fault for this request; its remaining count decreases. */
  take(verb: string, resource: string): Fault | undefined {
    if (this.armed.length === 0) return undefined;
    const fault = this.armed.find(
      (one) => (one.verb ?? verb) === verb && (one.resource ?? resource) === resource && (one.times ?? 1) > 0,
    );
    if (fault?.times !== undefined) fault.times--;
    return fault;
  }
}

export function faultError(code: number): Error {
  return failure(code, reasons[code] ?? "InternalError", "a fault was injected", {
    retryAfterSeconds: code === 429 ? 1 : 0,
  });
}

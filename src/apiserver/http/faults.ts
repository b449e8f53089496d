import { failure } from "../../model/objects/status.ts";
import type { Random } from "../../ports/random.ts";

/** A fault for tests: what happens to the next requests of a kind. Reachable only from within the process. */
export interface Fault {
  /** `get`, `create`...; any verb when left out. */
  readonly verb?: string;
  /** Plural; any resource when left out. */
  readonly resource?: string;
  /** How many requests it hits; every one when left out. */
  times?: number;
  /** Answer with this instead. */
  readonly code?: 409 | 410 | 429 | 500 | 503 | 504;
  /** Wait first. */
  readonly delayMs?: number;
  /** The write takes effect, but the answer is lost: the connection breaks. */
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

/** How the whole API misbehaves: a share of calls is refused, all are slow, and watches are late. */
export interface Pressure {
  readonly status: number;
  readonly share: number;
  readonly delayMs: number;
  readonly watchDelayMs: number;
}

/** The faults that are armed. */
export class Faults {
  private armed: Fault[] = [];
  private pressureNow: () => Pressure | undefined = () => undefined;
  private random: Random | undefined;

  /** Sets the source of the current pressure; chance decides which calls it hits. */
  setPressure(pressureNow: () => Pressure | undefined, random: Random): void {
    this.pressureNow = pressureNow;
    this.random = random;
  }

  get watchDelayMs(): number {
    return this.pressureNow()?.watchDelayMs ?? 0;
  }

  /** What the pressure does to one call. */
  press(): { readonly delayMs: number; readonly status: number | undefined } | undefined {
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

  /** The fault that hits this request, used up by one. */
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

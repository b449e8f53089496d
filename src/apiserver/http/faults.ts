import { failure } from "../../model/status.ts";

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

/** The faults that are armed. */
export class Faults {
  private armed: Fault[] = [];

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

export function faultError(code: NonNullable<Fault["code"]>): Error {
  return failure(code, reasons[code] ?? "InternalError", "a fault was injected", {
    retryAfterSeconds: code === 429 ? 1 : 0,
  });
}

import type { Status } from "./objects/status.ts";

/** The outcome of a call. A refusal is data; every reason has its own meaning for the caller. */
export type Outcome<T> = { readonly ok: true; readonly value: T } | Refusal;

export interface Refusal {
  readonly ok: false;
  readonly reason: RefusalReason;
  readonly message: string;
  /** The server's Retry-After. */
  readonly retryAfterMs?: number;
  readonly status?: Status;
}

export type RefusalReason =
  /** The object, its namespace or its kind does not exist now. */
  | "NotFound"
  /** Another write was first, or a precondition failed: read again before the next decision. */
  | "Conflict"
  | "AlreadyExists"
  /** The revision is compacted: list again. */
  | "Expired"
  /** The request is invalid; a retry fails again. */
  | "Invalid"
  | "Forbidden"
  | "Unauthorized"
  /** Busy, or a disruption budget: try later. The write did not happen. */
  | "TooManyRequests"
  /** The server did not execute the request and reported so (503, connection refused). */
  | "Unavailable"
  /** The write may have happened and may still happen: time-out, broken connection, 5xx after sending. */
  | "Unknown"
  /** The lease was lost: the client refused to send the write. */
  | "Fenced";

/** The same call would be refused again. */
export function isPermanent({ reason }: Pick<Refusal, "reason">): boolean {
  return reason === "Forbidden" || reason === "Invalid" || reason === "Unauthorized";
}

export function succeeded<T>(value: T): Outcome<T> {
  return { ok: true, value };
}

export function refused(
  reason: RefusalReason,
  message: string,
  more: { retryAfterMs?: number; status?: Status } = {},
): Refusal {
  return { ok: false, reason, message, ...more };
}

/** What a Status of the API means for the caller. */
export function refusalOf(status: Status): Refusal {
  const retrySeconds = status.details?.retryAfterSeconds ?? 0;
  const more = { status, ...(retrySeconds > 0 ? { retryAfterMs: retrySeconds * 1000 } : {}) };
  return refused(reasonOf(status), status.message ?? status.reason ?? `HTTP ${status.code}`, more);
}

function reasonOf(status: Status): RefusalReason {
  switch (status.reason) {
    case "NotFound":
    case "Conflict":
    case "AlreadyExists":
    case "Forbidden":
    case "Unauthorized":
    case "TooManyRequests":
    case "Expired":
      return status.reason;
    case "Gone":
      return "Expired";
    case "ServiceUnavailable":
      return "Unavailable";
    default:
      return reasonOfCode(status.code);
  }
}

function reasonOfCode(code: number): RefusalReason {
  if (code === 401) return "Unauthorized";
  if (code === 403) return "Forbidden";
  if (code === 404) return "NotFound";
  if (code === 409) return "Conflict";
  if (code === 410) return "Expired";
  if (code === 429) return "TooManyRequests";
  if (code === 503) return "Unavailable";
  return code >= 500 ? "Unknown" : "Invalid";
}

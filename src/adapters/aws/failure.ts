/** What a failure of the SDK means: whether to ask again, and what to tell when asking again did not help. */
import type { CloudRefusal } from "../../ports/cloud.ts";

export interface Failure {
  readonly reason: CloudRefusal;
  readonly why: string;
  readonly again: boolean;
}

const throttling = new Set([
  "RequestLimitExceeded",
  "Throttling",
  "ThrottlingException",
  "ThrottledException",
  "TooManyRequestsException",
  "RequestThrottled",
  "RequestThrottledException",
  "EC2ThrottledException",
  "SlowDown",
  "BandwidthLimitExceeded",
  "PriorRequestNotComplete",
]);
const denied = new Set([
  "UnauthorizedOperation",
  "AccessDenied",
  "AccessDeniedException",
  "AuthFailure",
  "OptInRequired",
  "InvalidClientTokenId",
  "SignatureDoesNotMatch",
  "UnrecognizedClientException",
  "MissingAuthenticationToken",
]);
const expired = new Set(["ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"]);
const badToken = new Set(["InvalidNextToken", "InvalidPaginationToken"]);

/** The answer was whole, and not about what was asked: the SDK reads any XML without a word. */
export class UnrelatedAnswer extends Error {}

export function failureOf(error: unknown): Failure {
  const {
    name = "",
    message = String(error),
    code = "",
    $metadata,
  } = (error ?? {}) as {
    name?: string;
    message?: string;
    code?: string;
    $metadata?: { httpStatusCode?: number };
  };
  const status = $metadata?.httpStatusCode ?? 0;
  const why = `${name === "" || name === "Error" ? code : name}: ${message}`;
  if (error instanceof UnrelatedAnswer) return { reason: "Malformed", why: message, again: true };
  if (throttling.has(name)) return { reason: "Throttled", why, again: true };
  if (expired.has(name) || name === "CredentialsProviderError") return { reason: "Expired", why, again: false };
  if (badToken.has(name)) return { reason: "Expired", why, again: false };
  if (denied.has(name)) return { reason: "Denied", why, again: false };
  if (status >= 500) return { reason: "Unavailable", why, again: true };
  if (status >= 400) return { reason: "Denied", why, again: false };
  // Half an answer ends the parser; a connection that breaks ends the call.
  if (status >= 200 && status < 300) return { reason: "Malformed", why, again: true };
  if (/Unclosed|Unexpected|parse|XML|tag/i.test(message) && code === "")
    return { reason: "Malformed", why, again: true };
  return { reason: "Unavailable", why, again: true };
}

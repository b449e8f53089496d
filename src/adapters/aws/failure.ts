/** What a failure of the SDK means: whether to retry, and what to report when retries did not help. */
import type { CloudRefusal } from "../../ports/cloud.ts";

export interface Failure {
  readonly reason: CloudRefusal;
  readonly why: string;
  readonly again: boolean;
  /** The SDK has learned the service's time from the refusal: worth one more attempt, with a signature of that time. */
  readonly clockCorrected?: boolean;
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
/** What a signature with a wrong date is answered with; other causes have the same names. */
const perhapsSkewed = new Set([
  "AuthFailure",
  "InvalidSignatureException",
  "RequestExpired",
  "RequestInTheFuture",
  "RequestTimeTooSkewed",
  "SignatureDoesNotMatch",
]);
/** Beyond this the services refuse a signature. */
const skewMsMax = 240_000;
const badToken = new Set(["InvalidNextToken", "InvalidPaginationToken"]);

/** The answer was whole, and not about what was asked: the SDK reads any XML without a word. */
export class UnrelatedAnswer extends Error {}

export function failureOf(error: unknown): Failure {
  const {
    name = "",
    message = String(error),
    code = "",
    $metadata,
    $response,
  } = (error ?? {}) as {
    name?: string;
    message?: string;
    code?: string;
    $metadata?: { httpStatusCode?: number; clockSkewCorrected?: boolean };
    $response?: { headers?: Readonly<Record<string, string>> };
  };
  const status = $metadata?.httpStatusCode ?? 0;
  const clocks = perhapsSkewed.has(name) ? skewOf($response?.headers?.["date"]) : "";
  const why = `${name === "" || name === "Error" ? code : name}: ${message}${clocks}`;
  if ($metadata?.clockSkewCorrected === true) return { reason: "Denied", why, again: false, clockCorrected: true };
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

/** What the answer's date says about this machine's clock. */
function skewOf(date: string | undefined): string {
  const aheadMs = Date.parse(date ?? "") - Date.now();
  if (Number.isNaN(aheadMs) || Math.abs(aheadMs) < skewMsMax) return "";
  const minutes = Math.round(Math.abs(aheadMs) / 60_000);
  return ` (this machine's clock is ${minutes} minutes ${aheadMs > 0 ? "behind" : "ahead of"} the cloud's: see that it is synchronised)`;
}

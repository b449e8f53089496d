/** Classifies an error of the SDK: whether to retry, and what to report. */
import type { CloudRefusal } from "../../ports/cloud.ts";

export interface Failure {
  readonly reason: CloudRefusal;
  readonly why: string;
  /** Whether the same call may succeed later. */
  readonly retry: boolean;
  /**
   * The SDK has taken the clock offset from the refusal. The first such failure of a call is retried although `retry`
   * is false, because the next signature has the right date; the second one is final.
   */
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
/** Error codes of a signature with a wrong date; they have other causes as well. */
const perhapsSkewed = new Set([
  "AuthFailure",
  "InvalidSignatureException",
  "RequestExpired",
  "RequestInTheFuture",
  "RequestTimeTooSkewed",
  "SignatureDoesNotMatch",
]);
/** From this difference on the report names the clock. AWS refuses signatures that are 5 minutes off. */
const skewMsMax = 240_000;
/** An expired page token. The list fails; the next run begins it again. */
const invalidPageToken = new Set(["InvalidNextToken", "InvalidPaginationToken"]);

/** A complete response without the expected fields: the SDK parses any XML without an error. */
export class MalformedResponse extends Error {}

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
  if ($metadata?.clockSkewCorrected === true) return { reason: "Denied", why, retry: false, clockCorrected: true };
  if (error instanceof MalformedResponse) return { reason: "Malformed", why: message, retry: true };
  if (throttling.has(name)) return { reason: "Throttled", why, retry: true };
  if (expired.has(name) || name === "CredentialsProviderError") return { reason: "Expired", why, retry: false };
  if (invalidPageToken.has(name)) return { reason: "Expired", why, retry: false };
  if (denied.has(name)) return { reason: "Denied", why, retry: false };
  if (status >= 500) return { reason: "Unavailable", why, retry: true };
  if (status >= 400) return { reason: "Denied", why, retry: false };
  // A truncated response fails in the parser; a broken connection fails the call.
  if (status >= 200 && status < 300) return { reason: "Malformed", why, retry: true };
  if (/Unclosed|Unexpected|parse|XML|tag/i.test(message) && code === "")
    return { reason: "Malformed", why, retry: true };
  return { reason: "Unavailable", why, retry: true };
}

/** The difference between the response's date and this machine's clock, as text. */
function skewOf(date: string | undefined): string {
  const aheadMs = Date.parse(date ?? "") - Date.now();
  if (Number.isNaN(aheadMs) || Math.abs(aheadMs) < skewMsMax) return "";
  const minutes = Math.round(Math.abs(aheadMs) / 60_000);
  return ` (this machine's clock is ${minutes} minutes ${aheadMs > 0 ? "behind" : "ahead of"} the cloud's: synchronise it)`;
}

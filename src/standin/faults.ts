/** What can be wrong with the cloud, as settings. Everything is off by default. */
export interface CloudFaults {
  /** Calls of each operation that are let through at once, and how many more each second; beyond that: throttled. */
  readonly bucket?: { readonly size: number; readonly perSecond: number };
  /** Every answer waits so long. */
  readonly latencyMs?: number;
  /** Which answers fail, and how. */
  readonly fail?: readonly FailRule[];
  /** A new volume is invisible for so long; a deleted one is listed for so long. */
  readonly staleMs?: number;
  /** Every so many-th page is empty, and has a token all the same; 0 is never. */
  readonly emptyPageEvery?: number;
  /** The last item of a page comes again on the next. */
  readonly repeatItems?: boolean;
  /** Lists come in another order each time. */
  readonly shuffle?: boolean;
  /** How far the cloud's clock is ahead of ours. */
  readonly clockSkewMs?: number;
}

export interface FailRule {
  /** `DescribeVolumes`; left out: every operation. */
  readonly operation?: string;
  /** The n-th call of the operation from now on, from 1; left out: every call. */
  readonly call?: number;
  /** Only the first so many of the calls that the rule hits; left out: all. */
  readonly times?: number;
  readonly how: FailKind;
}

export type FailKind =
  | "throttle"
  | "internal"
  | "unavailable"
  | "denied"
  /** The signature is not believed. */
  | "notSigned"
  | "expiredCredentials"
  | "expiredToken"
  | "truncated"
  | "unrelated"
  | "hangUp";

/** The faults of the simulated cloud. All are off by default. */
export interface CloudFaults {
  /** The token bucket of each operation: its size and refill rate. Calls beyond it are throttled. */
  readonly bucket?: { readonly size: number; readonly perSecond: number };
  /** The delay of every response. */
  readonly latencyMs?: number;
  /** Which calls fail, and how. */
  readonly fail?: readonly FailRule[];
  /** How long a new volume is not listed yet, and a deleted one is still listed. */
  readonly staleMs?: number;
  /** Every n-th page is empty but has a token; 0 disables this. */
  readonly emptyPageEvery?: number;
  /** The last item of a page is repeated on the next. */
  readonly repeatItems?: boolean;
  /** Every list is in another order. */
  readonly shuffle?: boolean;
  /** How far the cloud's clock is ahead of this machine's. */
  readonly clockSkewMs?: number;
}

export interface FailRule {
  /** Such as `DescribeVolumes`; undefined: every operation. */
  readonly operation?: string;
  /** The n-th call of the operation from now on, counted from 1; undefined: every call. */
  readonly call?: number;
  /** The number of calls that fail by this rule; undefined: all. */
  readonly times?: number;
  readonly how: FailKind;
}

export type FailKind =
  | "throttle"
  | "internal"
  | "unavailable"
  | "denied"
  /** The signature is rejected. */
  | "notSigned"
  | "expiredCredentials"
  | "expiredToken"
  | "truncated"
  | "unrelated"
  | "hangUp";

/** The result of a run. All reports are written from it, and it is computed from one snapshot. */
import type { CheckId, CheckStatus, Evidence } from "./check.ts";
import type { CountedReason, UnscheduledClass } from "./classify.ts";
import type { PodEvent } from "./podEvents.ts";
import type { PodCounts } from "./podTally.ts";

export interface VerifyResult {
  readonly verdict: Verdict;
  readonly exitCode: number;
  readonly attempts: number;
  /** From the first attempt to the last, in milliseconds. */
  readonly waitedMs: number;
  /** The duration of the run. */
  readonly wallMs: number;
  readonly cluster: string;
  /** Undefined when no snapshot could be taken. */
  readonly snapshot?: SnapshotShown;
  readonly counts?: PodCounts;
  readonly distribution?: Readonly<Record<string, number>>;
  /** Pods without a node that fail the run. */
  readonly unscheduled: readonly UnscheduledPod[];
  /** Pods without a node that are too new to fail it; the count of unscheduled pods includes them. */
  readonly settling: readonly UnscheduledPod[];
  readonly failed: readonly FailedPod[];
  readonly ignoredJobs: readonly string[];
  readonly excusedFailures: readonly string[];
  /** Bound pods that are not running; filled with `--require-running`. */
  readonly notRunning: readonly string[];
  /** Events beyond the limits of the report. */
  readonly eventsOmitted: number;
  readonly checks: readonly CheckResult[];
  /** The attempts before the last one, in order. */
  readonly history: readonly AttemptLine[];
  readonly warnings: readonly string[];
  readonly config: ConfigShown;
  readonly error?: VerifyError;
}

/** `fail`: a check failed. `error`: no result. `empty`: no pod was in scope. */
export type Verdict = "pass" | "fail" | "error" | "empty";

export interface SnapshotShown {
  readonly resourceVersion: string;
  readonly coherent: boolean;
  /** Which kinds are at another revision, and why. */
  readonly incoherent: readonly string[];
  readonly versions: Readonly<Record<string, string>>;
  readonly takenAt: string;
  /** Objects of each kind; null for a kind that is not served. */
  readonly counts: Readonly<Record<string, number | null>>;
}

export interface UnscheduledPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  readonly age: string;
  readonly class: UnscheduledClass;
  readonly why: string;
  readonly reasons: readonly CountedReason[];
  readonly scheduler: string;
  readonly requests: Readonly<Record<string, string>>;
  readonly gang: string | null;
  readonly claims: readonly string[];
  /** The newest events, within the limits of the report. */
  readonly events: readonly PodEvent[];
  /** Events of this pod beyond the limits of the report. */
  readonly eventsOmitted: number;
  /** Whether any of its events, printed or not, is FailedScheduling, or Unschedulable of KAI. */
  readonly hasRefusalEvent: boolean;
}

export interface FailedPod {
  readonly namespace: string;
  readonly name: string;
  readonly node: string | null;
  readonly reason: string;
  readonly message: string;
  readonly containers: readonly FailedContainer[];
}

export interface FailedContainer {
  readonly name: string;
  readonly init: boolean;
  readonly reason: string;
  readonly exitCode: number | null;
  readonly message: string;
}

export interface CheckResult {
  readonly id: CheckId | ExtraId;
  readonly title: string;
  readonly status: CheckStatus;
  readonly message: string;
  readonly details: readonly Evidence[];
}

/**
 * Results besides the numbered checks: whether the run could start, take a snapshot and reach a verdict, and whether
 * pods are in scope, enough, and not failed.
 */
export type ExtraId =
  | "setup"
  | "snapshot"
  | "verdict"
  | "scope"
  | "failed-pods"
  | "expect-min"
  | "require-running"
  | "gang-barrier";

/** An attempt that was not the last. */
export interface AttemptLine {
  readonly attempt: number;
  readonly waitedMs: number;
  readonly counts?: PodCounts;
  /** How many unscheduled pods no scheduler had tried, by their status. */
  readonly neverTried?: number;
  /** What is still missing, or why there was no snapshot. */
  readonly why: string;
  /** The first pods without a node, by name. */
  readonly pods?: readonly string[];
}

export interface ConfigShown {
  readonly settleMs: number;
  readonly intervalMs: number;
  readonly graceMs: number;
  readonly excluded: readonly string[];
  readonly checks: readonly string[];
  readonly allowEmpty: boolean;
  readonly expectMin: number;
  readonly expectWorkloads: readonly string[];
  readonly ignoreJobs: boolean;
  readonly failOnEvicted: boolean;
  readonly strict: boolean;
  readonly requireRunning: boolean;
  readonly profile: string | null;
  readonly gitopsRoot: string | null;
  readonly compat: string | null;
}

export interface VerifyError {
  readonly class: ErrorClass;
  readonly message: string;
}

export type ErrorClass =
  | "unreachable"
  | "unauthorized"
  | "forbidden"
  | "no-api"
  | "refused"
  | "busy"
  | "unreadable"
  | "budget"
  | "setup"
  | "internal"
  | "interrupted";

export const exitCodes = {
  pass: 0,
  failed: 1,
  usage: 2,
  noSnapshot: 3,
  empty: 4,
  gitops: 50,
} as const;

/** The aicr shell harness has one exit code for every result that is not a pass. */
export function compatCode(exitCode: number, compat: "aicr" | undefined): number {
  return compat === "aicr" && exitCode >= 2 && exitCode <= 4 ? 1 : exitCode;
}

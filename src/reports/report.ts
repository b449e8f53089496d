import type { CheckStatus, Evidence } from "../decide/verify/check.ts";

/** The input of a report besides the result: times and Muster's version. */
export interface ReportContext {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly version: string;
}

/** A run of checks, as formats print it that several commands have. */
export interface ReportedRun {
  /** `muster verify`. */
  readonly command: string;
  readonly cluster: string;
  readonly verdict: string;
  readonly exitCode: number;
  /** The duration of the run, in milliseconds. */
  readonly wallMs: number;
  readonly resourceVersion: string | null;
  readonly checks: readonly ReportedCheck[];
  /** The lines of the text report. */
  readonly lines: readonly string[];
}

export interface ReportedCheck {
  readonly id: string;
  readonly title: string;
  readonly status: CheckStatus;
  readonly message: string;
  readonly details: readonly Evidence[];
}

/** The result of an audit. All reports are written from it. */
import { snapshotShown } from "../verify/judge.ts";
import { exitCodes, type SnapshotShown, type VerifyError } from "../verify/verifyResult.ts";
import type { AuditCheck } from "./auditCheck.ts";
import type { AuditLook } from "./auditLook.ts";
import type { HeldFinding } from "./persistence.ts";

/** `unknown`: nothing was found, but a check could not be carried out. `error`: there is no snapshot. */
export type AuditVerdict = "pass" | "fail" | "unknown" | "error";

export interface AuditResult {
  readonly verdict: AuditVerdict;
  readonly exitCode: number;
  readonly cluster: string;
  /** The number of snapshots. */
  readonly looks: number;
  /** From the first snapshot to the last, in milliseconds. */
  readonly waitedMs: number;
  /** The duration of the run. */
  readonly wallMs: number;
  /** The last snapshot. */
  readonly snapshot?: SnapshotShown;
  readonly checks: readonly AuditCheckResult[];
  readonly warnings: readonly string[];
  readonly error?: VerifyError;
}

export interface AuditCheckResult {
  readonly name: string;
  readonly status: "passed" | "failed" | "unknown";
  readonly message: string;
  readonly meaning: string;
  readonly cause: string;
  readonly cure: string;
  readonly findings: readonly AuditFinding[];
}

export interface AuditFinding {
  /** `pods/team-a/train-0`, `nodes/gpu-3`. */
  readonly object: string;
  readonly problem: string;
  /** How long it has held, from its first snapshot to the last, in milliseconds. */
  readonly heldMs: number;
}

export interface AuditProgress {
  readonly cluster: string;
  readonly looks: number;
  readonly waitedMs: number;
  readonly wallMs: number;
}

/** `reported` are the findings that count. */
export function auditResult(
  look: AuditLook,
  reported: readonly HeldFinding[],
  progress: AuditProgress,
  warnings: readonly string[] = [],
): AuditResult {
  const checks = look.checks.map(({ check, unknown }) => {
    const held = reported.filter((finding) => finding.check === check);
    return checkResult(check, held, unknown);
  });
  const verdict = checks.some(({ status }) => status === "failed")
    ? "fail"
    : checks.some(({ status }) => status === "unknown")
      ? "unknown"
      : "pass";
  const exitCode = { pass: exitCodes.pass, fail: exitCodes.failed, unknown: exitCodes.noSnapshot }[verdict];
  return { verdict, exitCode, ...progress, snapshot: snapshotShown(look.snapshot), checks, warnings };
}

function checkResult(
  { name, meaning, cause, cure }: AuditCheck,
  held: readonly HeldFinding[],
  unknown: string | undefined,
): AuditCheckResult {
  const findings = held.map(({ object, problem, heldMs }) => ({ object, problem, heldMs }));
  const about = { name, meaning, cause, cure, findings };
  if (unknown !== undefined) return { ...about, status: "unknown", message: unknown, findings: [] };
  const [first] = findings;
  if (first === undefined) return { ...about, status: "passed", message: "no finding" };
  const more = findings.length > 1 ? ` (and ${findings.length - 1} more)` : "";
  return { ...about, status: "failed", message: `${first.object}: ${first.problem}${more}` };
}

/** A run that ended without a snapshot, or by a signal. */
export function auditWithout(
  error: VerifyError,
  progress: AuditProgress,
  exitCode: number = exitCodes.noSnapshot,
): AuditResult {
  return { verdict: "error", exitCode, ...progress, checks: [], warnings: [], error };
}

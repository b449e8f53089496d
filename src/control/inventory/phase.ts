/** The status and the report of a phase of a run. */
import type { DriftEvent } from "../../model/inventory/rows.ts";
import type { RunStatus } from "../../ports/database.ts";

export type PhaseStatus = Exclude<RunStatus, "skipped">;

export interface PhaseReport {
  readonly status: PhaseStatus;
  /** Counters by name; docs/inventory.md lists them. */
  readonly counters: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
  readonly rowsRead: number;
  readonly rowsWritten: number;
  readonly durationMs: number;
}

/** A plan and the report of its phase. */
export interface PhaseResult<Plan> {
  readonly plan: Plan | undefined;
  readonly report: PhaseReport;
  readonly drift: readonly DriftEvent[];
}

/** Why a phase ended without a plan. */
export function endedEarly<Plan>(
  status: PhaseStatus,
  problem: string,
  more: Partial<PhaseReport> = {},
): PhaseResult<Plan> {
  const report = { status, counters: {}, problems: [problem], rowsRead: 0, rowsWritten: 0, durationMs: 0, ...more };
  return { plan: undefined, report, drift: [] };
}

/** Writes the reports of an audit to their targets. */

import type { AuditCheckResult, AuditResult } from "../../decide/audit/auditResult.ts";
import type { CheckStatus } from "../../decide/verify/check.ts";
import { auditLines, auditText } from "../../reports/auditText.ts";
import { ctrfReport } from "../../reports/ctrf.ts";
import { annotation } from "../../reports/github.ts";
import { junitReport } from "../../reports/junit.ts";
import type { ReportContext, ReportedRun } from "../../reports/report.ts";
import { sarifReport } from "../../reports/sarif.ts";
import { deliver, type ReportTargets } from "../verify/verifyReports.ts";
import type { AuditFormat } from "./auditFlags.ts";

export function deliverAudit(result: AuditResult, context: ReportContext, targets: ReportTargets<AuditFormat>): void {
  const rendering = {
    report: (format: AuditFormat) => auditReport(format, result, context),
    json: () => jsonText(result),
    lines: () => auditLines(result),
    github: () => ({ summary: summary(result), annotations: annotations(result) }),
  };
  deliver(rendering, targets);
}

export function auditReport(format: AuditFormat, result: AuditResult, context: ReportContext): string {
  switch (format) {
    case "text":
      return auditText(result);
    case "json":
      return jsonText(result);
    case "ctrf":
      return ctrfReport(reportedRun(result), context);
    case "junit":
      return junitReport(reportedRun(result), context);
    case "sarif":
      return sarifReport(result, context);
  }
}

function jsonText(result: AuditResult): string {
  return `${JSON.stringify(result, undefined, 2)}\n`;
}

const statuses = { passed: "passed", failed: "failed", unknown: "other" } as const satisfies Record<
  AuditCheckResult["status"],
  CheckStatus
>;

/** A run without a snapshot has one result, that there is none. */
function reportedRun(result: AuditResult): ReportedRun {
  const { error, snapshot } = result;
  const checks = result.checks.map(({ name, meaning, status, message, findings }) => ({
    id: name,
    title: `not found: ${meaning}`,
    status: statuses[status],
    message,
    details: findings,
  }));
  const missing = { id: "snapshot", title: "a snapshot of the cluster can be taken", status: "other" } as const;
  return {
    ...result,
    command: "muster audit",
    resourceVersion: snapshot?.resourceVersion ?? null,
    checks: error === undefined ? checks : [...checks, { ...missing, message: error.message, details: [] }],
    lines: auditLines(result),
  };
}

const annotationsMax = 10;

function annotations({ checks }: AuditResult): string {
  const failed = checks.filter(({ status }) => status === "failed").slice(0, annotationsMax);
  return failed.map(({ name, message }) => `${annotation("error", "audit", name, message)}\n`).join("");
}

function summary(result: AuditResult): string {
  return `## muster audit: ${result.verdict}\n\n\`\`\`\n${auditText(result)}\`\`\`\n`;
}

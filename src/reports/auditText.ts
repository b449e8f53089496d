/** The text report of an audit: findings with cause and cure, then what is unknown, then the verdict. */
import type { AuditCheckResult, AuditResult } from "../decide/audit/auditResult.ts";
import { secondsText } from "../model/values/duration.ts";

/** Longer lists are truncated with a note; the JSON report has all items. */
const listedMax = 100;

/** Control characters are removed, so that no message can break a line or control a terminal. */
export function auditLines(result: AuditResult): string[] {
  return rawLines(result).map((line) => line.replace(/\p{Cc}+/gu, " "));
}

export function auditText(result: AuditResult): string {
  return auditLines(result)
    .map((line) => `${line}\n`)
    .join("");
}

function rawLines(result: AuditResult): string[] {
  const { snapshot, checks, error } = result;
  if (error !== undefined || snapshot === undefined) {
    return [
      `[ERROR] ${error?.message ?? "no snapshot was taken"}`,
      `[ERROR] No verdict: ${error?.class ?? "unknown"} (exit ${result.exitCode})`,
    ];
  }
  const revision = snapshot.coherent ? "all kinds at one revision" : "not all kinds at one revision";
  const times = `snapshots=${result.looks}, waited=${secondsText(result.waitedMs)}s`;
  const lines = [
    `[INFO] Snapshot: revision ${snapshot.resourceVersion}, taken ${snapshot.takenAt}, ${revision} (${times})`,
  ];
  for (const check of checks) if (check.status === "failed") lines.push(...findingLines(check));
  for (const { name, status, message } of checks) {
    if (status === "unknown") lines.push(`[WARN] Check ${name}: unknown: ${message}`);
  }
  const passed = checks.filter(({ status }) => status === "passed").map(({ name }) => name);
  if (passed.length > 0) lines.push(`[INFO] Passed: ${passed.join(", ")}`);
  for (const warning of result.warnings) lines.push(`[WARN] ${warning}`);
  lines.push(verdictLine(result));
  return lines;
}

function findingLines({ name, meaning, cause, cure, findings }: AuditCheckResult): string[] {
  const lines = [`[ERROR] Check ${name}: ${count(findings.length, "finding")}: ${meaning}`];
  for (const { object, problem, heldMs } of findings.slice(0, listedMax)) {
    const held = heldMs > 0 ? ` (held ${secondsText(heldMs)}s)` : "";
    lines.push(`[ERROR]   ${object}: ${problem}${held}`);
  }
  if (findings.length > listedMax) lines.push(`[ERROR]   and ${findings.length - listedMax} more`);
  return [...lines, `[ERROR]   how it comes about: ${cause}`, `[ERROR]   cure: ${cure}`];
}

function verdictLine({ verdict, checks }: AuditResult): string {
  const failed = checks.filter(({ status }) => status === "failed");
  const unknown = checks.filter(({ status }) => status === "unknown").length;
  const rest = unknown === 0 ? "" : `, ${count(unknown, "check")} unknown`;
  if (verdict === "fail") {
    const findings = failed.reduce((sum, check) => sum + check.findings.length, 0);
    return `[ERROR] Audit FAILED: ${count(findings, "finding")} of ${count(failed.length, "check")}${rest}`;
  }
  if (verdict === "unknown") return `[ERROR] Audit has no verdict: no finding${rest}`;
  return `[INFO] Audit PASSED: ${count(checks.length, "check")}`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

import type { MetricWords } from "../../adapters/prometheus.ts";
import type { AuditResult } from "../../decide/audit/auditResult.ts";
import type { Metrics } from "../../ports/metrics.ts";

/** The HELP line of each metric of `muster audit --watch`. */
export const auditMetricWords = {
  muster_audit_findings: { help: "Findings that persist, by check; a check that is unknown keeps its last number." },
  muster_audit_unknown: { help: "1 while a check cannot be carried out, by check." },
  muster_audit_snapshot_timestamp_seconds: { help: "When the last snapshot was taken, in seconds since 1970." },
} as const satisfies Record<string, MetricWords>;

export function countAudit(metrics: Metrics, { checks }: AuditResult, takenAtMs: number): void {
  for (const { name, status, findings } of checks) {
    metrics.gauge("muster_audit_unknown", { check: name }, status === "unknown" ? 1 : 0);
    if (status !== "unknown") metrics.gauge("muster_audit_findings", { check: name }, findings.length);
  }
  metrics.gauge("muster_audit_snapshot_timestamp_seconds", {}, takenAtMs / 1000);
}

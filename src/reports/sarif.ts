/** SARIF 2.1.0: a rule for each check, a result for each finding, a notification for each check that is unknown. */
import type { AuditCheckResult, AuditResult } from "../decide/audit/auditResult.ts";
import { formatTime } from "../model/values/time.ts";
import type { ReportContext } from "./report.ts";

export function sarifReport(result: AuditResult, { startedAtMs, endedAtMs, version }: ReportContext): string {
  const log = {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: { driver: { name: "muster audit", version, rules: result.checks.map(rule) } },
        automationDetails: { id: `muster audit/${result.cluster}` },
        invocations: [
          {
            executionSuccessful: result.error === undefined,
            exitCode: result.exitCode,
            startTimeUtc: formatTime(startedAtMs),
            endTimeUtc: formatTime(endedAtMs),
            toolExecutionNotifications: notifications(result),
          },
        ],
        results: result.checks.flatMap(results),
      },
    ],
  };
  return `${JSON.stringify(log, undefined, 2)}\n`;
}

function rule({ name, meaning, cause, cure }: AuditCheckResult): object {
  return {
    id: name,
    shortDescription: { text: meaning },
    fullDescription: { text: `${meaning}. How it comes about: ${cause}.` },
    help: { text: cure },
    defaultConfiguration: { level: "error" },
  };
}

function results({ name, findings }: AuditCheckResult, ruleIndex: number): object[] {
  return findings.map(({ object, problem }) => ({
    ruleId: name,
    ruleIndex,
    level: "error",
    message: { text: `${object}: ${problem}` },
    locations: [
      {
        // Programs that show files need a physical location; the object's path stands for one.
        physicalLocation: { artifactLocation: { uri: encodeURI(object) } },
        logicalLocations: [{ fullyQualifiedName: object, kind: "resource" }],
      },
    ],
    partialFingerprints: { "musterFinding/v1": `${name}/${object}` },
  }));
}

function notifications({ checks, error }: AuditResult): object[] {
  const unknown = checks.flatMap(({ name, status, message }, index) =>
    status === "unknown" ? [{ level: "warning", message: { text: message }, associatedRule: { id: name, index } }] : [],
  );
  return error === undefined ? unknown : [...unknown, { level: "error", message: { text: error.message } }];
}

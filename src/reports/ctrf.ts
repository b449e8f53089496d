/** Common Test Report Format: one test for each check. The summary is counted from the tests. */
import type { CheckStatus } from "../decide/verify/check.ts";
import { formatTime } from "../model/values/time.ts";
import type { ReportContext, ReportedRun } from "./report.ts";

const outLines = 1000;
const outChars = 512;

export function ctrfReport(result: ReportedRun, { startedAtMs, endedAtMs, version }: ReportContext): string {
  const tests = result.checks.map(({ id, title, status, message, details }) => ({
    name: `${id} ${title}`,
    status,
    duration: 0,
    suite: [result.command, result.cluster],
    message,
    stdout: details.slice(0, outLines).map(({ object, problem }) => `${object}: ${problem}`.slice(0, outChars)),
  }));
  const count = (wanted: CheckStatus): number => tests.filter(({ status }) => status === wanted).length;
  const report = {
    reportFormat: "CTRF",
    specVersion: "0.0.1",
    timestamp: formatTime(endedAtMs),
    generatedBy: result.command,
    results: {
      tool: { name: "muster", version },
      summary: {
        tests: tests.length,
        passed: count("passed"),
        failed: count("failed"),
        skipped: count("skipped"),
        pending: 0,
        other: count("other"),
        start: startedAtMs,
        stop: endedAtMs,
      },
      tests,
      environment: { appName: "muster", appVersion: version, testEnvironment: result.cluster },
      extra: {
        verdict: result.verdict,
        exitCode: result.exitCode,
        resourceVersion: result.resourceVersion,
        lines: result.lines.slice(0, outLines),
      },
    },
  };
  return `${JSON.stringify(report, undefined, 2)}\n`;
}

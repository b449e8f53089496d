/** JUnit's XML: `failure` for a check that failed, `error` for a check without a result. */
import { formatTime } from "../model/values/time.ts";
import type { ReportContext, ReportedCheck, ReportedRun } from "./report.ts";

export function junitReport(result: ReportedRun, { startedAtMs }: ReportContext): string {
  const count = (expected: ReportedCheck["status"]): number =>
    result.checks.filter(({ status }) => status === expected).length;
  const totals = attributes({
    name: result.command,
    tests: String(result.checks.length),
    failures: String(count("failed")),
    errors: String(count("other")),
    skipped: String(count("skipped")),
    time: (result.wallMs / 1000).toFixed(3),
  });
  const about = attributes({ timestamp: formatTime(startedAtMs).replace(/Z$/, ""), hostname: result.cluster });
  const cases = result.checks.map((check) => testCase(check, `${result.command}.${result.cluster}`)).join("");
  return (
    `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites${totals}>\n  <testsuite${totals}${about}>\n${cases}` +
    `    <system-out>${escaped(result.lines.join("\n"))}</system-out>\n  </testsuite>\n</testsuites>\n`
  );
}

function testCase({ id, title, status, message, details }: ReportedCheck, classname: string): string {
  const head = attributes({ classname, name: `${id} ${title}`, time: "0.000" });
  const text = escaped(details.map(({ object, problem }) => `${object}: ${problem}`).join("\n"));
  const messageAttribute = attributes({ message });
  switch (status) {
    case "passed":
      return `    <testcase${head}/>\n`;
    case "skipped":
      return `    <testcase${head}>\n      <skipped${messageAttribute}/>\n    </testcase>\n`;
    case "failed":
      return `    <testcase${head}>\n      <failure${messageAttribute} type="${id}">${text}</failure>\n    </testcase>\n`;
    case "other":
      return `    <testcase${head}>\n      <error${messageAttribute} type="${id}">${text}</error>\n    </testcase>\n`;
  }
}

function attributes(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => ` ${name}="${escaped(value).replace(/\n/g, "&#10;")}"`)
    .join("");
}

/** Characters that XML 1.0 does not allow are replaced, so that a pod's message cannot break the report. */
function escaped(text: string): string {
  return text
    .replace(/(?![\t\n\r])[\p{Cc}\p{Cs}\uFFFE\uFFFF]/gu, "\uFFFD")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;");
}

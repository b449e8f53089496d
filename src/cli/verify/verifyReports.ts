/** Writes reports to their targets. A failure here changes no verdict. */
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import type { VerifyResult } from "../../decide/verify/verifyResult.ts";
import { ctrfReport } from "../../reports/ctrf.ts";
import { githubAnnotations, githubSummary } from "../../reports/github.ts";
import { jsonReport } from "../../reports/json.ts";
import { junitReport } from "../../reports/junit.ts";
import type { ReportContext } from "../../reports/report.ts";
import { finalLines, textReport } from "../../reports/text.ts";
import { type AskedReport, claimsOutput, type ReportFormat } from "./verifyFlags.ts";

export interface ReportTargets {
  readonly reports: readonly AskedReport[];
  readonly output: "text" | "json";
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

export function reportText(format: ReportFormat, result: VerifyResult, context: ReportContext): string {
  switch (format) {
    case "text":
      return textReport(result);
    case "json":
      return jsonReport(result);
    case "ctrf":
      return ctrfReport(result, context);
    case "junit":
      return junitReport(result, context);
    case "github":
      return githubSummary(result);
  }
}

/** Files first and flushed to the disk: they are complete if the process is killed next. Then the terminal. */
export function deliverReports(result: VerifyResult, context: ReportContext, targets: ReportTargets): void {
  const { reports, output, env, out, err } = targets;
  for (const { format, file } of reports) {
    const text = reportText(format, result, context);
    if (file === "-") out(text);
    else writeDown(file, text, "w", err);
  }
  const onGithub = env["GITHUB_ACTIONS"] === "true";
  const summary = env["GITHUB_STEP_SUMMARY"] ?? "";
  if (onGithub && summary !== "") writeDown(summary, githubSummary(result), "a", err);
  const say = claimsOutput(reports) ? err : out;
  if (output === "json") out(jsonReport(result));
  else
    say(
      finalLines(result)
        .map((line) => `${line}\n`)
        .join(""),
    );
  if (onGithub || reports.some(({ format }) => format === "github")) {
    (output === "json" ? err : say)(githubAnnotations(result));
  }
}

function writeDown(file: string, text: string, flag: "w" | "a", err: (text: string) => void): void {
  try {
    const handle = openSync(file, flag);
    try {
      // One call may write less than it was given.
      const bytes = Buffer.from(text, "utf8");
      for (let at = 0; at < bytes.length; ) at += writeSync(handle, bytes, at);
      sync(handle);
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    err(`muster: the report ${file} could not be written: ${why}\n`);
  }
}

/** Pipes and terminals have nothing to flush. */
function sync(handle: number): void {
  try {
    fsyncSync(handle);
  } catch {
    // Written is as much as can be had.
  }
}

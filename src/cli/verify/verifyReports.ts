/** Writes reports to their targets. A failure here changes no verdict. */
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import type { VerifyResult } from "../../decide/verify/verifyResult.ts";
import { ctrfReport } from "../../reports/ctrf.ts";
import { githubAnnotations, githubSummary } from "../../reports/github.ts";
import { jsonReport } from "../../reports/json.ts";
import { junitReport } from "../../reports/junit.ts";
import type { ReportContext, ReportedRun } from "../../reports/report.ts";
import { finalLines, textReport } from "../../reports/text.ts";
import { type AskedReport, claimsOutput, type ReportFormat } from "./verifyFlags.ts";

/** What the formats that every command has print of a run. */
function reportedRun(result: VerifyResult): ReportedRun {
  return {
    ...result,
    command: "muster verify",
    resourceVersion: result.snapshot?.resourceVersion ?? null,
    lines: finalLines(result),
  };
}

export interface ReportTargets<F extends string = ReportFormat> {
  readonly reports: readonly AskedReport<F>[];
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
      return ctrfReport(reportedRun(result), context);
    case "junit":
      return junitReport(reportedRun(result), context);
    case "github":
      return githubSummary(result);
  }
}

/** A result as the reports have it. */
export interface Rendering<F extends string> {
  report(format: F): string;
  json(): string;
  lines(): readonly string[];
  /** The job summary and the annotations of GitHub. */
  github(): { readonly summary: string; readonly annotations: string };
}

export function deliverReports(result: VerifyResult, context: ReportContext, targets: ReportTargets): void {
  const rendering: Rendering<ReportFormat> = {
    report: (format) => reportText(format, result, context),
    json: () => jsonReport(result),
    lines: () => finalLines(result),
    github: () => ({ summary: githubSummary(result), annotations: githubAnnotations(result) }),
  };
  deliver(rendering, targets);
}

/** Files first and flushed to the disk: they are complete if the process is killed next. Then the terminal. */
export function deliver<F extends string>(rendering: Rendering<F>, targets: ReportTargets<F>): void {
  const { reports, output, env, out, err } = targets;
  for (const { format, file } of reports) {
    const text = rendering.report(format);
    if (file === "-") out(text);
    else writeDown(file, text, "w", err);
  }
  const onGithub = env["GITHUB_ACTIONS"] === "true";
  const summary = env["GITHUB_STEP_SUMMARY"] ?? "";
  if (onGithub && summary !== "") writeDown(summary, rendering.github().summary, "a", err);
  const say = claimsOutput(reports) ? err : out;
  if (output === "json") out(rendering.json());
  else
    say(
      rendering
        .lines()
        .map((line) => `${line}\n`)
        .join(""),
    );
  if (onGithub || reports.some(({ format }) => format === "github")) {
    (output === "json" ? err : say)(rendering.github().annotations);
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

/** Reports for GitHub Actions: annotations in the output, and a job summary. */

import type { VerifyResult } from "../decide/verify/verifyResult.ts";
import { secondsText } from "../model/values/duration.ts";
import { countsText } from "./text.ts";

/** GitHub keeps ten annotations of each level per step; the most important ones come first. */
const annotationsMax = 10;

export function githubAnnotations(result: VerifyResult): string {
  const lines: string[] = [];
  if (result.error !== undefined) lines.push(annotation("error", "verify", result.error.class, result.error.message));
  for (const { id, status, message } of result.checks) {
    if (status === "failed") lines.push(annotation("error", "verify", id, message));
  }
  for (const pod of result.unscheduled) {
    lines.push(annotation("error", "verify", "unscheduled", `${pod.namespace}/${pod.name}: ${pod.class}: ${pod.why}`));
  }
  for (const pod of result.failed) {
    lines.push(annotation("error", "verify", "failed", `${pod.namespace}/${pod.name}: ${pod.reason}`));
  }
  const errors = lines.slice(0, annotationsMax);
  const warnings = result.warnings
    .slice(0, annotationsMax)
    .map((text) => annotation("warning", "verify", "warning", text));
  return [...errors, ...warnings].map((line) => `${line}\n`).join("");
}

/** A workflow command of GitHub Actions. */
export function annotation(level: "error" | "warning", command: string, title: string, message: string): string {
  const encoded = (text: string): string => text.replace(/%/g, "%25").replace(/\r/g, "%0D").replace(/\n/g, "%0A");
  const property = encoded(`muster ${command} ${title}`).replace(/:/g, "%3A").replace(/,/g, "%2C");
  return `::${level} title=${property}::${encoded(message)}`;
}

const rowsMax = 50;

/** The job summary in Markdown. */
export function githubSummary(result: VerifyResult): string {
  const { counts, snapshot, verdict } = result;
  const lines = [`## muster verify: ${verdict}`, ""];
  if (result.error !== undefined) lines.push(`**${result.error.class}**: ${cell(result.error.message)}`, "");
  if (counts !== undefined && snapshot !== undefined) {
    const attempts = `attempts ${result.attempts}, waited ${secondsText(result.waitedMs)} s`;
    lines.push(`${countsText(counts)}; revision ${snapshot.resourceVersion}; ${attempts}`, "");
  }
  lines.push("| Check | Result | |", "| --- | --- | --- |");
  for (const { id, title, status, message } of result.checks) {
    lines.push(`| ${id} ${cell(title)} | ${status} | ${cell(message)} |`);
  }
  if (result.unscheduled.length > 0) {
    lines.push("", "| Unscheduled pod | Class | Why |", "| --- | --- | --- |");
    for (const pod of result.unscheduled.slice(0, rowsMax)) {
      lines.push(`| ${cell(`${pod.namespace}/${pod.name}`)} | ${pod.class} | ${cell(pod.why)} |`);
    }
    if (result.unscheduled.length > rowsMax) lines.push(`| and ${result.unscheduled.length - rowsMax} more | | |`);
  }
  if (result.failed.length > 0) {
    lines.push("", "| Failed pod | Reason | Message |", "| --- | --- | --- |");
    for (const pod of result.failed.slice(0, rowsMax)) {
      lines.push(`| ${cell(`${pod.namespace}/${pod.name}`)} | ${cell(pod.reason)} | ${cell(pod.message)} |`);
    }
    if (result.failed.length > rowsMax) lines.push(`| and ${result.failed.length - rowsMax} more | | |`);
  }
  return `${lines.join("\n")}\n`;
}

function cell(text: string): string {
  return text.replace(/\s+/g, " ").replace(/\|/g, "\\|").replace(/</g, "&lt;");
}

/** The text report. Its wording is stable, because scripts search for it. */

import type { PodCounts } from "../decide/verify/podTally.ts";
import type { AttemptLine, FailedPod, UnscheduledPod, VerifyResult } from "../decide/verify/verifyResult.ts";
import { secondsText } from "../model/values/duration.ts";

/** Longer lists are truncated with a note; the JSON report has all items. */
const listedMax = 100;

/** An attempt that was not the last. */
export function attemptText({ attempt, waitedMs, counts, neverTried, why }: AttemptLine, settleMs: number): string {
  const clean = why.replace(/\p{Cc}+/gu, " ");
  const when = `waited=${secondsText(waitedMs)}s, deadline=${secondsText(settleMs)}s`;
  if (counts === undefined) return `[WARN] Attempt ${attempt}: no snapshot (${when}): ${clean}`;
  const tried =
    neverTried === undefined || neverTried === 0 ? "" : `; ${neverTried} without a scheduling attempt in their status`;
  return `[INFO] Attempt ${attempt}: ${countsText(counts)} (${when}${tried}; waiting for ${clean})`;
}

/** The complete report, with the earlier attempts. */
export function textReport(result: VerifyResult): string {
  const lines = result.history.map((line) => attemptText(line, result.config.settleMs));
  return [...lines, ...finalLines(result)].map((line) => `${line}\n`).join("");
}

/**
 * The lines after the last attempt. Control characters are removed, so that no message can break a line or control a
 * terminal.
 */
export function finalLines(result: VerifyResult): string[] {
  return rawLines(result).map((line) => line.replace(/\p{Cc}+/gu, " "));
}

function rawLines(result: VerifyResult): string[] {
  const lines: string[] = [];
  const info = (text: string): void => void lines.push(`[INFO] ${text}`);
  const error = (text: string): void => void lines.push(`[ERROR] ${text}`);
  const { counts, snapshot } = result;
  if (result.error !== undefined || counts === undefined || snapshot === undefined) {
    error(result.error?.message ?? "no snapshot was taken");
    error(`No verdict: ${result.error?.class ?? "unknown"} (${attemptsText(result)}, exit ${result.exitCode})`);
    return lines;
  }
  info(`Pod status: ${countsText(counts)} (${attemptsText(result)})`);
  const revision = snapshot.coherent ? "all kinds at one revision" : "not all kinds at one revision";
  info(`Snapshot: revision ${snapshot.resourceVersion}, taken ${snapshot.takenAt}, ${revision}`);
  info(`Excluded namespaces: ${result.config.excluded.join(", ") || "none"}`);
  const places = Object.entries(result.distribution ?? {});
  if (places.length > 0) info("Pod distribution:");
  for (const [node, pods] of places.slice(0, listedMax)) info(`  ${node}: ${pods} pods`);
  if (places.length > listedMax) info(`  and ${places.length - listedMax} more nodes`);
  if (counts.ignoredJobs > 0) {
    const kind = result.config.ignoreJobs || result.config.compat !== null ? "Job" : "Job hook";
    info(`ignored (${kind}): ${counts.ignoredJobs}: ${cut(result.ignoredJobs)}`);
  }
  if (counts.excusedFailures > 0) {
    info(`failed and replaced: ${counts.excusedFailures}: ${cut(result.excusedFailures)}`);
  }
  for (const { id, status, message } of result.checks) {
    const text = `Check ${id}: ${status}: ${message}`;
    if (status === "failed" || status === "other") error(text);
    else info(text);
  }
  for (const warning of result.warnings) lines.push(`[WARN] ${warning}`);
  if (result.settling.length > 0) block(lines, "[WARN]", "Settling pods:", result.settling, podLines);
  if (result.verdict === "pass") info(passedText(result, counts));
  else lines.push(...failureLines(result));
  return lines;
}

function failureLines(result: VerifyResult): string[] {
  const lines: string[] = [];
  const error = (text: string): void => void lines.push(`[ERROR] ${text}`);
  error(
    result.verdict === "empty" ? "Scheduling validation FAILED: nothing to verify" : "Scheduling validation FAILED",
  );
  const { unscheduled, failed, notRunning } = result;
  if (unscheduled.length > 0) {
    block(lines, "[ERROR]", "Unscheduled pods:", unscheduled, podLines);
    lines.push(...eventLines(result));
  }
  if (failed.length > 0) block(lines, "[ERROR]", "Failed pods:", failed, failedLines);
  if (notRunning.length > 0) block(lines, "[ERROR]", "Bound pods that are not running:", notRunning, (name) => [name]);
  for (const { id, status, details } of result.checks) {
    if (status !== "failed" || id === "S1" || id === "failed-pods" || id === "require-running") continue;
    if (details.length === 0) continue;
    block(lines, "[ERROR]", `Evidence of ${id}:`, details, ({ object, problem }) => [`${object}: ${problem}`]);
  }
  return lines;
}

function eventLines({ unscheduled }: VerifyResult): string[] {
  const lines = ["[ERROR] Events for unscheduled pods (newest first, of these pods only):"];
  for (const pod of unscheduled.slice(0, listedMax)) {
    const name = `${pod.namespace}/${pod.name}`;
    for (const { at, reason, message, count } of pod.events) {
      lines.push(`[ERROR]   ${name}: ${at ?? "at an unknown time"} ${reason} (x${count}): ${oneLine(message)}`);
    }
    if (pod.hasRefusalEvent) continue;
    const why =
      pod.class === "never tried"
        ? "no scheduler has tried the pod"
        : pod.class === "refused"
          ? "see its PodScheduled condition"
          : pod.class;
    lines.push(`[ERROR]   ${name}: no FailedScheduling event: ${why}`);
  }
  const isPrinted = (pod: UnscheduledPod, at: number): boolean => at < listedMax && pod.events.length > 0;
  const older = unscheduled.filter(isPrinted).reduce((sum, pod) => sum + pod.eventsOmitted, 0);
  if (older > 0) lines.push(`[ERROR]   and ${older} older events`);
  const eventsOf = (pod: UnscheduledPod): number => pod.events.length + pod.eventsOmitted;
  const others = unscheduled.filter((pod, at) => !isPrinted(pod, at) && eventsOf(pod) > 0);
  const ofOthers = others.reduce((sum, pod) => sum + eventsOf(pod), 0);
  if (ofOthers > 0) lines.push(`[ERROR]   and ${ofOthers} events of ${others.length} more pods`);
  return lines;
}

function podLines(pod: UnscheduledPod): string[] {
  const requests = Object.entries(pod.requests).map(([name, amount]) => `${name}=${amount}`);
  const more = [
    pod.gang === null ? "" : `, gang ${pod.gang}`,
    pod.claims.length === 0 ? "" : `, claims ${pod.claims.join(" ")}`,
    requests.length === 0 ? "" : `, requests ${requests.join(" ")}`,
  ];
  const why = pod.reasons.length > 0 ? pod.reasons.map((each) => `${each.nodes} ${each.reason}`).join(", ") : pod.why;
  return [
    `${pod.namespace}/${pod.name} ${pod.phase} <none> age ${pod.age}${more.join("")}`,
    `  ${pod.class}: ${oneLine(why)}`,
  ];
}

function failedLines({ namespace, name, node, reason, message, containers }: FailedPod): string[] {
  return [
    `${namespace}/${name} on ${node ?? "<none>"}: ${reason}${message === "" ? "" : `: ${oneLine(message)}`}`,
    ...containers.map((each) => {
      const code = each.exitCode === null ? "" : `, exit code ${each.exitCode}`;
      const text = each.message === "" ? "" : `: ${oneLine(each.message)}`;
      return `  ${each.init ? "init container" : "container"} ${each.name}: ${each.reason || "ended"}${code}${text}`;
    }),
  ];
}

function block<T>(
  lines: string[],
  level: string,
  title: string,
  items: readonly T[],
  show: (item: T) => string[],
): void {
  lines.push(`${level} ${title}`);
  for (const item of items.slice(0, listedMax)) for (const line of show(item)) lines.push(`${level}   ${line}`);
  if (items.length > listedMax) lines.push(`${level}   and ${items.length - listedMax} more`);
}

export function countsText({ total, running, pending, unscheduled, failed }: PodCounts): string {
  return `${total} total, ${running} running, ${pending} pending (${unscheduled} unscheduled), ${failed} failed`;
}

function attemptsText({ attempts, waitedMs }: VerifyResult): string {
  return `attempts=${attempts}, waited=${secondsText(waitedMs)}s`;
}

/** Every pod is in one of these counts. */
function passedText({ checks, config }: VerifyResult, counts: PodCounts): string {
  if (!config.checks.includes("S1")) {
    const skipped = checks.filter(({ status }) => status === "skipped").length;
    const texts = skipped === 0 ? "" : `, ${skipped} of them skipped`;
    return `Scheduling validation PASSED: ${checks.length} checks${texts}`;
  }
  const bound = counts.pending - counts.unscheduled - counts.ignoredJobs;
  const parts = [
    [counts.running, "running"],
    [bound, "bound and starting"],
    [counts.succeeded, "succeeded"],
    [counts.unknown, "of unknown phase"],
    [counts.excusedFailures, "failed and replaced"],
    [counts.ignoredJobs, "ignored"],
    [counts.settling, "settling"],
  ] as const;
  const texts = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  return `Scheduling validation PASSED: all ${counts.total} pods accounted for${texts.length === 0 ? "" : `: ${texts.join(", ")}`}`;
}

function cut(names: readonly string[]): string {
  const shown = names.slice(0, 10).join(", ");
  return names.length > 10 ? `${shown} and ${names.length - 10} more` : shown;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

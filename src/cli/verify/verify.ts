import { readFile } from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { gunzipSync } from "node:zlib";
import { type KubeHttp, kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { guardTarget } from "../../control/verify/guardTarget.ts";
import { firstAnswerMs, runVerify } from "../../control/verify/runVerify.ts";
import type { CheckFinding } from "../../decide/verify/check.ts";
import { judge, type RunProgress, resultOf, resultWithout } from "../../decide/verify/judge.ts";
import { budgetMs, reserveMs } from "../../decide/verify/settling.ts";
import { parseSnapshot } from "../../decide/verify/snapshotFile.ts";
import type { VerifyConfig } from "../../decide/verify/verifyConfig.ts";
import {
  type AttemptLine,
  compatCode,
  exitCodes,
  type VerifyError,
  type VerifyResult,
} from "../../decide/verify/verifyResult.ts";
import { proveGangBarrier } from "../../kubelet/barrier/gangBarrier.ts";
import { UserError } from "../../model/userError.ts";
import { secondsText } from "../../model/values/duration.ts";
import { timeToMs } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Clock } from "../../ports/clock.ts";
import { attemptText } from "../../reports/text.ts";
import { findCluster, isEmbedded } from "../cluster/findCluster.ts";
import { endRun, errorOfRun, errorText, ignoreClosedPipes, isLocal, processOutput, Signals } from "./command.ts";
import { askedFor, claimsOutput, type VerifyFlags, type VerifyRequest } from "./verifyFlags.ts";
import { Progress } from "./verifyProgress.ts";
import { deliverReports } from "./verifyReports.ts";

/** A request that takes longer is cancelled and retried. */
const requestMs = 30_000;

/** `muster verify`. The exit code is the verdict; see docs/verify.md. */
export async function runVerifyCommand(flags: VerifyFlags): Promise<void> {
  ignoreClosedPipes();
  let asked: VerifyRequest;
  try {
    asked = askedFor(flags, process.env);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    process.stderr.write(errorText(error));
    process.exitCode = compatCode(exitCodes.usage, flags.compat);
    return;
  }
  const startedAtMs = Date.now();
  // Signals are handled until the reports are written: a signal must not lose them.
  const signals = new Signals();
  const result = await resultFor(asked, flags, signals);
  const context = {
    startedAtMs: flags.snapshot === undefined ? startedAtMs : takenAtMs(result, startedAtMs),
    endedAtMs: flags.snapshot === undefined ? Date.now() : takenAtMs(result, startedAtMs),
    version: process.env["npm_package_version"] ?? "0.1.0",
  };
  await endRun(result, signals, () =>
    deliverReports(result, context, { reports: asked.reports, output: flags.output, ...processOutput }),
  );
}

/** The time of the report: that of the snapshot, so that a saved snapshot always gives the same report. */
function takenAtMs({ snapshot }: VerifyResult, otherwiseMs: number): number {
  return timeToMs(snapshot?.takenAt) ?? otherwiseMs;
}

async function resultFor(asked: VerifyRequest, flags: VerifyFlags, signals: Signals): Promise<VerifyResult> {
  if (flags.snapshot !== undefined) return ofFile(flags.snapshot, asked.config);
  const config = withBudget(asked, Date.now());
  if ("error" in config) return withoutRun(config.error, asked.config, "");
  let kube: KubeHttp | undefined;
  let cluster = "";
  const clock = systemClock();
  // The settle window begins when the process starts, so it includes the time to load the program.
  const startedMs = 0;
  try {
    const connection = await withTimeout(findCluster(flags), clock, config);
    cluster = connection.server;
    kube = kubeHttp(
      connection,
      { clock, log: pinoLog({ level: "error" }) },
      { fieldManager: "muster-verify", requestMs, gzip: !isLocal(cluster) },
    );
    const progress = new Progress(
      process.stderr,
      config.settleMs,
      flags.output === "text" && process.stdout.isTTY === true,
    );
    const ports = { kube, clock, monotonicMs: () => performance.now() };
    const result = await runVerify(ports, config, {
      cluster,
      startedMs,
      cancel: signals.cancel,
      interrupted: () => signals.interrupted(),
      // With --until, the last snapshot may end after the settle window, but 10 s of the reserve are left for the
      // report.
      ...(asked.untilMs === undefined ? {} : { overrunMs: reserveMs - 10_000 }),
      attempt: (line) => {
        progress.attempt(line);
        const isDocument = flags.output === "json" || claimsOutput(asked.reports);
        printAttempt(line, config, isDocument, progress.isLive);
      },
    });
    progress.end();
    if (!asked.proveBarrier || result.error?.class === "interrupted") return result;
    const proven = withBarrier(result, await proveBarrier({ kube, clock }, flags, signals.cancel), config);
    if (!signals.cancel.cancelled) return proven;
    const { message, exitCode } = signals.interrupted();
    return { ...proven, verdict: "error", exitCode, error: { class: "interrupted", message } };
  } catch (error) {
    return withoutRun(errorOfRun(error, "verify"), config, cluster);
  } finally {
    kube?.close();
  }
}

/** A kubeconfig on a disk that hangs must not delay the run longer than an API server that hangs. */
function withTimeout<T>(reading: Promise<T>, clock: Clock, { settleMs }: VerifyConfig): Promise<T> {
  const patienceMs = Math.max(settleMs, firstAnswerMs);
  let stop = (): void => {};
  const late = new Promise<never>((_, reject) => {
    stop = clock.after(patienceMs, () => {
      const message = `no kubeconfig could be read within ${secondsText(patienceMs)} s`;
      reject(new UserError("kubeconfig-unreadable", message, "check the file and its file system"));
    });
  });
  return Promise.race([reading, late]).finally(stop);
}

async function proveBarrier(
  ports: { kube: KubeHttp; clock: Clock },
  flags: VerifyFlags,
  cancel: Cancel,
): Promise<CheckFinding> {
  const refusal = await guardTarget(ports, {
    isEmbedded: isEmbedded(flags),
    context: flags.context,
    allowedContexts: flags.allowContext ?? [],
  });
  if (refusal !== undefined) return { status: "other", message: refusal, evidence: [] };
  return proveGangBarrier(ports, { id: ports.clock.nowMs().toString(36), cancel });
}

/**
 * Adds the result of `--check gang-barrier`, the check that writes. It changes the verdict only if the other checks
 * passed.
 */
function withBarrier(result: VerifyResult, finding: CheckFinding, config: VerifyConfig): VerifyResult {
  const { status, message, evidence } = finding;
  const title = "a gang waits until all of it fits, and is then bound";
  const check = { id: "gang-barrier", title, status, message, details: evidence } as const;
  const checks = [...result.checks, check];
  if (result.verdict !== "pass" || status === "passed" || status === "skipped") return { ...result, checks };
  if (status === "failed") return { ...result, checks, verdict: "fail", exitCode: exitCodes.failed };
  const exitCode = compatCode(exitCodes.noSnapshot, config.compat);
  return { ...result, checks, verdict: "error", exitCode, error: { class: "refused", message } };
}

/**
 * Prints plain lines when standard output is not a terminal. Failures go to standard error; all lines do when standard
 * output is a document.
 */
function printAttempt(line: AttemptLine, config: VerifyConfig, isDocument: boolean, isLive: boolean): void {
  const text = `${attemptText(line, config.settleMs)}\n`;
  if (line.counts === undefined || isDocument) process.stderr.write(text);
  else if (!isLive) process.stdout.write(text);
}

async function ofFile(file: string, config: VerifyConfig): Promise<VerifyResult> {
  let text: string;
  try {
    const bytes = await readFile(file);
    text = (file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8");
    const snapshot = parseSnapshot(text, file);
    const progress = { cluster: `snapshot ${file}`, attempts: 1, waitedMs: 0, wallMs: 0, history: [] };
    return resultOf(snapshot, judge(snapshot, config), config, progress);
  } catch (error) {
    const why =
      error instanceof UserError
        ? `${error.message} (${error.code})`
        : `cannot read the snapshot ${file}: ${error instanceof Error ? error.message : String(error)}`;
    return withoutRun({ class: "unreadable", message: why }, config, `snapshot ${file}`);
  }
}

function withoutRun(error: VerifyError, config: VerifyConfig, cluster: string): VerifyResult {
  const progress: RunProgress = { cluster, attempts: 0, waitedMs: 0, wallMs: 0, history: [] };
  return resultWithout(error, exitCodes.noSnapshot, config, progress);
}

/** With --until the settle window is shortened, so that time is left for the report. */
function withBudget({ config, untilMs }: VerifyRequest, nowMs: number): VerifyConfig | { error: VerifyError } {
  if (untilMs === undefined) return config;
  const budget = budgetMs(config.settleMs, untilMs, nowMs);
  if (budget.ok) return { ...config, settleMs: budget.budgetMs };
  const left = secondsText(Math.max(0, Math.floor((untilMs - nowMs) / 1000) * 1000));
  const message = `only ${left}s are left until --until, and ${secondsText(reserveMs)}s are reserved for the report: too little time to verify`;
  return { error: { class: "budget", message } };
}

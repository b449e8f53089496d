import { performance } from "node:perf_hooks";
import { type KubeHttp, kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { prometheus } from "../../adapters/prometheus.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { oneSnapshot, runAudit } from "../../control/audit/runAudit.ts";
import { Health } from "../../control/runtime/health.ts";
import type { AuditCheck } from "../../decide/audit/auditCheck.ts";
import { auditLook } from "../../decide/audit/auditLook.ts";
import { type AuditResult, auditResult, auditWithout } from "../../decide/audit/auditResult.ts";
import { auditRole } from "../../decide/audit/auditRole.ts";
import { Persistence } from "../../decide/audit/persistence.ts";
import { exitCodes } from "../../decide/verify/verifyResult.ts";
import { UserError } from "../../model/userError.ts";
import { secondsText } from "../../model/values/duration.ts";
import { timeToMs } from "../../model/values/time.ts";
import { findCluster } from "../cluster/findCluster.ts";
import { type StatusServer, startStatusServer } from "../cluster/statusServer.ts";
import {
  endRun,
  errorOfRun,
  errorText,
  ignoreClosedPipes,
  isLocal,
  processOutput,
  Signals,
} from "../verify/command.ts";
import { claimsOutput } from "../verify/verifyFlags.ts";
import { readSnapshot } from "../views/readCluster.ts";
import { type AuditFlags, type AuditRequest, auditAskedFor } from "./auditFlags.ts";
import { auditMetricWords, countAudit } from "./auditMetrics.ts";
import { deliverAudit } from "./auditReports.ts";
import { WatchedAudit } from "./watchedAudit.ts";

/** A request that takes longer is cancelled and tried again. */
const requestMs = 30_000;
/** How long an API that is busy or unreachable is tried again. */
const retryMs = 60_000;

/** `muster audit`. The exit code is the verdict; see docs/audit.md. */
export async function runAuditCommand(flags: AuditFlags): Promise<void> {
  ignoreClosedPipes();
  let asked: AuditRequest;
  try {
    asked = auditAskedFor(flags);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    process.stderr.write(errorText(error));
    process.exitCode = exitCodes.usage;
    return;
  }
  if (flags.printRole === true) {
    process.stdout.write(auditRole(asked.checks));
    return;
  }
  const startedAtMs = Date.now();
  const signals = new Signals();
  const result = await resultFor(asked, flags, signals);
  const takenAtMs = flags.snapshot === undefined ? undefined : timeToMs(result.snapshot?.takenAt);
  const context = {
    startedAtMs: takenAtMs ?? startedAtMs,
    endedAtMs: takenAtMs ?? Date.now(),
    version: process.env["npm_package_version"] ?? "0.1.0",
  };
  await endRun(result, signals, () => {
    if (flags.watch === true && result.error?.class === "interrupted") return;
    deliverAudit(result, context, { reports: asked.reports, output: flags.output, ...processOutput });
  });
}

async function resultFor(asked: AuditRequest, flags: AuditFlags, signals: Signals): Promise<AuditResult> {
  let kube: KubeHttp | undefined;
  let status: StatusServer | undefined;
  let cluster = flags.snapshot === undefined ? "" : `snapshot ${flags.snapshot.join(", ")}`;
  try {
    if (flags.snapshot !== undefined) return await ofFiles(flags.snapshot, asked.checks, cluster);
    const connection = await findCluster(flags);
    const clock = systemClock();
    cluster = connection.server;
    kube = kubeHttp(
      connection,
      { clock, log: pinoLog({ level: "error" }) },
      { fieldManager: "muster-audit", requestMs, gzip: !isLocal(cluster) },
    );
    const isDocument = flags.output === "json" || claimsOutput(asked.reports);
    const out = isDocument ? process.stderr : process.stdout;
    const watched = new WatchedAudit((text) => void process.stdout.write(text), flags.output);
    const metrics = prometheus({ words: auditMetricWords });
    if (asked.metricsAddress !== undefined) {
      const pages = { health: new Health(), readiness: new Health(), metrics };
      status = await startStatusServer(pages, asked.metricsAddress);
    }
    const watch = (result: AuditResult): void => {
      watched.show(result);
      countAudit(metrics, result, clock.nowMs());
    };
    return await runAudit(
      { kube, clock, monotonicMs: () => performance.now() },
      {
        cluster,
        checks: asked.checks,
        intervalMs: asked.intervalMs,
        retryMs,
        cancel: signals.cancel,
        interrupted: () => signals.interrupted(),
        looked: (text) => void out.write(`[INFO] ${text}\n`),
        ...(asked.settleMs === undefined ? {} : { settleMs: asked.settleMs }),
        ...(flags.watch === true ? { watch } : {}),
      },
    );
  } catch (error) {
    const progress = { cluster, looks: 0, waitedMs: 0, wallMs: 0 };
    return auditWithout(errorOfRun(error, "audit"), progress);
  } finally {
    kube?.close();
    await status?.stop();
  }
}

/** One saved snapshot, or an earlier and a later one: then a finding counts if both have it. */
async function ofFiles(files: readonly string[], checks: readonly AuditCheck[], cluster: string): Promise<AuditResult> {
  const snapshots = await Promise.all(files.map(readSnapshot));
  snapshots.sort((a, b) => a.takenAtMs - b.takenAtMs);
  const [first] = snapshots;
  const last = snapshots.at(-1);
  if (first === undefined || last === undefined) throw new Error("no file was named");
  const persistence = new Persistence();
  let look = auditLook(first, checks);
  persistence.record(look, first.takenAtMs);
  const before = new Set(persistence.findings.map(({ key }) => key));
  if (last !== first) {
    look = auditLook(last, checks);
    persistence.record(look, last.takenAtMs);
  }
  const apartMs = last.takenAtMs - first.takenAtMs;
  const held = persistence.findings.filter(({ key }) => before.has(key));
  const warnings =
    held.length === 0
      ? []
      : warningsOf(
          files.length,
          apartMs,
          held.every(({ persists }) => persists),
        );
  if (!last.coherent) warnings.push(`kinds at another revision: ${last.incoherent.join("; ")}`);
  return auditResult(look, held, { cluster, looks: files.length, waitedMs: apartMs, wallMs: 0 }, warnings);
}

function warningsOf(files: number, apartMs: number, allPersist: boolean): string[] {
  if (files === 1) return [`${oneSnapshot}: pass a later --snapshot as well`];
  if (allPersist) return [];
  return [`the snapshots are ${secondsText(apartMs)} s apart, and some components may need longer than that`];
}

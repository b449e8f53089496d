/**
 * One run of the inventory: takes the lock, runs both phases concurrently, records the result, and stops before its
 * deadline. A phase that fails does not affect the other.
 */
import type { GroupNames } from "../../decide/inventory/assignGroups.ts";
import type { InventorySnapshot } from "../../decide/inventory/inventorySnapshot.ts";
import type { AvailabilityPlan, Read } from "../../decide/inventory/planAvailability.ts";
import type { DiskPlan } from "../../decide/inventory/planDisks.ts";
import type { NodeRules } from "../../decide/inventory/schedulableNode.ts";
import type { CloudIdentity } from "../../model/inventory/cloud.ts";
import type { DriftEvent } from "../../model/inventory/rows.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Cloud, CloudUsage } from "../../ports/cloud.ts";
import type { InventoryDatabase, InventoryReads, InventoryRun, RunKind, RunStatus } from "../../ports/database.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import { boundedDatabase, boundedRun, noAnswer } from "./boundedDatabase.ts";
import { type DiskPhaseRules, diskPhase } from "./diskPhase.ts";
import { gpuPhase } from "./gpuPhase.ts";
import { endedEarly, type PhaseReport, type PhaseResult } from "./phase.ts";

export interface InventoryPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly database: InventoryDatabase;
  /** Undefined without a cloud: availability is then read from the cluster alone, and no disks. */
  readonly cloud: Cloud | undefined;
  readonly cluster: (cancel: Cancel) => Promise<Read<InventorySnapshot>>;
}

export interface InventoryOptions {
  readonly kind: RunKind;
  readonly dryRun: boolean;
  readonly updatedBy: string;
  readonly names: GroupNames;
  readonly nodeRules?: NodeRules;
  readonly disks: DiskPhaseRules;
  /** The maximum duration of the run; it stops by itself some time before. 0: no limit. */
  readonly deadlineMs: number;
  readonly margins?: DeadlineMargins;
  readonly evenIfPaused?: boolean;
  readonly failIfLocked?: boolean;
  readonly cancel?: Cancel;
}

/** How long before its deadline a run stops, and gives up. */
export interface DeadlineMargins {
  /** Starts no new work: the time left to finish a batch. */
  readonly stopMs: number;
  /** Waits for no pending call any more: the time left to record the run. */
  readonly giveUpMs: number;
}

/** The minimum time to record the run, even after a very short deadline. */
const finishMsMin = 2_000;

/** 30 s and 10 s; for a short deadline a quarter of it, and a third of that quarter. */
function marginsOf(deadlineMs: number): DeadlineMargins {
  const stopMs = deadlineMs > 0 ? Math.min(30_000, deadlineMs / 4) : 30_000;
  return { stopMs, giveUpMs: stopMs / 3 };
}

export interface InventoryPlan {
  readonly types: AvailabilityPlan["types"];
  readonly disks: DiskPlan["writes"];
  readonly reports: readonly DriftEvent[];
}

export interface RunReport {
  readonly runId: string | null;
  readonly kind: RunKind;
  readonly dryRun: boolean;
  readonly status: RunStatus;
  readonly exitCode: number;
  readonly startedMs: number;
  readonly durationMs: number;
  readonly phases: { readonly gpu?: PhaseReport; readonly disks?: PhaseReport };
  readonly identity: CloudIdentity | null;
  /** The revision that the cluster was read at. */
  readonly clusterRevision: string | null;
  readonly cloud: CloudUsage;
  readonly error: string;
  readonly plan: InventoryPlan;
}

/** The usage of this run only: the adapter's counters continue from run to run. */
interface RunPorts extends InventoryPorts {
  used(): CloudUsage;
}

export async function runInventory(given: InventoryPorts, options: InventoryOptions): Promise<RunReport> {
  const { clock, log, metrics, cloud } = given;
  const startedMs = clock.nowMs();
  const before = cloud?.usage() ?? noUsage;
  const { deadlineMs } = options;
  const { stopMs, giveUpMs } = options.margins ?? marginsOf(deadlineMs);
  const stop = new CancelSource();
  const giveUp = new CancelSource();
  let forgetGiveUp = (): void => {};
  stop.onCancel(() => {
    forgetGiveUp = clock.after(stopMs - giveUpMs, () => giveUp.cancel());
  });
  const forgetStop = deadlineMs > 0 ? clock.after(Math.max(0, deadlineMs - stopMs), () => stop.cancel()) : () => {};
  const forgetCancel = options.cancel?.onCancel(() => stop.cancel()) ?? (() => {});
  const limits = { stop, giveUp, finishMs: Math.max(finishMsMin, giveUpMs / 3) };
  const statementsUntilMs = startedMs + deadlineMs - giveUpMs;
  const timeLeftMs = (): number | undefined => (deadlineMs > 0 ? statementsUntilMs - clock.nowMs() : undefined);
  const ports: RunPorts = {
    ...given,
    database: boundedDatabase(given.database, giveUp),
    used: () => usedSince(before, cloud?.usage() ?? noUsage),
  };
  try {
    const report = options.dryRun
      ? await reconcile(ports, options, ports.database.look(timeLeftMs), undefined, limits, startedMs)
      : await locked(ports, options, limits, startedMs, timeLeftMs);
    reportRun(report, metrics, log);
    return report;
  } finally {
    forgetStop();
    forgetGiveUp();
    forgetCancel();
  }
}

interface Limits {
  /** Start no new work. */
  readonly stop: Cancel;
  /** Do not wait for pending calls any more. */
  readonly giveUp: Cancel;
  /** How long writing the record, and then releasing the lock, may take. */
  readonly finishMs: number;
}

async function locked(
  ports: RunPorts,
  options: InventoryOptions,
  limits: Limits,
  startedMs: number,
  timeLeftMs: () => number | undefined,
): Promise<RunReport> {
  const { clock, log } = ports;
  const { kind, updatedBy, evenIfPaused = false } = options;
  const begun = await ports.database.begin({ kind, updatedBy, evenIfPaused, timeLeftMs });
  if (!begun.ok) {
    const status = limits.stop.cancelled ? "deadline" : "failed";
    return ended(ports, options, startedMs, status, exitCodes[status], `database: ${begun.why}`);
  }
  const { value } = begun;
  if (value.status === "locked") {
    const code = options.failIfLocked === true ? 4 : 0;
    return ended(ports, options, startedMs, "skipped", code, "another run holds the lock");
  }
  if (value.status === "paused") {
    const why = `the inventory is paused by ${value.by}${value.reason === "" ? "" : `: ${value.reason}`}`;
    return ended(ports, options, startedMs, "skipped", 0, why);
  }
  const { run } = value;
  try {
    const bounded = boundedRun(run, limits.giveUp);
    const report = await reconcile(ports, options, bounded, bounded, limits, startedMs);
    const { status, identity, error, phases } = report;
    const finish = run.finish({
      status,
      ...(identity === null ? {} : { identity, cloudReadMs: startedMs }),
      ...(report.clusterRevision === null ? {} : { clusterRevision: report.clusterRevision }),
      counters: {
        ...(phases.gpu === undefined ? {} : { gpu: { status: phases.gpu.status, ...phases.gpu.counters } }),
        ...(phases.disks === undefined ? {} : { disks: { status: phases.disks.status, ...phases.disks.counters } }),
        aws: report.cloud,
        duration_ms: report.durationMs,
      },
      error,
    });
    const finished = await within(clock, limits, finish);
    const why = finished === undefined ? noAnswer : finished.ok ? undefined : finished.why;
    if (why !== undefined) log.error({ runId: run.runId, why }, "the record of the run was not written");
    return report;
  } finally {
    // A lock whose connection does not answer is released with the connection.
    await within(clock, limits, run.release());
  }
}

/** Undefined when the run has given up and the call takes longer than `finishMs`. Otherwise it is awaited. */
function within<T>(clock: Clock, { giveUp, finishMs }: Limits, call: Promise<T>): Promise<T | undefined> {
  return new Promise((done, fail) => {
    let forgetTimer = (): void => {};
    const forget = giveUp.onCancel(() => {
      forgetTimer = clock.after(finishMs, () => done(undefined));
    });
    call.then(done, fail).finally(() => {
      forget();
      forgetTimer();
    });
  });
}

async function reconcile(
  ports: RunPorts,
  options: InventoryOptions,
  reads: InventoryReads,
  run: InventoryRun | undefined,
  limits: Limits,
  startedMs: number,
): Promise<RunReport> {
  const cancel = limits.stop;
  const { clock, log, cloud } = ports;
  const { kind, names, nodeRules } = options;
  const timed = async <Result extends PhaseResult<unknown>>(phase: Promise<Result>): Promise<Result> => {
    const beganMs = clock.nowMs();
    const result = await phase;
    return { ...result, report: { ...result.report, durationMs: clock.nowMs() - beganMs } };
  };
  let identity: CloudIdentity | null = null;
  const runsGpu = kind !== "disks";
  const runsDisks = kind !== "gpu" && cloud !== undefined;
  const gpuInput = { reads, run, cloud, cluster: ports.cluster, names, cancel, log };
  const gpu = runsGpu ? timed(gpuPhase(nodeRules === undefined ? gpuInput : { ...gpuInput, nodeRules })) : undefined;
  const disks = runsDisks
    ? timed(
        (async (): Promise<PhaseResult<DiskPlan>> => {
          const caller = await cloud.identity({ cancel });
          if (!caller.ok) {
            const isLate = caller.reason === "Cancelled";
            return endedEarly(isLate ? "deadline" : "failed", `cloud: ${caller.why}`, { counters: { errors: 1 } });
          }
          identity = caller.value;
          return diskPhase({ reads, run, cloud, identity: caller.value, rules: options.disks, cancel, log });
        })(),
      )
    : undefined;
  // A phase that was given up continues in the background; its database calls fail.
  const inTime = async <Result>(phase: Promise<Result> | undefined): Promise<Result | undefined> =>
    phase === undefined ? undefined : Promise.race([phase, afterGivingUp(clock, limits)]);
  const [gpuResult, diskResult] = await Promise.all([inTime(gpu), inTime(disks)]);
  const found = [gpuResult?.report, diskResult?.report].filter((report) => report !== undefined);
  if (run !== undefined) {
    for (const [gpuType, ageMs] of Object.entries(gpuResult?.agesMs ?? {})) {
      ports.metrics.gauge("muster_inventory_availability_age_seconds", { gpu_type: gpuType }, ageMs / 1000);
    }
  }
  const worstStatus = worst(found.map((report) => report.status));
  // A failure after `stop` counts as missing the deadline.
  const isLate = limits.stop.cancelled && worstStatus !== "ok" && worstStatus !== "refused";
  const status = limits.giveUp.cancelled || isLate ? "deadline" : worstStatus;
  const problems = found.flatMap((report) => report.problems);
  if (runsGpu && gpuResult === undefined) problems.push("gpu: no answer before the deadline");
  if (runsDisks && diskResult === undefined) problems.push("disks: no answer before the deadline");
  return {
    runId: run?.runId ?? null,
    kind,
    dryRun: options.dryRun,
    status,
    exitCode: exitCodes[status],
    startedMs,
    durationMs: clock.nowMs() - startedMs,
    phases: {
      ...(gpuResult === undefined ? {} : { gpu: gpuResult.report }),
      ...(diskResult === undefined ? {} : { disks: diskResult.report }),
    },
    identity,
    clusterRevision: gpuResult?.clusterRevision ?? null,
    cloud: ports.used(),
    error: problems.join("; "),
    plan: {
      types: gpuResult?.plan?.types ?? [],
      disks: diskResult?.plan?.writes ?? [],
      reports: [...(gpuResult?.plan?.drift ?? []), ...(diskResult?.plan?.reports ?? [])],
    },
  };
}

/** Resolves shortly after giving up: phases that only waited for the database have ended with a report by then. */
function afterGivingUp(clock: Clock, { giveUp, finishMs }: Limits): Promise<undefined> {
  return new Promise((done) => giveUp.onCancel(() => clock.after(finishMs / 10, () => done(undefined))));
}

const noUsage: CloudUsage = { calls: {}, retries: 0, throttles: 0 };

function usedSince(before: CloudUsage, now: CloudUsage): CloudUsage {
  const counts = Object.entries(now.calls).map(([name, count]) => [name, count - (before.calls[name] ?? 0)] as const);
  return {
    calls: Object.fromEntries(counts.filter(([, count]) => count > 0)),
    retries: now.retries - before.retries,
    throttles: now.throttles - before.throttles,
  };
}

const exitCodes: Readonly<Record<RunStatus, number>> = {
  ok: 0,
  skipped: 0,
  failed: 1,
  partial: 2,
  deadline: 3,
  refused: 5,
};

/** Most severe first. */
const severity: readonly RunStatus[] = ["deadline", "refused", "failed", "partial", "ok"];

function worst(statuses: readonly RunStatus[]): RunStatus {
  return severity.find((status) => statuses.includes(status)) ?? "ok";
}

function ended(
  ports: RunPorts,
  options: InventoryOptions,
  startedMs: number,
  status: RunStatus,
  exitCode: number,
  error: string,
): RunReport {
  return {
    runId: null,
    kind: options.kind,
    dryRun: options.dryRun,
    status,
    exitCode,
    startedMs,
    durationMs: ports.clock.nowMs() - startedMs,
    phases: {},
    identity: null,
    clusterRevision: null,
    cloud: ports.used(),
    error,
    plan: { types: [], disks: [], reports: [] },
  };
}

/** Further problems are only in the summary. */
const loggedProblemsMax = 20;

/** Logs the summary and records the metrics of the run. */
function reportRun(report: RunReport, metrics: Metrics, log: Log): void {
  const { status, phases, plan, durationMs, startedMs } = report;
  const { gpu, disks } = phases;
  for (const [phase, found] of Object.entries({ gpu, disks })) {
    for (const problem of found?.problems.slice(0, loggedProblemsMax) ?? [])
      log.error({ phase, problem }, "a phase of the inventory had a problem");
  }
  if (report.dryRun) return;
  metrics.count("muster_inventory_runs_total", { status });
  if (status === "ok") {
    metrics.gauge("muster_inventory_last_success_timestamp_seconds", {}, (startedMs + durationMs) / 1000);
  }
  for (const [phase, found] of Object.entries({ gpu, disks })) {
    if (found === undefined) continue;
    metrics.observe("muster_inventory_phase_seconds", { phase }, found.durationMs / 1000);
    if (found.status !== "ok") metrics.count("muster_inventory_errors_total", { phase, reason: found.status });
  }
  if (gpu !== undefined) {
    metrics.gauge("muster_inventory_types", { state: "active" }, gpu.counters["types_active"] ?? 0);
    metrics.gauge("muster_inventory_types", { state: "fresh" }, gpu.counters["types_fresh"] ?? 0);
    metrics.gauge("muster_inventory_types", { state: "stale" }, gpu.counters["types_stale"] ?? 0);
    for (const { gpuType, numbers } of plan.types) {
      metrics.gauge("muster_inventory_available_gpus", { gpu_type: gpuType }, numbers.availableGpus);
    }
  }
  if (disks !== undefined) {
    for (const [name, value] of Object.entries(disks.counters)) {
      metrics.gauge("muster_inventory_disks", { counter: name }, value);
    }
  }
  for (const { drift } of plan.disks) {
    for (const { field, action } of drift) metrics.count("muster_inventory_drift_total", { field, action });
  }
  const fields = { ...report, plan: undefined };
  // Every status that fails the Job is logged as an error.
  if (status === "partial") log.error(fields, "inventory run PARTIAL");
  else if (status === "ok" || status === "skipped")
    log.info(fields, status === "ok" ? "inventory run SUCCESS" : "inventory run SKIPPED");
  else log.error(fields, "inventory run FAILED");
}

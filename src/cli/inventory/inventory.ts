/** `muster inventory`: runs, their history, and pausing. */
import { userInfo } from "node:os";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { prometheus } from "../../adapters/prometheus.ts";
import { wakeOnChange } from "../../control/inventory/onChange.ts";
import { type RunReport, runInventory } from "../../control/inventory/runInventory.ts";
import { Health } from "../../control/runtime/health.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import type { Answer } from "../../ports/database.ts";
import type { Log } from "../../ports/log.ts";
import type { ClusterFlags } from "../cluster/findCluster.ts";
import { parsePort } from "../cluster/parsePort.ts";
import { startStatusServer } from "../cluster/statusServer.ts";
import { untilSignal } from "../cluster/untilSignal.ts";
import { type DatabaseFlags, openExistingDatabase, openInventory } from "./openInventory.ts";
import { type RunFlags, runOptions, spanOf } from "./settings.ts";
import { driftTable, reportText, runTable } from "./show.ts";

interface Output {
  readonly output: "text" | "json";
}

export interface InventoryRunFlags extends RunFlags, DatabaseFlags, ClusterFlags, Output {
  readonly once?: boolean;
  readonly every?: string;
  readonly onChange?: boolean;
  readonly metricsAddress?: string;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly logFormat?: string;
}

/** Changes come in bursts, so a run starts only after this delay. */
const changeDebounceMs = 2_000;

/** One run or periodic runs. The exit code is that of the last run. */
export async function runInventoryCommand(flags: InventoryRunFlags): Promise<void> {
  const log = pinoLog({ level: flags.logLevel, levelCase: "upper" });
  try {
    await runByFlags(flags, log);
  } catch (error) {
    // This line is for the log; the message for the terminal follows.
    const advice = error instanceof UserError ? { code: error.code, cure: error.cure } : {};
    log.error({ why: error instanceof Error ? error.message : String(error), ...advice }, "inventory run FAILED");
    throw error;
  }
}

async function runByFlags(flags: InventoryRunFlags, log: Log): Promise<void> {
  if ((flags.once === true) === (flags.every !== undefined)) {
    throw new UsageError("inventory-setting-invalid", "pass either --once or --every", "pass --once, or --every 5m");
  }
  const everyMs = flags.every === undefined ? undefined : spanOf("--every", flags.every);
  const options = runOptions(flags, process.env);
  const metrics = prometheus({ onProblem: (problem) => log.warn({ ...problem }, "a metric could not be recorded") });
  const address = flags.metricsAddress ?? process.env["MUSTER_METRICS_ADDRESS"];
  const stop = new CancelSource();
  const world = openInventory(flags, process.env, { log, metrics });
  const status =
    address === undefined || address === ""
      ? undefined
      : await startStatusServer({ health: new Health(), readiness: new Health(), metrics }, listenOn(address));
  const signal = untilSignal().then(() => stop.cancel());
  let wake = (): void => {};
  let stopWatching: (() => void) | undefined;
  /** Set by the first run that found the cluster. */
  const watch = (): void => {
    const kube = world.kube();
    if (flags.onChange !== true || everyMs === undefined || kube === undefined) return;
    stopWatching ??= wakeOnChange({ kube, clock: world.ports.clock }, changeDebounceMs, () => wake());
  };
  try {
    let kind = options.kind;
    for (;;) {
      const report = await runInventory(world.ports, { ...options, kind, cancel: stop });
      say(report, flags.output);
      advise(world.database.failure);
      process.exitCode = report.exitCode;
      watch();
      if (everyMs === undefined || stop.cancelled) break;
      // At multiples of the period, as a CronJob does, so that two processes stay aligned.
      let timer: NodeJS.Timeout | undefined;
      const pause = new Promise<void>((done) => {
        timer = setTimeout(done, everyMs - (Date.now() % everyMs));
      });
      const change = new Promise<"changed">((done) => {
        wake = () => done("changed");
      });
      const woken = await Promise.race([signal, pause, change]);
      clearTimeout(timer);
      if (stop.cancelled) break;
      // Changes in the cluster do not affect disks, so only availability is recounted.
      kind = woken === "changed" && options.kind !== "disks" ? "gpu" : options.kind;
    }
  } finally {
    stopWatching?.();
    await status?.stop();
    await world.close();
  }
}

/** Prints the cure for a database that could not be opened; the report has the cause. */
function advise(failure: Error | undefined): void {
  if (!(failure instanceof UserError)) return;
  process.stderr.write(`muster: ${failure.message} (${failure.code})\n  try: ${failure.cure}\n`);
}

function say(report: RunReport, output: "text" | "json"): void {
  // Only a dry run prints its plan: that of a run may be large, and is in the drift history.
  const { plan: _, ...told } = report;
  const json = (): string => JSON.stringify(report.dryRun ? report : told);
  process.stdout.write(output === "json" ? `${json()}\n` : `${reportText(report)}\n`);
}

function listenOn(address: string): { host: string; port: number } {
  const at = address.lastIndexOf(":");
  return {
    host: address.slice(0, Math.max(0, at)) || "127.0.0.1",
    port: parsePort(address.slice(at + 1), "--metrics-address"),
  };
}

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export async function showRuns(flags: DatabaseFlags & Output & { readonly limit: string }): Promise<void> {
  const { database, close } = await openExistingDatabase(flags, process.env, quiet);
  try {
    const runs = mustAnswer(await database.reader.runs(countOf(flags.limit)));
    const paused = mustAnswer(await database.reader.paused());
    if (flags.output === "json") process.stdout.write(`${JSON.stringify({ paused: paused ?? null, runs })}\n`);
    else {
      if (paused !== undefined) process.stdout.write(`paused by ${paused.by}: ${paused.reason}\n`);
      process.stdout.write(`${runTable(runs, Date.now())}\n`);
    }
  } finally {
    await close();
  }
}

export async function showDrift(
  flags: DatabaseFlags &
    Output & {
      readonly limit: string;
      readonly open?: boolean;
      readonly disk?: string;
      readonly type?: string;
      readonly run?: string;
    },
): Promise<void> {
  const { database, close } = await openExistingDatabase(flags, process.env, quiet);
  try {
    const events = mustAnswer(
      await database.reader.drift({
        limit: countOf(flags.limit),
        open: flags.open ?? false,
        ...(flags.disk === undefined ? {} : { entity: "disk", entityId: flags.disk }),
        ...(flags.type === undefined ? {} : { entity: "gpu_type", entityId: flags.type }),
        ...(flags.run === undefined ? {} : { runId: flags.run }),
      }),
    );
    const shown = flags.output === "json" ? JSON.stringify({ drift: events }) : driftTable(events, Date.now());
    process.stdout.write(`${shown}\n`);
  } finally {
    await close();
  }
}

export async function setPaused(
  paused: boolean,
  flags: DatabaseFlags & Output & { readonly reason?: string },
): Promise<void> {
  const { database, close } = await openExistingDatabase(flags, process.env, quiet);
  try {
    const who = process.env["USER"] || userInfo().username;
    mustAnswer(paused ? await database.reader.pause(who, flags.reason ?? "") : await database.reader.resume(who));
    const text = paused ? "paused: runs are skipped until `muster inventory resume`" : "resumed";
    process.stdout.write(flags.output === "json" ? `${JSON.stringify({ paused })}\n` : `${text}\n`);
  } finally {
    await close();
  }
}

export function countOf(text: string): number {
  const count = Number(text);
  if (/^[0-9]+$/.test(text) && count > 0 && count <= 10_000) return count;
  throw new UsageError(
    "bad-number",
    `--limit ${text} is not an integer from 1 to 10000`,
    "pass an integer in this range",
  );
}

export function mustAnswer<T>(answer: Answer<T>): T {
  if (answer.ok) return answer.value;
  throw new UserError(
    "database-failed",
    `the database query failed: ${answer.why}`,
    "check that the database is running and that this user may read it",
  );
}

/** `muster status`, `muster down` and `muster reset`: the embedded cluster of a data folder. */
import { existsSync } from "node:fs";
import { readdir, rm, rmdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { loadKubeconfig } from "../../adapters/kubernetes/kubeconfig.ts";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { builtin } from "../../model/resources.generated.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { humanDuration } from "../../model/values/humanDuration.ts";
import { mustSucceed } from "./mustSucceed.ts";
import { processOf, type RunningCluster, runningCluster } from "./runningCluster.ts";

export interface LifecycleFlags {
  readonly dataDir: string;
  readonly output: "text" | "json";
}

/** As `pg_ctl status` and `systemctl status` exit when the service is stopped. */
const exitOfStopped = 3;

export async function showStatus(flags: LifecycleFlags): Promise<void> {
  const dataDir = resolve(flags.dataDir);
  const running = runningCluster(dataDir);
  const pid = processOf(dataDir);
  if (running === undefined) {
    const state = pid !== undefined ? "starting" : isCluster(dataDir) ? "stopped" : "none";
    const texts = {
      starting: `starting: process ${pid} has ${dataDir} open\n`,
      stopped: `stopped: ${dataDir} has the data of a cluster; \`muster up\` starts it, \`muster reset\` deletes it\n`,
      none: `there is no cluster in ${dataDir}; \`muster up\` creates one\n`,
    };
    process.stdout.write(flags.output === "json" ? `${JSON.stringify({ state, dataDir })}\n` : texts[state]);
    if (state !== "starting") process.exitCode = exitOfStopped;
    return;
  }
  const counts = await countObjects(running);
  if (flags.output === "json") {
    process.stdout.write(`${JSON.stringify({ state: "running", dataDir, ...running, ...counts })}\n`);
    return;
  }
  const { command, api, kubeconfig, context, startedMs, dashboard } = running;
  const age = humanDuration(systemClock().nowMs() - startedMs);
  process.stdout.write(
    [
      `running: muster ${command}, process ${pid}, for ${age}`,
      `api: ${api}`,
      `kubeconfig: ${kubeconfig} (context ${context})`,
      ...(dashboard === undefined ? [] : [`window: ${dashboard}`]),
      `data: ${dataDir}`,
      `nodes: ${counts.nodes}, ${counts.readyNodes} ready, ${counts.gpus} GPUs`,
      `pods: ${counts.pods}, ${counts.runningPods} running, ${counts.pendingPods} pending`,
      "",
    ].join("\n"),
  );
}

async function countObjects({ kubeconfig, context }: RunningCluster) {
  const connection = await loadKubeconfig({ path: kubeconfig, context });
  const kube = kubeHttp(
    connection,
    { clock: systemClock(), log: pinoLog({ level: "error" }) },
    { fieldManager: "muster" },
  );
  try {
    const nodes = mustSucceed(await kube.list(builtin.Node), "nodes could not be listed").items;
    const pods = mustSucceed(await kube.list(builtin.Pod), "pods could not be listed").items;
    const inPhase = (phase: string): number => pods.filter((pod: Pod) => pod.status?.phase === phase).length;
    return {
      nodes: nodes.length,
      readyNodes: nodes.filter(isReady).length,
      gpus: nodes.reduce((sum, node) => sum + Number(node.status?.allocatable?.["nvidia.com/gpu"] ?? 0), 0),
      pods: pods.length,
      runningPods: inPhase("Running"),
      pendingPods: inPhase("Pending"),
    };
  } finally {
    kube.close();
  }
}

function isReady({ status }: Node): boolean {
  return status?.conditions?.find(({ type }) => type === "Ready")?.status === "True";
}

const stopMs = 30_000;
const pollMs = 50;

/** Stops the process of a data folder, and waits until it has ended. */
export async function stopCluster(flags: LifecycleFlags): Promise<void> {
  const dataDir = resolve(flags.dataDir);
  const pid = processOf(dataDir);
  if (pid !== undefined) await stopProcess(dataDir, pid);
  if (flags.output === "json") process.stdout.write(`${JSON.stringify({ dataDir, stopped: pid ?? null })}\n`);
  else if (pid === undefined) process.stdout.write(`no cluster is running in ${dataDir}\n`);
  else process.stdout.write(`stopped process ${pid}; its data is in ${dataDir}\n`);
}

async function stopProcess(dataDir: string, pid: number): Promise<void> {
  const clock = systemClock();
  try {
    process.kill(pid, "SIGTERM");
  } catch (cause) {
    throw new UserError(
      "cluster-not-stopped",
      `process ${pid} of ${dataDir} cannot be stopped: ${(cause as Error).message}`,
      "stop it as the user that started it",
      { cause },
    );
  }
  const untilMs = clock.nowMs() + stopMs;
  while (processOf(dataDir) === pid) {
    if (clock.nowMs() > untilMs) {
      throw new UserError(
        "cluster-not-stopped",
        `process ${pid} of ${dataDir} has not ended within ${stopMs / 1000} s`,
        `look at what it does, or end it with kill -9 ${pid}: acknowledged writes are kept`,
      );
    }
    await new Promise<void>((done) => clock.after(pollMs, done));
  }
}

/** Everything that Muster writes into a data folder. */
const ownNames = [
  "apiserver",
  "pki",
  "kubeconfig",
  "running.json",
  "up.log",
  "postgres",
  "cloud.json",
  "inventory-token",
];

/** Deletes the data of a stopped cluster; files of other programs in the folder stay. */
export async function resetCluster(flags: LifecycleFlags & { readonly yes?: boolean }): Promise<void> {
  const dataDir = resolve(flags.dataDir);
  const pid = processOf(dataDir);
  if (pid !== undefined) {
    throw new UserError(
      "cluster-running",
      `the cluster of ${dataDir} is running (process ${pid}); nothing was deleted`,
      "stop it with `muster down` first",
    );
  }
  const names = existsSync(dataDir) ? (await readdir(dataDir)).filter((name) => ownNames.includes(name)) : [];
  if (names.length === 0 || !isCluster(dataDir)) {
    process.stdout.write(
      flags.output === "json"
        ? `${JSON.stringify({ dataDir, deleted: [], kept: [] })}\n`
        : `there is no cluster in ${dataDir}\n`,
    );
    return;
  }
  if (flags.yes !== true && !(await isConfirmed(dataDir))) {
    process.stdout.write("nothing was deleted\n");
    return;
  }
  for (const name of names) await rm(join(dataDir, name), { recursive: true, force: true });
  const kept = await readdir(dataDir);
  if (kept.length === 0) await rmdir(dataDir);
  if (flags.output === "json") process.stdout.write(`${JSON.stringify({ dataDir, deleted: names, kept })}\n`);
  else if (kept.length === 0) process.stdout.write(`deleted ${dataDir}\n`);
  else process.stdout.write(`deleted the cluster of ${dataDir}; other files were kept: ${kept.join(", ")}\n`);
}

async function isConfirmed(dataDir: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    throw new UsageError(
      "confirmation-missing",
      `all objects, keys and databases of ${dataDir} would be deleted; nothing was deleted`,
      "pass --yes to delete them",
    );
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test(
      (await terminal.question(`delete all objects, keys and databases of ${dataDir}? [y/N] `)).trim(),
    );
  } finally {
    terminal.close();
  }
}

function isCluster(dataDir: string): boolean {
  return existsSync(join(dataDir, "apiserver")) || existsSync(join(dataDir, "pki"));
}

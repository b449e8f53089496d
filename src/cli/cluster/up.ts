import { yieldingKube } from "../../adapters/kubernetes/yieldingKube.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { prometheus } from "../../adapters/prometheus.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { controlPlane, usualComponents } from "../../control/assembly/controlPlane.ts";
import { ensureLocalStorage } from "../../control/assembly/ensureLocalStorage.ts";
import { ensureDefinitions, ensureStartObjects } from "../../control/assembly/ensureObjects.ts";
import { DeviceCaches } from "../../control/devices/deviceCaches.ts";
import type { Component } from "../../control/runtime/component.ts";
import { Controllers } from "../../control/runtime/controllers.ts";
import { LiveCluster } from "../../control/window/liveCluster.ts";
import { nodesComponent } from "../../kubelet/run/nodesComponent.ts";
import type { Outcome } from "../../model/outcome.ts";
import { parsePools, profilesWith } from "../../model/profiles/profiles.ts";
import { UsageError } from "../../model/userError.ts";
import type { WindowServer } from "../../window/startWindow.ts";
import { demoFolder } from "../demo/demoFolder.ts";
import type { InventoryDemo, InventoryDemoOptions } from "../inventory/demo.ts";
import { serveWindow, type WindowFlags, whyAnswer, windowListen } from "../window/serveWindow.ts";
import { applyManifests } from "./applyManifests.ts";
import { withKaiConfig } from "./binderSettings.ts";
import { type ControlPlaneFlags, controlPlaneOptions } from "./controlPlaneFlags.ts";
import { startDetached } from "./detach.ts";
import { type EmbeddedServerFlags, startEmbeddedServer } from "./embeddedServer.ts";
import { hostAndPort } from "./hostAndPort.ts";
import { metricWords } from "./metricWords.ts";
import { readProfiles } from "./readProfiles.ts";
import { resizePools } from "./resizePools.ts";
import { forgetRunning, recordRunning } from "./runningCluster.ts";
import { type StatusServer, startStatusServer } from "./statusServer.ts";
import { untilSignal } from "./untilSignal.ts";

export interface UpFlags extends EmbeddedServerFlags, ControlPlaneFlags, WindowFlags {
  /** `profile=count` or `name:profile=count`. */
  readonly pool: readonly string[] & { readonly isGiven?: boolean };
  readonly profileFile: readonly string[];
  readonly demo?: boolean;
  /** Run in the background. */
  readonly detach?: boolean;
  /** The address of health, metrics and the devices page; not served if undefined. */
  readonly statusAddress?: string;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly output: "text" | "json";
}

/**
 * A whole cluster in one process: API server, simulated nodes, all controllers. Runs until a signal; the data folder
 * is kept.
 */
export async function runUp(flags: UpFlags): Promise<void> {
  if (flags.detach === true) return runDetached(flags);
  const clock = systemClock();
  const random = systemRandom();
  const log = pinoLog({ level: flags.logLevel });
  const metrics = prometheus({
    words: metricWords,
    onProblem: (problem) => log.warn({ ...problem }, "a metric could not be recorded"),
  });
  const profiles = profilesWith(await readProfiles(flags.profileFile));
  // Read when the component is added: by then it is known which nodes the data folder has.
  const pools = [...parsePools(flags.pool, profiles)];
  const nodes = nodesComponent({ pools, profiles, taintBesideReal: true });
  const options = await controlPlaneOptions(flags, {
    placesPlainPods: true,
    formsPlainGangs: true,
    hasSimulatedNodes: true,
  });
  // For the definitions and admission hooks, which the API server needs at its start. The components that run are
  // created again below: the binder's settings are in an object of that server, and no definition or hook depends on
  // them.
  const known: Component[] = [...usualComponents(controlPlane(options)), nodes.component];
  const hasWindow = flags.dashboard !== false;
  // A server on any port is one of many: its window takes any port as well.
  const windowFlags: WindowFlags = {
    ...flags,
    ...(flags.port === "0" && flags.dashboardPort === undefined && { dashboardPort: "0" }),
  };
  if (hasWindow) windowListen(windowFlags);
  const listen = flags.statusAddress === undefined ? undefined : hostAndPort(flags.statusAddress, "--status-address");
  const hooks = known.flatMap((component) => component.hooks ?? []);
  const embedded = await startEmbeddedServer(flags, { clock, random }, { hooks, agent: nodes.agent });
  const { server, kubeconfig, context, dataDir } = embedded;
  const { core } = server;
  server.metrics.append(async () => {
    controllers.measure();
    return metrics.text();
  });
  server.faults.setPressure(nodes.pressure, random);
  const kube = yieldingKube(inProcessKube(core, { user: controllerUser, fieldManager: "muster" }));
  const controllers = new Controllers({ kube, clock, random, log, metrics }, { fieldManager: "muster" });
  let problem: unknown;
  let status: StatusServer | undefined;
  let page: WindowServer | undefined;
  let inventory: Promise<InventoryDemo | undefined> = Promise.resolve(undefined);
  const stopping = new AbortController();
  try {
    if (listen !== undefined) {
      const { health, readiness } = controllers;
      const devices = () => controllers.known(DeviceCaches)?.describe();
      status = await startStatusServer({ health, readiness, metrics, devices }, listen);
    }
    const resized = await resizePools(kube, pools, flags.pool.isGiven === true);
    pools.splice(0, pools.length, ...resized.pools);
    if (resized.removed.length > 0)
      log.warn({ nodes: resized.removed }, "--pool does not include these nodes: they were deleted");
    mustSucceed(await ensureDefinitions({ kube, clock }, known));
    const running = [...usualComponents(controlPlane(await withKaiConfig(options, kube))), nodes.component];
    mustSucceed(await ensureStartObjects(kube, running));
    mustSucceed(await ensureLocalStorage(kube));
    for (const component of running) component.add(controllers);
    const signal = untilSignal();
    const started = await Promise.race([controllers.start(), signal, embedded.diskFailure]);
    if (started === true) {
      if (hasWindow) {
        const source = new LiveCluster(controllers);
        const isDemo = flags.demo === true;
        const questions = { why: (name: string) => whyAnswer(source, name) };
        const content = { source, clock, questions, actions: {}, isDemo, mode: "embedded" } as const;
        page = await serveWindow(windowFlags, content);
      }
      if (flags.demo === true) await applyManifests(kube, core.registry, demoFolder);
      if (flags.memory !== true) {
        const startedMs = clock.nowMs();
        const { url: api } = server;
        const shown = { pid: process.pid, command: "up", api, kubeconfig, context, startedMs } as const;
        await recordRunning(dataDir, { ...shown, ...(page !== undefined && { dashboard: page.url }) });
      }
      sayReady(flags, { api: server.url, kubeconfig, context, status: status?.url, dashboard: page?.url });
      // Not awaited: the cluster is usable before the database has started.
      if (flags.demo === true) {
        inventory = demoInventory({ dataDir, kube, clock, random, log, metrics, signal: stopping.signal });
      }
      problem = await Promise.race([signal, embedded.diskFailure]);
    } else problem = started;
  } finally {
    stopping.abort();
    await page?.stop();
    await (await inventory)?.stop();
    await controllers.stop();
    await status?.stop();
    await forgetRunning(dataDir);
    await embedded.stop().catch(() => {});
  }
  if (problem instanceof Error) throw problem;
  if (flags.output === "text") {
    const kept = `the data is in ${dataDir}; \`muster up\` continues, \`muster reset\` deletes it`;
    process.stdout.write(`stopped: ${flags.memory === true ? "nothing was kept" : kept}\n`);
  }
}

async function runDetached(flags: UpFlags): Promise<void> {
  if (flags.memory === true) {
    throw new UsageError("flags-conflict", "--detach and --memory exclude each other", "pass one of them");
  }
  const args = process.argv.slice(2).filter((arg) => arg !== "--detach" && arg !== "-d");
  const running = await startDetached(flags.dataDir, args);
  const { api, kubeconfig, context, pid, log, dashboard } = running;
  if (flags.output === "json") {
    process.stdout.write(
      `${JSON.stringify({ ready: true, api, kubeconfig, context, dashboard: dashboard ?? null, pid, log })}\n`,
    );
    return;
  }
  sayReady(flags, { api, kubeconfig, context, status: undefined, dashboard });
  process.stdout.write(`process ${pid}, log ${log}; \`muster status\` shows it, \`muster down\` stops it\n`);
}

/** The simulated cloud and the database. Where PostgreSQL is not available, the demo runs without them. */
async function demoInventory(options: InventoryDemoOptions): Promise<InventoryDemo | undefined> {
  try {
    return await (await import("../inventory/demo.ts")).startInventoryDemo(options);
  } catch (error) {
    if (options.signal?.aborted !== true)
      options.log.warn({ error }, "the demo runs without the inventory, because it could not be started");
    return undefined;
  }
}

/** The user of the cluster's own controllers, which have all permissions. */
const controllerUser = { username: "system:muster", groups: ["system:masters", "system:authenticated"] };

function mustSucceed(outcome: Outcome<unknown>): void {
  if (!outcome.ok) throw new Error(`${outcome.reason}: ${outcome.message}`);
}

interface Ready {
  readonly api: string;
  readonly kubeconfig: string;
  readonly context: string;
  readonly status: string | undefined;
  readonly dashboard: string | undefined;
}

function sayReady(flags: UpFlags, { api, kubeconfig, context, status, dashboard }: Ready): void {
  if (flags.output === "json") {
    const shown = { ready: true, api, kubeconfig, context, dashboard: dashboard ?? null };
    process.stdout.write(`${JSON.stringify({ ...shown, ...(status !== undefined && { status }) })}\n`);
    return;
  }
  const more = status === undefined ? "" : `, status ${status}`;
  const which = flags.kubeconfig === undefined ? "" : ` (context ${context})`;
  process.stdout.write(`ready: api ${api}, kubeconfig ${kubeconfig}${which}${more}\n`);
  if (dashboard !== undefined) process.stdout.write(`window: ${dashboard}\n`);
  process.stdout.write(`try: kubectl --kubeconfig ${kubeconfig} get nodes\n`);
}

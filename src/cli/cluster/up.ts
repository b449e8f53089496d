import { yieldingKube } from "../../adapters/kubernetes/yieldingKube.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { prometheus } from "../../adapters/prometheus.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { inProcessKube } from "../../apiserver/kubeApi.ts";
import { controlPlane, usualComponents } from "../../control/assembly/controlPlane.ts";
import { ensureDefinitions, ensureStartObjects } from "../../control/assembly/ensureObjects.ts";
import { DeviceCaches } from "../../control/devices/deviceCaches.ts";
import type { Component } from "../../control/runtime/component.ts";
import { Controllers } from "../../control/runtime/controllers.ts";
import { nodesComponent } from "../../kubelet/run/nodesComponent.ts";
import type { Outcome } from "../../model/outcome.ts";
import { parsePools, profilesWith } from "../../model/profiles/profiles.ts";
import { demoFolder } from "../demo/demoFolder.ts";
import type { InventoryDemo, InventoryDemoOptions } from "../inventory/demo.ts";
import { applyManifests } from "./applyManifests.ts";
import { withKaiConfig } from "./binderSettings.ts";
import { type ControlPlaneFlags, controlPlaneOptions } from "./controlPlaneFlags.ts";
import { type EmbeddedServerFlags, startEmbeddedServer } from "./embeddedServer.ts";
import { hostAndPort } from "./hostAndPort.ts";
import { metricWords } from "./metricWords.ts";
import { readProfiles } from "./readProfiles.ts";
import { type StatusServer, startStatusServer } from "./statusServer.ts";
import { untilSignal } from "./untilSignal.ts";

export interface UpFlags extends EmbeddedServerFlags, ControlPlaneFlags {
  /** `profile=count` or `name:profile=count`. */
  readonly pool: readonly string[];
  readonly profileFile: readonly string[];
  readonly demo?: boolean;
  /** Where health, metrics and what is known of devices are served; nowhere unless given. */
  readonly statusAddress?: string;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly output: "text" | "json";
}

/**
 * Everything in one process: API server, simulated nodes, all controllers. Runs until a signal; the data folder
 * survives.
 */
export async function runUp(flags: UpFlags): Promise<void> {
  const clock = systemClock();
  const random = systemRandom();
  const log = pinoLog({ level: flags.logLevel });
  const metrics = prometheus({
    words: metricWords,
    onProblem: (problem) => log.warn({ ...problem }, "a metric cannot be counted"),
  });
  const profiles = profilesWith(await readProfiles(flags.profileFile));
  const pools = parsePools(flags.pool, profiles);
  const nodes = nodesComponent({ pools, profiles });
  const options = await controlPlaneOptions(flags, {
    placesPlainPods: true,
    formsPlainGangs: true,
    hasSimulatedNodes: true,
  });
  const known: Component[] = [...usualComponents(controlPlane(options)), nodes.component];
  const listen = flags.statusAddress === undefined ? undefined : hostAndPort(flags.statusAddress, "--status-address");
  const hooks = known.flatMap((component) => component.hooks ?? []);
  const embedded = await startEmbeddedServer(flags, { clock, random }, { hooks, agent: nodes.agent });
  const { server, kubeconfig } = embedded;
  const { core } = server;
  server.faults.setPressure(nodes.pressure, random);
  const kube = yieldingKube(inProcessKube(core, { user: controllerUser, fieldManager: "muster" }));
  const controllers = new Controllers({ kube, clock, random, log, metrics }, { fieldManager: "muster" });
  let problem: unknown;
  let status: StatusServer | undefined;
  let inventory: Promise<InventoryDemo | undefined> = Promise.resolve(undefined);
  const stopping = new AbortController();
  try {
    if (listen !== undefined) {
      const { health, readiness } = controllers;
      const devices = () => controllers.known(DeviceCaches)?.describe();
      status = await startStatusServer({ health, readiness, metrics, devices }, listen);
    }
    mustSucceed(await ensureDefinitions({ kube, clock }, known));
    const running = [...usualComponents(controlPlane(await withKaiConfig(options, kube))), nodes.component];
    mustSucceed(await ensureStartObjects(kube, running));
    for (const component of running) component.add(controllers);
    const signal = untilSignal();
    const started = await Promise.race([controllers.start(), signal, embedded.diskFailure]);
    if (started === true) {
      if (flags.demo === true) await applyManifests(kube, core.registry, demoFolder);
      sayReady(flags.output, { api: server.url, kubeconfig, status: status?.url });
      // Not awaited: the cluster is ready without the database.
      if (flags.demo === true) {
        const { dataDir } = flags;
        inventory = demoInventory({ dataDir, kube, clock, random, log, metrics, signal: stopping.signal });
      }
      problem = await Promise.race([signal, embedded.diskFailure]);
    } else problem = started;
  } finally {
    stopping.abort();
    await (await inventory)?.stop();
    await controllers.stop();
    await status?.stop();
    await embedded.stop().catch(() => {});
  }
  if (problem instanceof Error) throw problem;
}

/** A stand-in cloud and a database; a machine without PostgreSQL for it has a demo without them. */
async function demoInventory(options: InventoryDemoOptions): Promise<InventoryDemo | undefined> {
  try {
    return await (await import("../inventory/demo.ts")).startInventoryDemo(options);
  } catch (error) {
    if (options.signal?.aborted !== true) options.log.warn({ error }, "the demo has no inventory");
    return undefined;
  }
}

/** The controllers of the cluster itself: they may do everything. */
const controllerUser = { username: "system:muster", groups: ["system:masters", "system:authenticated"] };

function mustSucceed(outcome: Outcome<undefined>): void {
  if (!outcome.ok) throw new Error(`${outcome.reason}: ${outcome.message}`);
}

function sayReady(
  output: "text" | "json",
  { api, kubeconfig, status }: { api: string; kubeconfig: string; status: string | undefined },
): void {
  if (output === "json") {
    const shown = { ready: true, api, kubeconfig, dashboard: null, ...(status !== undefined && { status }) };
    process.stdout.write(`${JSON.stringify(shown)}\n`);
    return;
  }
  const more = status === undefined ? "" : `, status ${status}`;
  process.stdout.write(`ready: api ${api}, kubeconfig ${kubeconfig}${more}\n`);
  process.stdout.write(`try: kubectl --kubeconfig ${kubeconfig} get nodes\n`);
}

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { RequestBook } from "../../adapters/kubeHttp/requestBook.ts";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { prometheus } from "../../adapters/prometheus.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import {
  type ControlPlaneOptions,
  componentsNamed,
  controlPlane,
  usualComponents,
} from "../../control/assembly/controlPlane.ts";
import { ensureDefinitions, ensureStartObjects, missingDefinitions } from "../../control/assembly/ensureObjects.ts";
import { DeviceCaches } from "../../control/devices/deviceCaches.ts";
import { servedDevices } from "../../control/devices/servedDevices.ts";
import type { Component } from "../../control/runtime/component.ts";
import { Controllers } from "../../control/runtime/controllers.ts";
import { LiveCluster } from "../../control/window/liveCluster.ts";
import { leanPod } from "../../decide/schedule/cluster/leanPod.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isPermanent } from "../../model/outcome.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { WindowServer } from "../../window/startWindow.ts";
import { reachedBy, type WebhookFlags, Webhooks } from "../webhooks/webhooks.ts";
import { serveWindow, type WindowFlags, whyAnswer, windowListen } from "../window/serveWindow.ts";
import { withKaiConfig } from "./binderSettings.ts";
import { type ControlPlaneFlags, controlPlaneOptions } from "./controlPlaneFlags.ts";
import { type ClusterFlags, chosenUp, findCluster } from "./findCluster.ts";
import { hostAndPort } from "./hostAndPort.ts";
import { type LeaseTimeFlags, leaseTimes } from "./leaseTimes.ts";
import { metricWords } from "./metricWords.ts";
import { mustSucceed } from "./mustSucceed.ts";
import { startStatusServer } from "./statusServer.ts";
import { untilSignal } from "./untilSignal.ts";

export interface RunFlags extends ClusterFlags, WebhookFlags, ControlPlaneFlags, WindowFlags, LeaseTimeFlags {
  readonly controllers?: string;
  readonly install?: boolean;
  /** The chart or `muster install` made definitions, rights and webhook configurations. */
  readonly installed?: boolean;
  readonly defaultScheduler?: boolean;
  readonly leaderElect?: boolean;
  readonly leaseNamespace: string;
  readonly leaseName: string;
  readonly identity?: string;
  readonly statusAddress: string;
  readonly webhookAddress: string;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly output: "text" | "json";
}

/** Runs controllers against any cluster until a signal. */
export async function runControllers(flags: RunFlags): Promise<void> {
  const options = await controlPlaneOptions(flags, {
    // The cluster has a scheduler for plain pods. A second one that is unaware of it would overcommit the same nodes.
    placesPlainPods: flags.defaultScheduler === true,
    formsPlainGangs: false,
    hasSimulatedNodes: false,
  });
  const named = chosenComponents(flags, options);
  const hasWindow = flags.dashboardPort !== undefined;
  if (hasWindow) checkWindow(flags, named);
  const listen = hostAndPort(flags.statusAddress, "--status-address");
  const webhookListen = hostAndPort(flags.webhookAddress, "--webhook-address");
  const reached = reachedBy(flags);
  const times = leaseTimes(flags);
  const clock = systemClock();
  const random = systemRandom();
  const log = pinoLog({ level: flags.logLevel });
  const metrics = prometheus({
    words: metricWords,
    onProblem: (problem) => log.warn({ ...problem }, "a metric could not be recorded"),
  });
  refuseBesideUp(flags);
  const connection = await findCluster(flags);
  const fieldManager = "muster";
  const requests = new RequestBook({ clock, log, metrics });
  const http = kubeHttp(connection, { clock, log, requests }, { fieldManager });
  const kube = servedDevices(http);
  const hasBinder = named.some(({ name }) => name === "binder");
  const settled = hasBinder ? await withKaiConfig(options, kube).catch(closing(http)) : options;
  const chosen = chosenComponents(flags, settled);
  // Lease renewals have their own connections: they must not queue behind the writes that the lease permits.
  const leaseKube = kubeHttp(connection, { clock, log, requests }, { fieldManager, requestMs: 5_000 });
  const identity = flags.identity ?? `${hostname()}_${randomUUID().slice(0, 8)}`;
  const lease =
    flags.leaderElect === true
      ? { namespace: flags.leaseNamespace, name: flags.leaseName, identity, times, kube: leaseKube }
      : undefined;
  const controllers = new Controllers(
    { kube, clock, random, log, metrics },
    { fieldManager, transforms: { "/pods": leanObject }, ...(lease === undefined ? {} : { lease }) },
  );
  controllers.readiness.add("apiserver", () => requests.outage);
  controllers.readiness.add("rights", () => requests.missingRights);
  const status = await startStatusServer(
    {
      health: controllers.health,
      readiness: controllers.readiness,
      metrics: {
        contentType: metrics.contentType,
        text: () => {
          controllers.measure();
          return metrics.text();
        },
      },
      devices: () => controllers.known(DeviceCaches)?.describe(),
    },
    listen,
  );
  const namespace = flags.leaseNamespace;
  const webhooks =
    reached &&
    new Webhooks({ kube, clock, random, log }, controllers, {
      ...{ components: chosen, reached, namespace, folder: flags.webhookCertDir },
      isInstalled: flags.installed === true,
    });
  let page: WindowServer | undefined;
  const closeAll = async (): Promise<void> => {
    await page?.stop();
    await webhooks?.stop();
    await controllers.stop();
    http.close();
    leaseKube.close();
    await status.stop();
  };
  try {
    await requireDefinitions({ kube, clock, log }, chosen, flags.install === true);
    for (const component of chosen) component.add(controllers);
    const signal = untilSignal();
    const ended = signal.then(() => true as const);
    const prepare = async (): Promise<void> => {
      // Webhook configurations of an earlier process reject the writes that they cover until this process serves them.
      if (webhooks !== undefined) await webhooks.start(webhookListen);
      else if (chosen.some(({ hooks = [] }) => hooks.length > 0)) {
        log.warn({}, "admission webhooks are not served: pass --webhook-service or --webhook-host");
      }
      if (flags.install === true || flags.installed === true)
        await makeStartObjects({ kube, clock, log }, chosen, ended);
    };
    const started = await Promise.race([controllers.start(prepare), signal]);
    if (started === true) {
      if (hasWindow) {
        const source = new LiveCluster(controllers);
        const questions = { why: (name: string) => whyAnswer(source, name) };
        page = await serveWindow(flags, { source, clock, questions, actions: {}, isDemo: false, mode: "attached" });
      }
      sayReady(flags, { server: connection.server, status: status.url, chosen, dashboard: page?.url });
      await signal;
    }
  } finally {
    await closeAll();
  }
}

/** `muster up` has its own scheduler: a second one would decide about the same nodes without knowing of the first. */
function refuseBesideUp(flags: RunFlags): void {
  const up = chosenUp(flags);
  if (up === undefined) return;
  const problem = `\`muster up\` (process ${up.pid}) already runs the scheduler and all other controllers of this cluster`;
  if (flags.controllers !== undefined) {
    process.stderr.write(`muster: ${problem}; ${flags.controllers} will run twice\n`);
    return;
  }
  throw new UserError(
    "controllers-running",
    problem,
    "use the cluster as it is; or stop it and start `muster apiserver`, which has no controllers; or choose another cluster with --kubeconfig",
  );
}

/** Caches keep only the fields of a pod that controllers read: pods are most of a cache's memory. */
function leanObject(object: Pod): KubeObject {
  return leanPod(object);
}

function chosenComponents({ controllers: names }: RunFlags, options: ControlPlaneOptions): Component[] {
  const plane = controlPlane(options);
  const known = usualComponents(plane);
  if (names === undefined) return known.filter(({ isProvidedByCluster }) => isProvidedByCluster !== true);
  const wanted = names.split(",").map((name) => name.trim());
  return componentsNamed(
    wanted.filter((name) => name !== ""),
    [...known, plane.scaleAdjuster],
  );
}

/** Closes the connection before the error is thrown. */
function closing(http: { close(): void }): (error: unknown) => never {
  return (error) => {
    http.close();
    throw error;
  };
}

async function requireDefinitions(
  ports: Parameters<typeof ensureDefinitions>[0] & { readonly log: Log },
  chosen: readonly Component[],
  install: boolean,
): Promise<void> {
  if (install) {
    const { left } = mustSucceed(await ensureDefinitions(ports, chosen), "the definitions could not be installed");
    if (left.length > 0)
      ports.log.info({ definitions: left }, "definitions that another program installed are used unchanged");
    return;
  }
  const missing = mustSucceed(await missingDefinitions(ports.kube, chosen), "the cluster could not be queried");
  if (missing.length === 0) return;
  throw new UserError(
    "definitions-missing",
    `the cluster lacks these CRDs: ${missing.join(", ")}`,
    "pass --install to create them, or exclude the controllers that need them with --controllers",
  );
}

const tryAgainMs = 1_000;

/**
 * The API server may take a while to observe a webhook configuration, and reaches a Service only when its pod is ready:
 * until then creates may fail. Only a permanent error ends the start.
 */
async function makeStartObjects(
  { kube, clock, log }: { kube: KubeApi; clock: Clock; log: Log },
  chosen: readonly Component[],
  ended: Promise<true>,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const outcome = await ensureStartObjects(kube, chosen);
    if (outcome.ok || isPermanent(outcome)) {
      mustSucceed(outcome, "the initial objects of the controllers could not be created");
      return;
    }
    const { message: why } = outcome;
    if (attempt % 10 === 1)
      log.warn({ why, attempt }, "the initial objects of the controllers could not be created yet");
    const again = new Promise<false>((resolve) => clock.after(tryAgainMs, () => resolve(false)));
    if (await Promise.race([again, ended])) return;
  }
}

/** The window reads the scheduler's own model of the cluster. */
function checkWindow(flags: WindowFlags, named: readonly Component[]): void {
  windowListen(flags);
  if (named.some(({ name }) => name === "scheduler")) return;
  throw new UsageError(
    "dashboard-needs-scheduler",
    "--dashboard-port needs the scheduler, and --controllers leaves it out",
    "add scheduler to --controllers, or leave out --dashboard-port",
  );
}

interface Ready {
  readonly server: string;
  readonly status: string;
  readonly chosen: readonly Component[];
  readonly dashboard: string | undefined;
}

function sayReady(flags: RunFlags, about: Ready): void {
  const names = about.chosen.map(({ name }) => name);
  if (flags.output === "json") {
    const shown = { ready: true, api: about.server, status: about.status, controllers: names };
    const dashboard = about.dashboard === undefined ? {} : { dashboard: about.dashboard };
    process.stdout.write(`${JSON.stringify({ ...shown, ...dashboard })}\n`);
    return;
  }
  process.stdout.write(`ready: ${names.join(", ")} on ${about.server}, status ${about.status}\n`);
  if (about.dashboard !== undefined) process.stdout.write(`window: ${about.dashboard}\n`);
}

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
import { leanPod } from "../../decide/schedule/cluster/leanPod.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isForGood } from "../../model/outcome.ts";
import { UserError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import { reachedBy, type WebhookFlags, Webhooks } from "../webhooks/webhooks.ts";
import { withKaiConfig } from "./binderSettings.ts";
import { type ControlPlaneFlags, controlPlaneOptions } from "./controlPlaneFlags.ts";
import { type ClusterFlags, findCluster } from "./findCluster.ts";
import { hostAndPort } from "./hostAndPort.ts";
import { metricWords } from "./metricWords.ts";
import { mustSucceed } from "./mustSucceed.ts";
import { startStatusServer } from "./statusServer.ts";
import { untilSignal } from "./untilSignal.ts";

export interface RunFlags extends ClusterFlags, WebhookFlags, ControlPlaneFlags {
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
    // A cluster has a scheduler for plain pods; two that do not know of each other would both fill the same nodes.
    placesPlainPods: flags.defaultScheduler === true,
    formsPlainGangs: false,
    hasSimulatedNodes: false,
  });
  const named = chosenComponents(flags, options);
  const listen = hostAndPort(flags.statusAddress, "--status-address");
  const webhookListen = hostAndPort(flags.webhookAddress, "--webhook-address");
  const reached = reachedBy(flags);
  const clock = systemClock();
  const random = systemRandom();
  const log = pinoLog({ level: flags.logLevel });
  const metrics = prometheus({
    words: metricWords,
    onProblem: (problem) => log.warn({ ...problem }, "a metric cannot be counted"),
  });
  const connection = await findCluster(flags);
  const fieldManager = "muster";
  const requests = new RequestBook({ clock, log, metrics });
  const http = kubeHttp(connection, { clock, log, requests }, { fieldManager });
  const kube = servedDevices(http);
  const hasBinder = named.some(({ name }) => name === "binder");
  const settled = hasBinder ? await withKaiConfig(options, kube).catch(closing(http)) : options;
  const chosen = chosenComponents(flags, settled);
  // Renewals have connections of their own: they must not wait behind the writes that they allow.
  const leaseKube = kubeHttp(connection, { clock, log, requests }, { fieldManager, requestMs: 5_000 });
  const identity = flags.identity ?? `${hostname()}_${randomUUID().slice(0, 8)}`;
  const lease =
    flags.leaderElect === true
      ? { namespace: flags.leaseNamespace, name: flags.leaseName, identity, kube: leaseKube }
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
  const closeAll = async (): Promise<void> => {
    await webhooks?.stop();
    await controllers.stop();
    http.close();
    leaseKube.close();
    await status.stop();
  };
  try {
    await requireDefinitions({ kube, clock }, chosen, flags.install === true);
    for (const component of chosen) component.add(controllers);
    const signal = untilSignal();
    const ended = signal.then(() => true as const);
    const prepare = async (): Promise<void> => {
      // Webhooks that an earlier process left refuse every write that they judge until this process answers them.
      if (webhooks !== undefined) await webhooks.start(webhookListen);
      else if (chosen.some(({ hooks = [] }) => hooks.length > 0)) {
        log.warn({}, "defaults and checks of writes are not served: pass --webhook-service or --webhook-host");
      }
      if (flags.install === true || flags.installed === true)
        await makeStartObjects({ kube, clock, log }, chosen, ended);
    };
    const started = await Promise.race([controllers.start(prepare), signal]);
    if (started === true) {
      sayReady(flags, { server: connection.server, status: status.url, chosen });
      await signal;
    }
  } finally {
    await closeAll();
  }
}

/** Pods are most of what is remembered of a cluster. */
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

/** A start that fails leaves no connection open. */
function closing(http: { close(): void }): (error: unknown) => never {
  return (error) => {
    http.close();
    throw error;
  };
}

async function requireDefinitions(
  ports: Parameters<typeof ensureDefinitions>[0],
  chosen: readonly Component[],
  install: boolean,
): Promise<void> {
  if (install) {
    mustSucceed(await ensureDefinitions(ports, chosen), "the definitions could not be installed");
    return;
  }
  const missing = mustSucceed(await missingDefinitions(ports.kube, chosen), "the cluster could not be asked");
  if (missing.length === 0) return;
  throw new UserError(
    "definitions-missing",
    `the cluster does not know ${missing.join(", ")}`,
    "pass --install to define them, or leave out the controllers that need them with --controllers",
  );
}

const tryAgainMs = 1_000;

/**
 * A server asks webhooks by the configuration that it has seen, and reaches a Service only when the pod behind it is
 * ready: for a while it may not find this process yet. Only a refusal for good ends the start.
 */
async function makeStartObjects(
  { kube, clock, log }: { kube: KubeApi; clock: Clock; log: Log },
  chosen: readonly Component[],
  ended: Promise<true>,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const outcome = await ensureStartObjects(kube, chosen);
    if (outcome.ok || isForGood(outcome)) {
      mustSucceed(outcome, "what the controllers start with could not be created");
      return;
    }
    const { message: why } = outcome;
    if (attempt % 10 === 1) log.warn({ why, attempt }, "what the controllers start with is not there yet");
    const again = new Promise<false>((resolve) => clock.after(tryAgainMs, () => resolve(false)));
    if (await Promise.race([again, ended])) return;
  }
}

function sayReady(flags: RunFlags, about: { server: string; status: string; chosen: readonly Component[] }): void {
  const names = about.chosen.map(({ name }) => name);
  if (flags.output === "json") {
    const shown = { ready: true, api: about.server, status: about.status, controllers: names };
    process.stdout.write(`${JSON.stringify(shown)}\n`);
  } else {
    process.stdout.write(`ready: ${names.join(", ")} on ${about.server}, status ${about.status}\n`);
  }
}

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { kubeHttp } from "../adapters/kubeHttp.ts";
import { pinoLog } from "../adapters/pinoLog.ts";
import { prometheus } from "../adapters/prometheus.ts";
import { systemClock } from "../adapters/systemClock.ts";
import { systemRandom } from "../adapters/systemRandom.ts";
import { Controllers } from "../control/controllers.ts";
import { knownDeviceWorld } from "../control/devices/deviceWorld.ts";
import { servedDevices } from "../control/devices/servedDevices.ts";
import { ensureDefinitions, ensureStartObjects, missingDefinitions } from "../control/ensureObjects.ts";
import type { Part } from "../control/part.ts";
import { optionalParts, parts, partsNamed } from "../control/parts.ts";
import { leanPod } from "../decide/schedule/leanPod.ts";
import type { Pod } from "../model/kubernetes.generated.ts";
import type { KubeObject } from "../model/object.ts";
import type { Outcome } from "../model/outcome.ts";
import { UserError } from "../model/userError.ts";
import { withFeatureGates } from "./featureGates.ts";
import { type ClusterFlags, findCluster } from "./findCluster.ts";
import { withFullScheduler } from "./fullScheduler.ts";
import { withGangConfig } from "./gangConfig.ts";
import { withGpuSharing } from "./gpuSharing.ts";
import { withGroupClaims } from "./groupClaims.ts";
import { hostAndPort } from "./hostAndPort.ts";
import { withQuotaValidation } from "./quotaValidation.ts";
import { startStatusServer } from "./statusServer.ts";
import { untilSignal } from "./untilSignal.ts";
import { reachedBy, type WebhookFlags, Webhooks } from "./webhooks/webhooks.ts";

export interface RunFlags extends ClusterFlags, WebhookFlags {
  readonly controllers?: string;
  readonly install?: boolean;
  readonly defaultScheduler?: boolean;
  readonly leaderElect?: boolean;
  readonly leaseNamespace: string;
  readonly leaseName: string;
  readonly identity?: string;
  /** A Grove OperatorConfiguration. */
  readonly gangConfig?: string;
  /** Whether pods may ask for shares of GPUs. */
  readonly gpuSharing: boolean;
  /** Whether PodGroups have claims. */
  readonly groupClaims?: boolean;
  /** `Gate=true|false`, by Kubernetes' names. */
  readonly featureGates: readonly string[];
  /** Whether quotas of queues are held against each other. */
  readonly enableQuotaValidation?: boolean;
  readonly statusAddress: string;
  readonly webhookAddress: string;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly output: "text" | "json";
}

/** Runs controllers against any cluster until a signal. */
export async function runControllers(flags: RunFlags): Promise<void> {
  const chosen = withQuotaValidation(
    withFeatureGates(
      withGroupClaims(
        withGpuSharing(await withGangConfig(chosenParts(flags), flags.gangConfig), flags.gpuSharing),
        flags.groupClaims,
      ),
      flags.featureGates,
    ),
    flags.enableQuotaValidation,
  );
  const listen = hostAndPort(flags.statusAddress, "--status-address");
  const webhookListen = hostAndPort(flags.webhookAddress, "--webhook-address");
  const reached = reachedBy(flags);
  const clock = systemClock();
  const random = systemRandom();
  const log = pinoLog({ level: flags.logLevel });
  const metrics = prometheus({
    onProblem: (problem) => log.warn({ ...problem }, "a metric cannot be counted"),
  });
  const connection = await findCluster(flags);
  const fieldManager = "muster";
  const http = kubeHttp(connection, { clock, log }, { fieldManager });
  const kube = servedDevices(http);
  // Renewals have connections of their own: they must not wait behind the writes that they allow.
  const leaseKube = kubeHttp(connection, { clock, log }, { fieldManager, requestMs: 5_000 });
  const identity = flags.identity ?? `${hostname()}_${randomUUID().slice(0, 8)}`;
  const lease =
    flags.leaderElect === true
      ? { namespace: flags.leaseNamespace, name: flags.leaseName, identity, kube: leaseKube }
      : undefined;
  const controllers = new Controllers(
    { kube, clock, random, log, metrics },
    { fieldManager, transforms: { "/pods": leanObject }, ...(lease === undefined ? {} : { lease }) },
  );
  const status = await startStatusServer(
    {
      health: controllers.health,
      readiness: controllers.readiness,
      metrics,
      devices: () => knownDeviceWorld(controllers)?.describe(),
    },
    listen,
  );
  const namespace = flags.leaseNamespace;
  const webhooks =
    reached && new Webhooks({ kube, clock, random, log }, controllers, { parts: chosen, reached, namespace });
  const closeAll = async (): Promise<void> => {
    await webhooks?.stop();
    await controllers.stop();
    http.close();
    leaseKube.close();
    await status.stop();
  };
  try {
    await requireDefinitions({ kube, clock }, chosen, flags.install === true);
    for (const part of chosen) part.add(controllers);
    const signal = untilSignal();
    const started = await Promise.race([controllers.start(), signal]);
    if (started === true) {
      if (webhooks !== undefined) await webhooks.start(webhookListen);
      else if (chosen.some(({ hooks = [] }) => hooks.length > 0)) {
        log.warn({}, "defaults and checks of writes are not served: pass --webhook-service or --webhook-host");
      }
      sayReady(flags, { server: connection.server, status: status.url, chosen });
      await signal;
    }
  } finally {
    await closeAll();
  }
}

/** Pods are most of what is remembered of a cluster. */
function leanObject(object: KubeObject): KubeObject {
  return leanPod(object as unknown as Pod) as unknown as KubeObject;
}

function chosenParts({ controllers: names, defaultScheduler = false }: RunFlags): Part[] {
  // A cluster has a scheduler for plain pods; two that do not know of each other would both fill the same room.
  const known = withFullScheduler(parts, { placesPlainPods: defaultScheduler, formsPlainGangs: false });
  if (names === undefined) return known.filter(({ isOfEveryCluster }) => isOfEveryCluster !== true);
  const wanted = names.split(",").map((name) => name.trim());
  return partsNamed(
    wanted.filter((name) => name !== ""),
    [...known, ...optionalParts],
  );
}

async function requireDefinitions(
  ports: Parameters<typeof ensureDefinitions>[0],
  chosen: readonly Part[],
  install: boolean,
): Promise<void> {
  if (install) {
    mustSucceed(await ensureDefinitions(ports, chosen), "the definitions could not be installed");
    mustSucceed(await ensureStartObjects(ports.kube, chosen), "what the controllers start with could not be created");
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

function mustSucceed<T>(outcome: Outcome<T>, what: string): T {
  if (outcome.ok) return outcome.value;
  throw new UserError(
    "cluster-refused",
    `${what}: ${outcome.message} (${outcome.reason})`,
    "see that the cluster answers (`kubectl get --raw /readyz`) and that these credentials may do it",
  );
}

function sayReady(flags: RunFlags, about: { server: string; status: string; chosen: readonly Part[] }): void {
  const names = about.chosen.map(({ name }) => name);
  if (flags.output === "json") {
    const shown = { ready: true, api: about.server, status: about.status, controllers: names };
    process.stdout.write(`${JSON.stringify(shown)}\n`);
  } else {
    process.stdout.write(`ready: ${names.join(", ")} on ${about.server}, status ${about.status}\n`);
  }
}

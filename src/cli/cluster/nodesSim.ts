import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { kubeHttp } from "../../adapters/kubernetes/kubeHttp.ts";
import { pinoLog } from "../../adapters/pinoLog.ts";
import { prometheus } from "../../adapters/prometheus.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { ensureDefinitions } from "../../control/assembly/ensureObjects.ts";
import { Controllers } from "../../control/runtime/controllers.ts";
import { draDefaults } from "../../kubelet/devices/draDevices.ts";
import { type Delays, fastDelays, generalDelays, livelyDelays } from "../../kubelet/pods/podPlan.ts";
import { kinds } from "../../kubelet/run/kubeletContext.ts";
import { nodesComponent } from "../../kubelet/run/nodesComponent.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { parsePools, profilesWith } from "../../model/profiles/profiles.ts";
import { UsageError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { type ClusterFlags, findCluster } from "./findCluster.ts";
import { metricWords } from "./metricWords.ts";
import { mustSucceed } from "./mustSucceed.ts";
import { readProfiles } from "./readProfiles.ts";
import { untilSignal } from "./untilSignal.ts";

export interface NodesSimFlags extends ClusterFlags {
  readonly pool: readonly string[];
  readonly profileFile: readonly string[];
  readonly seed: string;
  readonly delays: "fast" | "lively" | "general";
  readonly taint?: boolean;
  readonly install?: boolean;
  readonly holder?: string;
  readonly leaseSeconds: string;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly output: "text" | "json";
}

const delaysByName: Readonly<Record<NodesSimFlags["delays"], Delays>> = {
  fast: fastDelays,
  lively: livelyDelays,
  general: generalDelays,
};

/**
 * Simulated nodes against any API server, until a signal. Only nodes with KWOK's annotation are touched, under their
 * leases.
 */
export async function runNodesSim(flags: NodesSimFlags): Promise<void> {
  const profiles = profilesWith(await readProfiles(flags.profileFile));
  const pools = parsePools(flags.pool, profiles);
  const leaseSeconds = positive(flags.leaseSeconds, "--lease-seconds");
  const clock = systemClock();
  const random = systemRandom();
  const log = pinoLog({ level: flags.logLevel });
  const metrics = prometheus({
    words: metricWords,
    onProblem: (problem) => log.warn({ ...problem }, "a metric could not be recorded"),
  });
  const connection = await findCluster(flags);
  const kube = kubeHttp(connection, { clock, log }, { fieldManager: "muster-nodes" });
  const holder = flags.holder ?? `${hostname()}-${randomUUID().slice(0, 8)}`;
  try {
    if (flags.install === true)
      mustSucceed(
        await ensureDefinitions({ kube, clock }, [nodesComponent().component]),
        "the definitions could not be installed",
      );
    const dra = await isServed(kube, kinds.slices);
    const stages = await isServed(kube, kinds.stages);
    const nodes = nodesComponent({
      pools,
      profiles,
      seed: flags.seed,
      holder,
      leaseSeconds,
      kwokTaint: flags.taint === true,
      delays: delaysByName[flags.delays],
      dra: dra ? draDefaults : undefined,
      stages,
      concurrency: 32,
      writesPerNode: 8,
    });
    const controllers = new Controllers(
      { kube, clock, random, log, metrics },
      { fieldManager: "muster-nodes", graceMs: 5_000 },
    );
    nodes.component.add(controllers);
    const signal = untilSignal();
    const started = await Promise.race([controllers.start(), signal]);
    if (started === true) {
      sayReady(flags, {
        api: connection.server,
        holder,
        dra,
        stages,
        nodes: pools.reduce((sum, { count }) => sum + count, 0),
      });
      await signal;
    }
    await controllers.stop();
    // The next process need not wait until the leases expire.
    await nodes.release(kube);
  } finally {
    kube.close();
  }
}

/** Whether the server serves the kind; any other error than "not found" is thrown. */
async function isServed(kube: KubeApi, kind: Resource): Promise<boolean> {
  const found = await kube.list(kind, { limit: 1 });
  if (found.ok) return true;
  if (found.reason === "NotFound") return false;
  mustSucceed(found, "the cluster could not be queried");
  return false;
}

function positive(text: string, flag: string): number {
  const number = Number(text);
  if (/^[0-9]+$/.test(text) && number > 0) return number;
  throw new UsageError("bad-number", `${flag} ${text} is not a positive integer`, `pass ${flag} with one, such as 40`);
}

function sayReady(
  flags: NodesSimFlags,
  about: { api: string; holder: string; nodes: number; dra: boolean; stages: boolean },
): void {
  if (flags.output === "json") {
    process.stdout.write(`${JSON.stringify({ ready: true, ...about })}\n`);
    return;
  }
  process.stdout.write(`ready: ${about.nodes} nodes on ${about.api}, leases held as ${about.holder}\n`);
  if (!about.dra)
    process.stdout.write(
      "the server does not serve resource.k8s.io/v1: simulated nodes publish no ResourceSlices and prepare no claims\n",
    );
  if (!about.stages) process.stdout.write("the server does not serve KWOK's Stage: pass --install to create its CRD\n");
}

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadKubeconfig } from "../src/adapters/kubernetes/kubeconfig.ts";
import { kubeHttp } from "../src/adapters/kubernetes/kubeHttp.ts";
import { yieldingKube } from "../src/adapters/kubernetes/yieldingKube.ts";
import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import { inProcessKube } from "../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../src/apiserver/startApiServer.ts";
import { Controllers } from "../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../src/control/runtime/memoryMetrics.ts";
import { workloads } from "../src/control/workloads/workloads.ts";
import type { KubeObject } from "../src/model/objects/object.ts";
import type { KubeApi } from "../src/ports/kubeApi.ts";
import type { Figure } from "./figure.ts";

const replicas = 1_000;
const pods = { group: "", version: "v1", plural: "pods" };
const deployments = { group: "apps", version: "v1", plural: "deployments" };
/** As many writes at once as a controller has in flight. */
const width = 64;

/** How fast the cluster's own controllers write, beside the same creates without a controller. */
export async function* benchWorkloads(say: (text: string) => void): AsyncGenerator<Figure> {
  for (const way of ["in process", "over HTTPS"] as const) {
    say(`a Deployment of ${replicas} pods, ${way}`);
    const floor = await measured(way, rawCreates);
    const { seconds, writes } = await measured(way, byDeployment);
    yield {
      name: `pods of a Deployment of ${replicas} made, ${way}`,
      value: replicas / seconds,
      unit: "pods/s",
      beside: { name: "the same creates without a controller", value: replicas / floor.seconds },
    };
    yield { name: `writes a pod for that, events included, ${way}`, value: writes / replicas, unit: "writes" };
  }
}

interface Measured {
  readonly seconds: number;
  readonly writes: number;
}

type Work = (kube: KubeApi, server: ApiServer) => Promise<void>;

async function measured(way: "in process" | "over HTTPS", work: Work): Promise<Measured> {
  const server = await startApiServer({ clock: systemClock(), random: systemRandom() });
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-workloads-"));
  try {
    const kube = way === "in process" ? inProcess(server) : await overHttp(server, folder);
    const before = server.core.store.revision;
    const startedMs = performance.now();
    await work(kube, server);
    const seconds = (performance.now() - startedMs) / 1000;
    return { seconds, writes: server.core.store.revision - before };
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

function inProcess({ core }: ApiServer): KubeApi {
  return yieldingKube(
    inProcessKube(core, { user: { username: "bench", groups: ["system:masters"] }, fieldManager: "bench" }),
  );
}

async function overHttp(server: ApiServer, folder: string): Promise<KubeApi> {
  const path = join(folder, "kubeconfig");
  await writeFile(path, server.kubeconfig, { mode: 0o600 });
  const connection = await loadKubeconfig({ path });
  return kubeHttp(connection, { clock: systemClock(), log: quiet }, { fieldManager: "bench" });
}

const template = {
  metadata: { labels: { app: "web" } },
  spec: { containers: [{ name: "main", image: "nginx:1", resources: { requests: { cpu: "500m", memory: "1Gi" } } }] },
};

async function rawCreates(kube: KubeApi): Promise<void> {
  for (let at = 0; at < replicas; at += width) {
    const batch = Array.from({ length: Math.min(width, replicas - at) }, (_, i) => {
      const metadata = { ...template.metadata, name: `web-${at + i}`, namespace: "default" };
      return kube.create(pods, { apiVersion: "v1", kind: "Pod", ...template, metadata } as unknown as KubeObject);
    });
    for (const outcome of await Promise.all(batch)) if (!outcome.ok) throw new Error(outcome.message);
  }
}

async function byDeployment(kube: KubeApi, { core }: ApiServer): Promise<void> {
  const ports = { kube, clock: systemClock(), random: systemRandom(), log: quiet, metrics: new MemoryMetrics() };
  const controllers = new Controllers(ports, { fieldManager: "bench", graceMs: 100 });
  workloads.add(controllers);
  await controllers.start();
  const metadata = { name: "web", namespace: "default" };
  const spec = { replicas, selector: { matchLabels: template.metadata.labels }, template };
  const made = new Promise<void>((resolve) => {
    let count = 0;
    const stop = core.store.onEvent(({ current, previous }) => {
      if (current.resource !== "/pods" || previous !== undefined || ++count < replicas) return;
      stop();
      resolve();
    });
  });
  await kube.create(deployments, {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata,
    spec,
  } as unknown as KubeObject);
  await made;
  await controllers.stop();
}

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import { inProcessKube } from "../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../src/apiserver/startApiServer.ts";
import { ensureDefinitions, ensureStartObjects } from "../src/control/assembly/ensureObjects.ts";
import { binderComponent } from "../src/control/bind/binderComponent.ts";
import { gangComponent } from "../src/control/gang/gangComponent.ts";
import { Controllers } from "../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../src/control/runtime/memoryMetrics.ts";
import { schedulerComponent } from "../src/control/schedule/schedulerComponent.ts";
import { fastDelays } from "../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../src/kubelet/run/nodesComponent.ts";
import { gangResources } from "../src/model/gang/keys.ts";
import { defaultGangSettings } from "../src/model/gang/settings.ts";
import type { PodCliqueSet } from "../src/model/gang/types.ts";
import type { Unstored } from "../src/model/objects/object.ts";
import { parsePool, profilesWith } from "../src/model/profiles/profiles.ts";
import type { KubeApi } from "../src/ports/kubeApi.ts";
import { must, secondsOf, untilCommitted } from "./benchCluster.ts";
import type { Figure } from "./figure.ts";

/** Grove's own numbers (its scale tests of 2026-08-16 and, where better, 2026-07-05), on a KWOK cluster with KAI. */
const grove = { ready10: 5.6, ready1000: 49.3, deleted1000: 37.9 };

/** Grove's scale tests run with a scheduler that holds gangs together; its default one places pods one by one. */
type Scheduler = "default-scheduler" | "kai-scheduler";

/** One set of cliques of two pods, as in Grove's scale tests: how long until all are ready, replaced, gone. */
export async function* benchGang(say: (text: string) => void): AsyncGenerator<Figure> {
  for (const replicas of [5, 500]) {
    const pods = replicas * 2;
    say(`a set of ${pods} pods`);
    const measured = await measure(replicas, "default-scheduler");
    yield {
      name: `${pods} pods ready`,
      value: measured.readySeconds,
      unit: "s",
      target: { at: "most", value: pods === 10 ? 0.5 : 10 },
      beside: { name: "Grove, published", value: pods === 10 ? grove.ready10 : grove.ready1000 },
    };
    yield { name: `processor time of that (${pods} pods)`, value: measured.readyCpuSeconds, unit: "s" };
    yield { name: `writes a pod for that (${pods} pods)`, value: measured.writes / pods, unit: "writes" };
    yield { name: `${pods} pods replaced by a rolling update`, value: measured.updatedSeconds, unit: "s" };
    yield {
      name: `${pods} pods gone after the set is deleted`,
      value: measured.goneSeconds,
      unit: "s",
      ...(pods === 1000 && { beside: { name: "Grove, published (#545)", value: grove.deleted1000 } }),
    };
    say(`a set of ${pods} pods of kai-scheduler`);
    const { readySeconds } = await measure(replicas, "kai-scheduler");
    yield {
      name: `${pods} pods of kai-scheduler ready, gang by gang`,
      value: readySeconds,
      unit: "s",
      beside: { name: "Grove, published", value: pods === 10 ? grove.ready10 : grove.ready1000 },
    };
  }
}

async function measure(replicas: number, scheduler: Scheduler) {
  const gang = gangComponent({ ...defaultGangSettings, profiles: ["default-scheduler", "kai-scheduler"] });
  const { component: nodes } = nodesComponent({
    pools: [parsePool("cpu=100", profilesWith())],
    delays: fastDelays,
    events: "none",
    leases: false,
    dra: undefined,
  });
  const running = [gang, schedulerComponent(), binderComponent(), nodes];
  const hooks = running.flatMap((component) => component.hooks ?? []);
  const server = await startApiServer({ clock: systemClock(), random: systemRandom(), hooks });
  const kube = inProcessKube(server.core, {
    user: { username: "system:muster", groups: ["system:masters"] },
    fieldManager: "muster",
  });
  const ports = { kube, clock: systemClock(), random: systemRandom(), log: quiet, metrics: new MemoryMetrics() };
  const controllers = new Controllers(ports, { fieldManager: "muster", graceMs: 100 });
  try {
    const defined = await ensureDefinitions({ kube, clock: ports.clock }, running);
    if (!defined.ok) throw new Error(defined.message);
    must(await ensureStartObjects(kube, running));
    for (const component of running) component.add(controllers);
    await controllers.start();
    await untilCommitted(server.core.store, () => count(server, "/nodes") === 100);
    const before = server.core.store.revision;
    const spentBefore = process.cpuUsage();
    const readySeconds = await secondsOf(async () => {
      must(await kube.create(gangResources.PodCliqueSet, scaleSet(replicas, scheduler)));
      await untilCommitted(server.core.store, () => statusOf(server)?.availableReplicas === replicas);
    });
    // On a machine that is not quiet this says more than the time.
    const spent = process.cpuUsage(spentBefore);
    const readyCpuSeconds = (spent.user + spent.system) / 1e6;
    const writes = server.core.store.revision - before;
    const updatedSeconds = await secondsOf(() => changeImage(kube, server, replicas));
    const goneSeconds = await secondsOf(async () => {
      must(await kube.delete(setRef, { propagationPolicy: "Background" }));
      await untilCommitted(
        server.core.store,
        () =>
          count(server, "/pods") + count(server, "grove.io/podcliques") + count(server, "grove.io/podcliquesets") === 0,
      );
    });
    return { readySeconds, readyCpuSeconds, writes, updatedSeconds, goneSeconds };
  } finally {
    await controllers.stop();
    await server.stop();
  }
}

const setRef = { ...gangResources.PodCliqueSet, namespace: "default", name: "scale" };

function scaleSet(replicas: number, schedulerName: Scheduler): Unstored<PodCliqueSet> {
  const podSpec = {
    schedulerName,
    terminationGracePeriodSeconds: 0,
    containers: [{ name: "main", image: "registry/app:1", resources: { requests: { cpu: "10m" } } }],
  };
  const clique = { name: "expert-worker", spec: { roleName: "expert", replicas: 2, minAvailable: 2, podSpec } };
  const metadata = { name: "scale", namespace: "default", labels: { "kai.scheduler/queue": "default-queue" } };
  const spec = { replicas, template: { cliques: [clique] } };
  return { apiVersion: "grove.io/v1alpha1", kind: "PodCliqueSet", metadata, spec };
}

async function changeImage(kube: KubeApi, server: ApiServer, replicas: number): Promise<void> {
  const found = must(await kube.get(setRef));
  const set = JSON.parse(JSON.stringify(found)) as PodCliqueSet;
  const [container] = set.spec.template.cliques[0]?.spec.podSpec.containers ?? [];
  if (container !== undefined) container.image = "registry/app:2";
  must(await kube.update(setRef, set));
  await untilCommitted(server.core.store, () => {
    const status = statusOf(server);
    return status?.updateProgress?.updateEndedAt !== undefined && status.updatedReplicas === replicas;
  });
}

function statusOf({ core }: ApiServer): PodCliqueSet["status"] {
  const found = core.store.get("grove.io/podcliquesets", "default", "scale")?.object();
  return (found as unknown as PodCliqueSet | undefined)?.status;
}

function count({ core }: ApiServer, resource: string): number {
  return [...core.store.collection(resource).all()].length;
}

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

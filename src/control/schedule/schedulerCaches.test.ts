import { expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { namespaceNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { newReservation, reservationDefaults } from "../../decide/bind/reservation.ts";
import { defaultSettings } from "../../decide/schedule/settings.ts";
import type { Namespace } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { schedulingDefinitions } from "../../model/scheduling/definitions.ts";
import { reservationNamespace } from "../../model/scheduling/keys.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { Controllers } from "../runtime/controllers.ts";
import { MemoryMetrics } from "../runtime/memoryMetrics.ts";
import { refs, SchedulerCaches } from "./schedulerCaches.ts";

const ref = { ...refs.pods, namespace: "a", name: "p" };

/** A world whose watch of pods can be made late. */
async function lateWorld() {
  const api = await TestApi.start();
  for (const definition of schedulingDefinitions) {
    await api.create("apiextensions.k8s.io/customresourcedefinitions", definition);
  }
  await api.settle();
  await api.create("/namespaces", namespaceNamed("a"));
  const user = { username: "u", groups: ["system:masters"] };
  const kube = inProcessKube(api.core, { user, fieldManager: "u" });
  const late: (() => void)[] = [];
  let isLate = false;
  const watch: KubeApi["watch"] = (kind, options, sink) => {
    return kube.watch(kind, options, {
      event: (each) => {
        if (isLate && kind.plural === "pods") late.push(() => sink.event(each));
        else sink.event(each);
      },
      ended: (why) => sink.ended(why),
    });
  };
  const behind: KubeApi = {
    get: (...given) => kube.get(...given),
    list: (...given) => kube.list(...given),
    watch,
    create: (...given) => kube.create(...given),
    update: (...given) => kube.update(...given),
    patch: (...given) => kube.patch(...given),
    delete: (...given) => kube.delete(...given),
    bind: (...given) => kube.bind(...given),
    evict: (...given) => kube.evict(...given),
  };
  const controllers = new Controllers(
    { kube: behind, clock: api.clock, random: seededRandom(1), log: new KeptLog(), metrics: new MemoryMetrics() },
    { fieldManager: "u" },
  );
  const world = new SchedulerCaches(controllers, defaultSettings);
  const started = controllers.start();
  for (let at = 0; at < 10; at++) {
    await settle();
    await api.clock.advance(100);
  }
  await started;
  return {
    kube,
    world,
    stop: () => controllers.stop(),
    beLate: () => {
      isLate = true;
    },
    /** Lets so many of the events through that are late. */
    catchUp: (count: number) => {
      for (const tell of late.splice(0, count)) tell();
    },
  };
}

async function patched(kube: KubeApi, body: object, subresource?: "status"): Promise<KubeObject> {
  const outcome = await kube.patch(subresource === undefined ? ref : { ...ref, subresource }, {
    type: "merge",
    body: body as never,
  });
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.value;
}

test("what we wrote on a pod counts before the watch shows it, and what was before it does not take it back", async () => {
  const { kube, world, stop, beLate, catchUp } = await lateWorld();
  const created = await kube.create(refs.pods, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "a" },
    spec: { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }] },
  });
  if (!created.ok) throw new Error(created.message);
  await settle();
  const { uid } = created.value.metadata;
  const promise = () => world.cluster.tasks.get(uid)?.pod.status?.nominatedNodeName;
  expect(promise()).toBeUndefined();
  beLate();
  // Somebody else writes first, and we on top of it; the watch has shown neither.
  await patched(kube, { metadata: { labels: { other: "yes" } } });
  world.model.wrote(await patched(kube, { status: { nominatedNodeName: "n1" } }, "status"));
  expect(promise()).toBe("n1");
  await settle();
  catchUp(1);
  expect(promise()).toBe("n1");
  catchUp(1);
  expect(promise()).toBe("n1");
  // From here on the watch is as new as we are: what it shows next is the truth.
  await patched(kube, { status: { nominatedNodeName: null } }, "status");
  await settle();
  expect(promise()).toBe("n1");
  catchUp(1);
  expect(promise()).toBeUndefined();
  await stop();
});

test("a reservation that has no node yet holds its GPU on the one that it names", async () => {
  const { kube, world, stop } = await lateWorld();
  await kube.create(builtin.Namespace, namespaceNamed(reservationNamespace) as Namespace);
  const { serviceAccountName: name } = reservationDefaults;
  const metadata = { namespace: reservationNamespace, name };
  await kube.create(builtin.ServiceAccount, { apiVersion: "v1", kind: "ServiceAccount", metadata });
  const pod = newReservation({ node: "n1", group: "g", users: [], options: reservationDefaults });
  const created = await kube.create(refs.pods, pod);
  if (!created.ok) throw new Error(created.message);
  await settle();
  world.model.applyAssumed();
  expect(world.cluster.tasks.get(created.value.metadata.uid)?.places).toEqual([{ node: "n1", groups: ["g"] }]);
  await stop();
});

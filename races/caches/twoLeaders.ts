import { assumeCacheOf } from "../../src/control/runtime/assumeCacheOf.ts";
import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { InFlightWrites } from "../../src/control/runtime/inFlightWrites.ts";
import { Lease } from "../../src/control/runtime/lease.ts";
import { timerSource } from "../../src/control/runtime/sources.ts";
import { Writer } from "../../src/control/runtime/writer.ts";
import { expectedOf, type Intent } from "../../src/model/intent.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { noMetrics, runControllers, simLeaseTimes } from "../../src/sim/controllersProcess.ts";
import { oneEpochWrites } from "../../src/sim/invariants/leadership.ts";
import { at, carryOut, configMap, kinds, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const workers = ["left", "right"];

/** Increments a counter in an object that only the leader may write, until the faults stop. */
function count(controllers: Controllers, ports: ActorPorts, kube: KubeApi): void {
  const maps = controllers.cache(kinds.configMaps);
  const inFlight = new InFlightWrites({ kube, writer: new Writer(kube) }, assumeCacheOf([maps]));
  let rounds = 0;
  controllers.add({
    name: "counter",
    sources: [timerSource(ports, 150, () => ["default/count"])],
    reconcile: (key, turn) => {
      const found = maps.get(key);
      if (found === undefined || rounds++ >= 60) return undefined;
      const next = String(Number((found["data"] as { count?: string } | undefined)?.count ?? "0") + 1);
      const intent: Intent = {
        type: "update",
        target: at(kinds.configMaps, "count"),
        expected: expectedOf(found),
        object: { ...found, data: { count: next, by: ports.name } },
        why: "the leader counts",
      };
      return carryOut(inFlight, { intent, effects: [] }, turn);
    },
  });
}

/** One process starts first, so that the recorded decisions can refer to it. */
async function inTurn(ports: ActorPorts): Promise<void> {
  if (ports.name === "right") await ports.sleep(300);
}

async function fenced(ports: ActorPorts): Promise<void> {
  await inTurn(ports);
  const lease = { namespace: "default", name: "counter" };
  await runControllers(ports, (controllers) => count(controllers, ports, controllers.outside), { lease });
}

/** The bug: leadership is not checked before a write. */
async function unfenced(ports: ActorPorts): Promise<void> {
  await inTurn(ports);
  const place = { namespace: "default", name: "counter", identity: ports.name, times: simLeaseTimes };
  const lease = new Lease({ ...ports, metrics: noMetrics, ...place });
  await new Promise<void>((resolve) => {
    lease.start({ acquired: () => resolve(), lost: () => {} });
    ports.cancel.onCancel(resolve);
  });
  if (!ports.cancel.cancelled) await runControllers(ports, (controllers) => count(controllers, ports, ports.kube));
  await lease.stop();
}

const play = (variant: string, isFenced: boolean) => ({
  ...scene({
    slug: "two-leaders",
    variant,
    about: "two processes share a lease, and one of them pauses for longer than its duration",
    faults: ["two-leaders", "pause", "clock-step", "slow-call", "client-queue", "timeout-before"],
    invariants: [oneEpochWrites((actor) => workers.includes(actor), "counter")],
    setUp: async (kube) => {
      await kube.create(kinds.configMaps, configMap("count"));
    },
    actors: () => workers.map((name) => process(name, isFenced ? fenced : unfenced)),
    ignoredForQuiescence: ["coordination.k8s.io/leases"],
  }),
  faultPhaseMs: 12_000,
  settleMs: 40_000,
});

export const twoLeaders: Exhibit = {
  number: 53,
  slug: "two-leaders",
  title: "A leader pauses, loses its lease, and continues to write",
  source: "kubernetes/kubernetes#23731, #125761",
  invariant: "I12",
  story: `
  left                          API                         right
  leads, stands still           lease of left
  ...                           lease runs out         <--  takes the lease, leads
  goes on, in the middle of
  its work: write          -->  written by both             two leaders
  Before every write the leader asks its own clock whether the lease can still be its own, and every write carries
  the version that it was decided on.`,
  fixed: { name: "fixed", about: "the lease is checked before every write", scenario: play("fixed", true) },
  buggy: [
    {
      name: "no-fence",
      about: "a former leader writes until it observes the new one",
      scenario: play("no-fence", false),
      firstSeeds: 20,
      schedule: [
        { key: "left|1|two-leaders", value: 1_000 },
        { key: "left|1|length|two-leaders", value: 4_000 },
      ],
    },
  ],
};

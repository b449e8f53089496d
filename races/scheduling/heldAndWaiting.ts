import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { annotationKeys, kaiSchedulerName } from "../../src/model/scheduling/keys.ts";
import { podGroupApiVersion, podGroupRef } from "../../src/model/scheduling/podGroup.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, kinds, person, plain } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { binder, capacityOf, gpuPod, makeNode, nodeOf, placementScene, scheduler } from "./schedulerScene.ts";

/** Races in which gangs block each other. */

const gangs = ["a", "b", "c"];

/** A partially bound gang holds GPUs without running. */
const wholeOrNothing = (id: string): Invariant => ({
  id,
  fact: "at rest a gang has all of its pods bound, or none, and at least one gang runs",
  begin: ({ store }) => ({
    atRest: () => {
      let running = 0;
      for (const gang of gangs) {
        const pods = [...store.collection("/pods").all()].map((version) => version.object());
        const ours = pods.filter(({ metadata }) => metadata.annotations?.[annotationKeys.podGroup] === gang);
        const bound = ours.filter((each) => nodeOf(each) !== "").length;
        if (bound > 0 && bound < ours.length)
          return `gang ${gang} holds ${bound} GPUs of the ${ours.length} that it needs`;
        if (bound > 0) running++;
      }
      return running === 0 ? "no gang is running, and there is room for one" : undefined;
    },
  }),
});

type Mistake = "one-by-one" | "permit";

/** Binds pods one by one; or reserves a node for each in memory until its gang is complete. */
function naiveScheduler(controllers: Controllers, ports: ActorPorts, mistake: Mistake): void {
  const pods = controllers.cache(kinds.pods);
  const nodes = controllers.cache(kinds.nodes);
  const waiting = new Map<string, { gang: string; node: string; name: string }>();
  const freeNode = (): string | undefined => {
    for (const [, node] of nodes.view().objects) {
      let used = 0;
      for (const [, each] of pods.view().objects) if (nodeOf(each) === node.metadata.name) used++;
      for (const held of waiting.values()) if (held.node === node.metadata.name) used++;
      if (used < capacityOf(node)) return node.metadata.name;
    }
    return undefined;
  };
  controllers.add({
    name: "scheduler",
    sources: [kindSource(pods, forObject())],
    reconcile: async (key) => {
      const found = pods.get(key);
      if (found === undefined || nodeOf(found) !== "") {
        if (found !== undefined) waiting.delete(found.metadata.uid);
        return undefined;
      }
      const { name, uid } = found.metadata;
      const gang = found.metadata.annotations?.[annotationKeys.podGroup] ?? "";
      if (waiting.has(uid)) return { requeueAfterMs: 200 };
      const node = freeNode();
      // A pod that does not fit is requeued, and other pods are decided in between.
      if (node === undefined) return { requeueAfterMs: 200 };
      if (mistake === "one-by-one") {
        const outcome = await ports.kube.bind(at(kinds.pods, name), { node, uid });
        return outcome.ok ? undefined : reconcileResultOf(outcome);
      }
      waiting.set(uid, { gang, node, name });
      const ours = [...waiting].filter(([, held]) => held.gang === gang);
      if (ours.length < 2) return { requeueAfterMs: 200 };
      for (const [member, held] of ours)
        await ports.kube.bind(at(kinds.pods, held.name), { node: held.node, uid: member });
      return undefined;
    },
  });
}

function play(slug: string, mistake: Mistake | undefined, id: string): Scenario {
  return placementScene({
    slug,
    variant: mistake ?? "fixed",
    about: "three gangs of two pods are created at once, and there is room for one",
    faults: ["watch-delay", "slow-call"],
    invariants: [wholeOrNothing(id)],
    setUp: async (kube) => {
      for (const name of ["n1", "n2"]) await makeNode(kube, name, 1);
      for (const name of gangs) {
        const spec = { queue: "default-queue", minMember: 2 };
        await kube.create(podGroupRef, plain(podGroupApiVersion, "PodGroup", "default", name, { spec }));
      }
    },
    actors: () => [
      person("owner", async (ports) => {
        // Interleaved, as controllers that work side by side create them.
        for (const member of [0, 1]) {
          for (const gang of gangs) {
            const made: KubeObject = gpuPod(`${gang}${member}`, {
              schedulerName: kaiSchedulerName,
              annotations: { [annotationKeys.podGroup]: gang },
            });
            await ports.kube.create(kinds.pods, made);
          }
        }
      }),
      controllersProcess("scheduler", (controllers, ports) =>
        mistake === undefined ? scheduler.add(controllers) : naiveScheduler(controllers, ports, mistake),
      ),
      ...(mistake === undefined ? [controllersProcess("binder", (controllers) => binder.add(controllers))] : []),
    ],
  });
}

export const halfAndHalf: Exhibit = {
  number: 23,
  slug: "half-and-half",
  title: "Several gangs are partially bound, and all wait for ever",
  source: "koordinator-sh/koordinator#872",
  invariant: "I4",
  story: `
  scheduler                    two GPUs
  a0 to n1                     a0
  b0 to n2                     a0 b0
  a1, b1, c0, c1: no room      a has half, b has half, nothing trains
  A gang is acquired in one step or not at all.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: a gang is one decision",
    scenario: play("half-and-half", undefined, "I4"),
  },
  buggy: [
    {
      name: "one-by-one",
      about: "pods are bound one by one",
      scenario: play("half-and-half", "one-by-one", "I4"),
      firstSeeds: 10,
      schedule: [],
    },
  ],
};

export const brokenPermit: Exhibit = {
  number: 24,
  slug: "broken-permit",
  title: "Pods of several gangs wait in Permit and hold everything",
  source: "kubernetes-sigs/scheduler-plugins#114",
  invariant: "I17",
  story: `
  scheduler, in memory         two GPUs
  hold n1 for a0               a0 waits for a1
  hold n2 for b0               b0 waits for b1
  a1: no room, back off        neither gang releases, neither starts
  b1: no room, back off
  Nothing is held for part of a gang.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: nothing is reserved for an incomplete gang",
    scenario: play("broken-permit", undefined, "I17"),
  },
  buggy: [
    {
      name: "permit",
      about: "a node is reserved for each pod until its gang is complete",
      scenario: play("broken-permit", "permit", "I17"),
      firstSeeds: 10,
      schedule: [],
    },
  ],
};

import type { Controllers } from "../../src/control/runtime/controllers.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, every, inFlightOf, kinds, person, pod } from "../../src/sim/sceneKit.ts";
import type { KindChange } from "../../src/snapshot/kindTable.ts";
import { type Exhibit, scene } from "../exhibit.ts";

/** Counts the pods of the node, and reports the count. */
function countPods(controllers: Controllers, ports: ActorPorts, atomic: boolean): void {
  const pods = controllers.cache(kinds.pods);
  const { assumeCache } = inFlightOf<string>(controllers, [kinds.pods], {
    "/pods": ({ metadata }) => [{ key: metadata.uid, value: "n1" }],
  });
  const careless = new Set<string>();
  const inTwoSteps = async (changes: readonly KindChange[]): Promise<void> => {
    for (const { type, object } of changes) {
      if (type !== "deleted") careless.add(object.metadata.uid);
      else {
        careless.delete(object.metadata.uid);
        // The bug: the lock is released between the removal of the old pod and the insertion of the new one.
        await ports.sleep(2);
      }
    }
  };
  if (!atomic) pods.onChanges((changes) => void inTwoSteps(changes));
  const report = (): void => {
    if (!pods.hasSynced) return;
    const { revision, counted } = assumeCache.snapshot();
    ports.observe("assumeCache", { revision: Number(revision), held: atomic ? [...counted()].length : careless.size });
  };
  void every(ports, 1, report);
}

const numbersFromOneRevision: Invariant = {
  id: "I6",
  fact: "all reported numbers come from one revision",
  begin: ({ store }) => {
    // Kept here, because the store may compact its history.
    const counts: { revision: number; there: number }[] = [];
    return {
      commit: ({ event }) => {
        if (event.current.resource === "/pods") {
          counts.push({ revision: event.revision, there: store.collection("/pods").size });
        }
        return undefined;
      },
      observe: (actor, what, value) => {
        if (what !== "assumeCache") return undefined;
        const { revision, held } = value as { revision: number; held: number };
        const there = counts.findLast((count) => count.revision <= revision)?.there ?? 0;
        return held === there
          ? undefined
          : `${actor} counts ${held} pods on the node at revision ${revision}; there were ${there}`;
      },
    };
  },
};

const play = (variant: string, atomic: boolean) =>
  scene({
    slug: "merged-recreate",
    variant,
    about: "a scheduler counts the pods of a node while one of them is deleted and recreated",
    faults: ["dropped-event", "compaction-gap", "stream-cut", "watch-delay"],
    invariants: [numbersFromOneRevision],
    setUp: async (kube) => {
      await kube.create(kinds.pods, pod("a", {}, { nodeName: "n1" }));
    },
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 10; round++) {
          await ports.sleep(300);
          await ports.kube.delete(at(kinds.pods, "a"), { gracePeriodSeconds: 0 });
          await ports.kube.create(kinds.pods, pod("a", {}, { nodeName: "n1" }));
        }
      }),
      controllersProcess("scheduler", (controllers, ports) => countPods(controllers, ports, atomic)),
    ],
  });

export const mergedRecreate: Exhibit = {
  number: 14,
  slug: "merged-recreate",
  title: "A deleted and recreated pod reaches the cache as one update, which is applied in two steps",
  source: "kubernetes/kubernetes#106545",
  invariant: "I6",
  story: `
  owner             API                       scheduler
  delete a     -->  a is gone                 (its stream is cut: it sees neither)
  create a     -->  a again, another UID
                                              lists again: a became another a
                                              takes the old a out of the node's count
                    node n1 holds one pod     another thread reads: n1 is empty   <-- never true
                                              puts the new a in
  The cache must change atomically: removal and insertion in one step.`,
  fixed: { name: "fixed", about: "removal and insertion are one step", scenario: play("fixed", true) },
  buggy: [
    {
      name: "two-steps",
      about: "readers see the cache between removal and insertion",
      scenario: play("two-steps", false),
      firstSeeds: 50,
      schedule: [{ key: "scheduler|watch|/pods#1|DELETED|a#1|dropped-event", value: 200 }],
    },
  ],
};

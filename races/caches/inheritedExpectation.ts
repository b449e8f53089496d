import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forMapped, forObject, kindSource } from "../../src/control/runtime/sources.ts";
import { gangResources } from "../../src/model/gang/keys.ts";
import type { ActorPorts, ActorSpec } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { kinds, pod } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { ensureSet, gangScene, pairSet, podsOfSet, productOperator, setRef } from "../gangs/gangScene.ts";

const partOf = "app.kubernetes.io/part-of";
const wanted = 2;

const namesakesAreFilled: Invariant = {
  id: "I17",
  fact: "at rest a recreated set has all its pods",
  begin: ({ store }) => ({
    atRest: () => {
      const set = store.get("grove.io/podcliquesets", "default", "red");
      if (set === undefined) return undefined;
      const pods = podsOfSet(
        [...store.collection("/pods").all()].map((version) => version.object()),
        "red",
      );
      const live = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined).length;
      return live === wanted ? undefined : `red asks for ${wanted} pods and has ${live}`;
    },
  }),
};

/** Expectations are kept by the name of the set, so that a recreated set inherits them. */
function expectByName(controllers: Controllers, { random }: ActorPorts): void {
  const sets = controllers.cache(gangResources.PodCliqueSet);
  const pods = controllers.cache(kinds.pods);
  const expected = new Map<string, Set<string>>();
  pods.onEvent(({ type, object }) => {
    // An observed pod fulfils its expectation, and so does an observed deletion.
    if (type !== "updated") for (const uids of expected.values()) uids.delete(object.metadata.uid);
  });
  controllers.add({
    name: "sets",
    backoff: { baseMs: 20, maxMs: 1_000 },
    sources: [
      kindSource(sets, forObject()),
      kindSource(
        pods,
        forMapped(({ metadata }) =>
          metadata.labels?.[partOf] === undefined ? [] : [`default/${metadata.labels[partOf]}`],
        ),
      ),
    ],
    reconcile: async (key, { cancel }): Promise<ReconcileResult> => {
      const set = sets.get(key);
      if (set === undefined || set.metadata.deletionTimestamp !== undefined) return undefined;
      const { name, uid } = set.metadata;
      const live = [...pods.view().objects].filter(
        ([, { metadata }]) => metadata.ownerReferences?.[0]?.uid === uid && metadata.deletionTimestamp === undefined,
      );
      const outstanding = expected.get(key) ?? new Set<string>();
      expected.set(key, outstanding);
      for (const [, { metadata }] of live) outstanding.delete(metadata.uid);
      if (live.length + outstanding.size >= wanted) return undefined;
      const owner = { apiVersion: set.apiVersion, kind: set.kind, name, uid, controller: true };
      const made = pod(`${name}-${random.uint32().toString(36)}`, {
        labels: { [partOf]: name },
        ownerReferences: [owner],
      });
      const outcome = await controllers.outside.create(kinds.pods, made, { cancel });
      if (!outcome.ok) return reconcileResultOf(outcome) ?? { again: outcome.message };
      outstanding.add(outcome.value.metadata.uid);
      return { requeueAfterMs: 5 };
    },
  });
}

const play = (variant: string, operator: () => ActorSpec) =>
  gangScene({
    slug: "inherited-expectation",
    variant,
    about: "a set is deleted and recreated while the watch of its operator loses events",
    faults: ["dropped-event", "stream-cut", "watch-delay", "compaction-gap", "slow-call"],
    invariants: [namesakesAreFilled],
    operator,
    user: async (ports) => {
      for (let round = 0; round < 5; round++) {
        await ports.kube.create(gangResources.PodCliqueSet, pairSet("red"));
        await ports.sleep(300 + (ports.random.uint32() % 500));
        await ports.kube.delete(setRef("red"), { propagationPolicy: "Background" });
        await ports.sleep(50 + (ports.random.uint32() % 500));
      }
      await ensureSet(ports, "red");
    },
  });

export const inheritedExpectation: Exhibit = {
  number: 17,
  slug: "inherited-expectation",
  title: "A recreated object inherits the expectations of its deleted predecessor, and waits for ever",
  source: "ai-dynamo/grove#782, #783",
  invariant: "I17",
  story: `
  operator                           API                            its watch
  red: create p1, expect it    -->   p1                             (the stream is cut)
                                     red and p1 are deleted
                                     red is made again              a new list: no p1, and no event says that it is gone
  red has 0 pods, expects p1
  and one more is enough       -->   p2                             p2
  red has 1 pod, expects p1: enough. For ever.

  What is on its way is counted under the UID of its owner, and ends with the first list that has passed it.`,
  fixed: {
    name: "fixed",
    about: "counted by the UID of the clique, until the watch has passed it",
    scenario: play("fixed", productOperator),
  },
  buggy: [
    {
      name: "by-name",
      about: "expectations are kept under the name of the set",
      scenario: play("by-name", () => controllersProcess("operator", expectByName)),
      firstSeeds: 20,
      schedule: [{ key: "operator|watch|grove.io/podcliquesets#1|ADDED|red#1|dropped-event", value: 312 }],
    },
  ],
};

import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { Channel, forObject, kindSource, type Source } from "../../src/control/runtime/sources.ts";
import type { Intent, NewObject } from "../../src/model/intent.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, carryOut, configMap, inFlightOf, kinds, person } from "../../src/sim/sceneKit.ts";
import type { Effect } from "../../src/snapshot/ledger.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const sliceIsThere: Invariant = {
  id: "I8",
  fact: "at rest a deleted slice has been recreated",
  begin: ({ store }) => ({
    atRest: () =>
      store.get("/configmaps", "default", "slice") === undefined
        ? "the slice is deleted and was not recreated"
        : undefined,
  }),
};

const slice = at(kinds.configMaps, "slice");

/** Recreates one slice when it is deleted. Its own writes count until the watch has passed their revision. */
function keepSlice(controllers: Controllers): void {
  const maps = controllers.cache(kinds.configMaps);
  // A list may end an intent without an event, when the object was created and deleted in between. So the end of an
  // intent enqueues the key.
  const ended = new Channel();
  const exists = ({ metadata }: KubeObject): readonly Effect<true>[] => [{ key: metadata.name, value: true }];
  const inFlight = inFlightOf<true>(
    controllers,
    [kinds.configMaps],
    { "/configmaps": exists },
    {
      onIntent: (_, state) => {
        if (state === "observed") ended.push("default/slice");
      },
    },
  );
  controllers.add({
    name: "slices",
    sources: [kindSource(maps, forObject()), wakeOnce, ended],
    reconcile: (_, turn) => {
      // Observed objects and decided writes count; only an unknown outcome is retried.
      const isInDoubt = inFlight.assumeCache.unknownIntents().length > 0;
      if (inFlight.assumeCache.values("slice").length > 0 && !isInDoubt) return undefined;
      const object = configMap("slice");
      const intent: Intent = {
        type: "create",
        target: slice,
        absentAtRevision: maps.revision,
        object: object as unknown as NewObject,
        why: "there must be a slice",
      };
      return carryOut(inFlight, { intent, effects: exists(object) }, turn);
    },
  });
}

/** The bug: a mutation cache keeps own writes until the watch shows them. */
function rememberSlice(controllers: Controllers, ports: ActorPorts): void {
  const maps = controllers.cache(kinds.configMaps);
  let own: KubeObject | undefined;
  /** An observed object replaces the remembered one if it is at least as new. */
  const compare = (): void => {
    const shown = maps.get("default/slice");
    if (shown !== undefined && own !== undefined && isAsNew(shown, own)) own = undefined;
  };
  maps.onChanges(compare);
  controllers.add({
    name: "slices",
    sources: [kindSource(maps, forObject()), wakeOnce],
    reconcile: async () => {
      if ((maps.get("default/slice") ?? own) !== undefined) return undefined;
      const outcome = await ports.kube.create(kinds.configMaps, configMap("slice"));
      if (!outcome.ok) return reconcileResultOf(outcome);
      // The watch may have shown this write and its deletion before the response arrived.
      own = outcome.value;
      compare();
      return undefined;
    },
  });
}

/** No slice exists before the first create. */
const wakeOnce: Source = {
  start: (queue) => {
    queue.add("default/slice");
    return () => {};
  },
};

function isAsNew(a: KubeObject, b: KubeObject): boolean {
  return Number(a.metadata.resourceVersion) >= Number(b.metadata.resourceVersion);
}

const play = (variant: string, listens: boolean) =>
  scene({
    slug: "mutation-cache",
    variant,
    about: "a controller recreates a slice that a user deletes",
    faults: ["slow-call", "watch-delay", "watch-reorder", "slow-timer"],
    invariants: [sliceIsThere],
    actors: () => [
      person("vandal", async (ports) => {
        for (let round = 0; round < 40; round++) {
          await ports.sleep(60);
          await ports.kube.delete(at(kinds.configMaps, "slice"));
        }
      }),
      controllersProcess("controller", listens ? keepSlice : rememberSlice),
    ],
  });

export const mutationCache: Exhibit = {
  number: 55,
  slug: "mutation-cache",
  title: "A cache of own writes returns an object that is already deleted",
  source: "kubernetes/kubernetes#140063, #128275",
  invariant: "I8",
  story: `
  controller                  API                  its watch
  create slice           -->  slice, rev 5    -->  ADDED slice
  (the answer is slow)        deleted, rev 6  -->  DELETED slice
  the answer arrives: remembered as "our own, newer than the watch"
  the slice exists, says the cache: never made again
  A remembered write is dropped as soon as the watch has passed its revision, whatever the watch shows then.`,
  fixed: { name: "fixed", about: "the revision of the watch ends what is remembered", scenario: play("fixed", true) },
  buggy: [
    {
      name: "remembers",
      about: "only an observation of the object ends what is remembered",
      scenario: play("remembers", false),
      firstSeeds: 60,
      schedule: [{ key: "controller|create|/configmaps/default/slice#1|answer|slow-call", value: 200_000 }],
    },
  ],
};

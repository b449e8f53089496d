import { NewestOf } from "../../src/control/cache/newestOf.ts";
import type { ObjectCache } from "../../src/control/cache/objectCache.ts";
import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { timerSource } from "../../src/control/runtime/sources.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, configMap, kinds, person } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const claims = ["c0", "c1", "c2", "c3"].map((name) => `default/${name}`);

/** The keys that a process considers as existing. */
interface Belief {
  has(key: string): boolean;
}

const believesWhatThereIs: Invariant = {
  id: "I17",
  fact: "at rest no process waits for a deleted object",
  begin: ({ store }) => {
    const beliefs = new Map<string, Belief>();
    return {
      observe: (actor, what, value) => {
        if (what === "belief") beliefs.set(actor, value as Belief);
        return undefined;
      },
      atRest: () => {
        for (const [actor, belief] of beliefs) {
          for (const key of claims) {
            const [namespace = "", name = ""] = key.split("/");
            const exists = store.get("/configmaps", namespace, name) !== undefined;
            if (belief.has(key) !== exists) return `${actor} waits for ${key}, which ${exists ? "exists" : "is gone"}`;
          }
        }
        return undefined;
      },
    };
  },
};

interface State extends Belief {
  created(key: string, object: KubeObject): void;
}

/** The bug: the response is cached, although the watch may have passed its revision. */
function seeded(cache: ObjectCache): State {
  const known = new Set<string>();
  cache.onEvent(({ type, key }) => {
    if (type === "deleted") known.delete(key);
    else known.add(key);
  });
  return { has: (key) => known.has(key), created: (key) => known.add(key) };
}

/** A response counts until the watch has passed its revision. */
function passed(cache: ObjectCache): State {
  const own = new NewestOf(cache);
  return { has: (key) => own.get(key) !== undefined, created: (_, object) => own.learn(object) };
}

/** Creates each claim once per life of the process. */
function addLauncher(controllers: Controllers, actor: ActorPorts, stateOf: (cache: ObjectCache) => State): void {
  const cache = controllers.cache(kinds.configMaps);
  const state = stateOf(cache);
  actor.observe("belief", state);
  const made = new Set<string>();
  controllers.add({
    name: "launcher",
    sources: [timerSource(controllers.ports, 120, () => claims)],
    concurrency: 4,
    reconcile: async (key) => {
      if (made.has(key) || state.has(key)) return undefined;
      made.add(key);
      const outcome = await controllers.outside.create(kinds.configMaps, configMap(key.split("/")[1] ?? ""));
      if (outcome.ok) state.created(key, outcome.value);
      return undefined;
    },
  });
}

const play = (variant: string, stateOf: (cache: ObjectCache) => State) =>
  scene({
    slug: "ghost-claim",
    variant,
    about: "claims are deleted right after they are created",
    faults: ["slow-call"],
    invariants: [believesWhatThereIs],
    actors: () => [
      controllersProcess("launcher", (controllers, ports) => addLauncher(controllers, ports, stateOf)),
      person("owner", async (ports) => {
        for (let round = 0; round < 60; round++) {
          await ports.sleep(50);
          const listed = await ports.kube.list(kinds.configMaps);
          if (!listed.ok) continue;
          for (const { metadata } of listed.value.items) {
            await ports.kube.delete(at(kinds.configMaps, metadata.name), { preconditions: { uid: metadata.uid } });
          }
        }
      }),
    ],
  });

export const ghostClaim: Exhibit = {
  number: 39,
  slug: "ghost-claim",
  title: "A controller waits for a claim that was deleted right after its creation",
  source: "kubernetes-sigs/karpenter#3176, #3190",
  invariant: "I17",
  story: `
  launcher                          API                       its watch
  create c1                   -->   c1, revision 7
                                    a user deletes c1, 8      ADDED c1, DELETED c1: c1 is off the record
  (the answer was slow) c1, revision 7: put on record
  the record has c1, the API has not: never in step again, nothing is launched for hours

  An answer counts until the watch has passed its revision. Here the watch was at 8: the answer is old news.`,
  fixed: { name: "fixed", about: "a response older than the watch is ignored", scenario: play("fixed", passed) },
  buggy: [
    {
      name: "seeds",
      about: "every response is cached",
      scenario: play("seeds", seeded),
      firstSeeds: 80,
      schedule: [{ key: "launcher|create|/configmaps/default/c3#1|answer|slow-call", value: 72_796 }],
    },
  ],
};

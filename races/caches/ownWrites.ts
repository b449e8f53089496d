import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forMapped, kindSource } from "../../src/control/runtime/sources.ts";
import type { Intent, NewObject } from "../../src/model/intent.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, carryOut, configMap, inFlightOf, kinds, person } from "../../src/sim/sceneKit.ts";
import type { Effect } from "../../src/snapshot/ledger.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const parentLabel = "parent";

const oneChild: Invariant = {
  id: "I19",
  fact: "repeating a step changes nothing: a parent has one child",
  begin: ({ store }) => ({
    commit: ({ type, event }) => {
      const parent = event.current.side.labels?.[parentLabel];
      if (type !== "ADDED" || parent === undefined) return undefined;
      let children = 0;
      for (const { side } of store.collection("/configmaps").all())
        if (side.labels?.[parentLabel] === parent) children++;
      return children > 1 ? `${event.current.key} is child number ${children} of ${parent}` : undefined;
    },
  }),
};

/** Creates one child for every parent. A child that is not observed yet counts by its name, which is derived. */
function ensureChildren(controllers: Controllers): void {
  const maps = controllers.cache(kinds.configMaps);
  const inFlight = inFlightOf<true>(controllers, [kinds.configMaps], { "/configmaps": childOf });
  controllers.add({
    name: "children",
    sources: [kindSource(maps, forMapped(parentsOf))],
    reconcile: (key, turn) => {
      const parent = maps.get(key);
      if (parent === undefined || inFlight.assumeCache.values(parent.metadata.name).length > 0) return undefined;
      const { name } = parent.metadata;
      const target = at(kinds.configMaps, `${name}-child`);
      const object = configMap(target.name, { labels: { [parentLabel]: name } });
      const intent: Intent = {
        type: "create",
        target,
        absentAtRevision: maps.revision,
        object: object as unknown as NewObject,
        why: `${name} has no child`,
      };
      return carryOut(inFlight, { intent, effects: childOf(object) }, turn);
    },
  });
}

/** The bug: only observed children count. */
function forgetChildren(controllers: Controllers, ports: ActorPorts): void {
  const maps = controllers.cache(kinds.configMaps);
  controllers.add({
    name: "children",
    sources: [kindSource(maps, forMapped(parentsOf))],
    reconcile: async (key) => {
      const parent = maps.get(key);
      if (parent === undefined) return undefined;
      const { name } = parent.metadata;
      for (const [, { metadata }] of maps.view().objects) if (metadata.labels?.[parentLabel] === name) return undefined;
      const child = configMap("", { generateName: `${name}-`, labels: { [parentLabel]: name } });
      const outcome = await ports.kube.create(kinds.configMaps, child);
      return outcome.ok ? { requeueAfterMs: 30 } : reconcileResultOf(outcome);
    },
  });
}

function childOf({ metadata }: KubeObject): readonly Effect<true>[] {
  const parent = metadata.labels?.[parentLabel];
  return parent === undefined ? [] : [{ key: parent, value: true }];
}

/** The parents that a change concerns: the object itself, or its parent. */
function parentsOf({ metadata }: KubeObject): string[] {
  const parent = metadata.labels?.["role"] === "parent" ? metadata.name : metadata.labels?.[parentLabel];
  return parent === undefined ? [] : [`default/${parent}`];
}

const play = (variant: string, remembers: boolean) =>
  scene({
    slug: "own-writes",
    variant,
    about: "a controller creates one child for every parent, and its watch lags",
    faults: ["watch-delay", "watch-reorder", "stream-cut", "slow-timer", "slow-call"],
    invariants: [oneChild],
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 8; round++) {
          await ports.kube.create(kinds.configMaps, configMap(`p${round}`, { labels: { role: "parent" } }));
          await ports.kube.create(kinds.configMaps, configMap(`noise${round}`));
          await ports.sleep(300);
          const body = { data: { touched: "yes" } };
          await ports.kube.patch(at(kinds.configMaps, `p${round}`), { type: "merge", body });
        }
      }),
      controllersProcess("controller", remembers ? ensureChildren : forgetChildren),
    ],
  });

export const ownWrites: Exhibit = {
  number: 54,
  slug: "own-writes",
  title: "A controller does not observe its own write, and writes again",
  source: "kubernetes/kubernetes#129795, #134937; kubernetes-sigs/cluster-api#13649",
  invariant: "I19",
  story: `
  controller                       API                     its watch
  p has no child: create one  -->  p-x1, revision 7        (late)
  p has no child: create one  -->  p-q4, revision 8        (late)
                                                           p-x1, p-q4
  What was decided counts until the watch has passed it, also if no answer ever came; and its name is derived, so that
  a controller that forgets (a crash) creates the same child again and is refused.`,
  fixed: {
    name: "fixed",
    about: "own writes count until they are observed, under a derived name",
    scenario: play("fixed", true),
  },
  buggy: [
    {
      name: "forgets",
      about: "only observed objects count",
      scenario: play("forgets", false),
      firstSeeds: 50,
      // The event of the child of p0 is late: under its random name in seed 1, and under the derived name.
      schedule: ["p0-flwll", "p0-child"].map((child) => ({
        key: `controller|watch|/configmaps#1|ADDED|${child}#1|watch-delay`,
        value: 500_000,
      })),
    },
  ],
};

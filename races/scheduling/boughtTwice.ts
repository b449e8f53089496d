import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { kindSource } from "../../src/control/runtime/sources.ts";
import { applyIntent } from "../../src/intents/applyIntent.ts";
import { expectedOf } from "../../src/model/intent.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorSpec } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, configMap, kinds, person, plain, pod, repeating } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const pool = { ...kinds.configMaps, namespace: "default", name: "pool" };

function sizeOf(object: KubeObject | undefined): number {
  return Number((object?.["data"] as { size?: string } | undefined)?.size ?? 0);
}

/** Each pod needs its own node, so the pool never needs more nodes than the highest number of pods. */
const nothingBoughtTwice: Invariant = {
  id: "I15",
  fact: "existing and requested nodes together are never more than the highest number needed",
  begin: ({ store }) => {
    let needed = 0;
    return {
      commit: ({ event, call }) => {
        needed = Math.max(needed, store.collection("/pods").size);
        if (event.current.resource !== "/configmaps" || event.current.deleted) return undefined;
        const size = sizeOf(event.current.object());
        return size > needed ? `${call.actor} asks for ${size} nodes, and ${needed} were ever needed` : undefined;
      },
    };
  },
};

/** The bug: requested nodes are a separate counter, which a scale-down resets. */
function countsRequestedNodes(): ActorSpec {
  let upcoming = 0;
  let before = 0;
  return repeating("scaler", 80, [kinds.nodes, kinds.pods], async ({ outside: kube }, [nodes, pods]) => {
    const resize = async (change: number): Promise<void> => {
      const found = await kube.get(pool);
      if (!found.ok) return;
      const size = Math.max(0, sizeOf(found.value) + change);
      await kube.update(pool, { ...found.value, data: { size: String(size) } });
    };
    const [there, wanted] = [nodes?.view().objects.size ?? 0, pods?.view().objects.size ?? 0];
    upcoming = Math.max(0, upcoming - Math.max(0, there - before));
    before = there;
    const missing = wanted - there - upcoming;
    if (missing === 0) return;
    await resize(missing);
    upcoming = missing > 0 ? upcoming + missing : 0;
  });
}

/** The target is the number of pods. Nodes in flight are the target minus the existing nodes, and are not stored. */
function addSizing(controllers: Controllers): void {
  const pods = controllers.cache(kinds.pods);
  const maps = controllers.cache(kinds.configMaps);
  controllers.add({
    name: "sizing",
    sources: [kindSource(pods, () => ["default/pool"]), kindSource(maps, () => ["default/pool"])],
    reconcile: async (key, { cancel }) => {
      const object = maps.get(key);
      const { size } = pods.view().objects;
      if (object === undefined || sizeOf(object) === size) return undefined;
      const intent = {
        type: "patch",
        target: pool,
        expected: expectedOf(object),
        patch: { data: { size: String(size) } },
        why: `${size} pods need a node each`,
      } as const;
      const outcome = await applyIntent(controllers.outside, intent, { cancel });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

/** The cloud: a machine takes a while to start, and is deleted immediately. */
const cloud: ActorSpec = {
  ...repeating("cloud", 50, [kinds.configMaps, kinds.nodes], async ({ outside: kube, ports }, [maps, nodes]) => {
    const size = sizeOf(maps?.get("default/pool"));
    for (let index = 0; index < 12; index++) {
      const name = `n${index}`;
      const isThere = nodes?.get(name) !== undefined;
      if (index >= size && isThere) await kube.delete(at(kinds.nodes, name));
      if (index >= size || isThere) continue;
      await new Promise<void>((resolve) => ports.clock.after(150, resolve));
      await kube.create(kinds.nodes, plain("v1", "Node", "", name));
    }
  }),
  isExemptFromFaults: true,
};

const play = (variant: string, scaler: () => ActorSpec) =>
  scene({
    slug: "bought-twice",
    variant,
    about: "pods are created and deleted while machines are starting",
    faults: ["watch-delay", "slow-call"],
    invariants: [nothingBoughtTwice],
    setUp: async (kube) => {
      await kube.create(kinds.configMaps, configMap("pool", {}, { size: "0" }));
    },
    actors: () => [
      scaler(),
      cloud,
      person("user", async (ports) => {
        for (let round = 0; round < 5; round++) {
          for (const name of ["a", "b", "c"]) await ports.kube.create(kinds.pods, pod(name));
          await ports.sleep(250);
          await ports.kube.delete(at(kinds.pods, "a"), { gracePeriodSeconds: 0 });
          await ports.sleep(120);
          await ports.kube.delete(at(kinds.pods, "b"), { gracePeriodSeconds: 0 });
          await ports.sleep(300);
        }
      }),
    ],
  });

export const boughtTwice: Exhibit = {
  number: 41,
  slug: "bought-twice",
  title: "A request for nodes is lost during a scale-down, and is repeated",
  source: "kubernetes/autoscaler#9813, #9860",
  invariant: "I15",
  story: `
  autoscaler                          cloud
  3 pods, 0 nodes: +3, 3 coming  -->  target 3, machines boot
  a pod goes: one too many       -->  target 2
    "coming" is set to 0
  2 pods, 0 nodes, 0 coming: +2  -->  target 4, though two were on their way
  ... and again with every pod that goes

  There is one definition of what is coming: the target less what is there. The target follows from the pods alone.`,
  fixed: {
    name: "fixed",
    about: "the target is computed from the pods",
    scenario: play("fixed", () => controllersProcess("scaler", addSizing)),
  },
  buggy: [
    {
      name: "counts",
      about: "requested nodes are a counter",
      scenario: play("counts", countsRequestedNodes),
      firstSeeds: 10,
      schedule: [
        { key: "cloud|watch|/configmaps#1|MODIFIED|pool#1|watch-delay", value: 193_255 },
        { key: "scaler|watch|/nodes#1|ADDED|n2#2|watch-delay", value: 169_009 },
        { key: "scaler|watch|/pods#1|ADDED|b#4|watch-delay", value: 92_335 },
        { key: "cloud|watch|/configmaps#1|MODIFIED|pool#16|watch-delay", value: 162_514 },
        { key: "scaler|watch|/nodes#1|ADDED|n0#3|watch-delay", value: 291_488 },
      ],
    },
  ],
};

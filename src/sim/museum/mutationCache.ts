import type { KubeObject } from "../../model/object.ts";
import type { ActorPorts } from "../actor.ts";
import type { Invariant } from "../invariant.ts";
import { Mirror } from "../mirror.ts";
import { at, configMap, type Exhibit, every, kinds, person, process, scene } from "./exhibit.ts";

const sliceIsThere: Invariant = {
  id: "I8",
  fact: "what was deleted is not believed to exist: at rest the slice has been made again",
  begin: ({ store }) => ({
    atRest: () =>
      store.get("/configmaps", "default", "slice") === undefined ? "the slice is gone and nobody makes it" : undefined,
  }),
};

/** Keeps one slice in existence. Its own writes are remembered in a layer over the watch. */
async function keepSlice(ports: ActorPorts, listens: boolean): Promise<void> {
  const own = new Map<string, KubeObject>();
  /** What the watch shows replaces what we remember, as soon as it is as new. */
  const compare = (): void => {
    const slice = mirror.objects.get("default/slice");
    const remembered = own.get("slice");
    if (slice !== undefined && remembered !== undefined && isAsNew(slice, remembered)) own.delete("slice");
    // The fix: what the watch has passed is not remembered, whether the watch shows it or not.
    if (listens) forgetPassed(own, mirror.revision);
  };
  const mirror: Mirror = new Mirror(ports, kinds.configMaps, compare);
  const reconcile = async (): Promise<void> => {
    if (!mirror.synced) return;
    if ((mirror.objects.get("default/slice") ?? own.get("slice")) !== undefined) return;
    const outcome = await ports.kube.create(kinds.configMaps, configMap("slice"));
    if (!outcome.ok) return;
    // The mistake: the watch may have shown this write, and its deletion, before the answer came.
    own.set("slice", outcome.value);
    compare();
  };
  await Promise.all([mirror.run(), every(ports, 50, reconcile)]);
}

function forgetPassed(own: Map<string, KubeObject>, revision: number): void {
  for (const [name, { metadata }] of own) if (Number(metadata.resourceVersion) <= revision) own.delete(name);
}

function isAsNew(a: KubeObject, b: KubeObject): boolean {
  return Number(a.metadata.resourceVersion) >= Number(b.metadata.resourceVersion);
}

const play = (variant: string, listens: boolean) =>
  scene({
    slug: "mutation-cache",
    variant,
    about: "a controller keeps a slice in existence while somebody deletes it",
    faults: ["slow-call", "watch-delay", "watch-reorder", "slow-timer"],
    invariants: [sliceIsThere],
    actors: () => [
      person("vandal", async (ports) => {
        for (let round = 0; round < 40; round++) {
          await ports.sleep(60);
          await ports.kube.delete(at(kinds.configMaps, "slice"));
        }
      }),
      process("controller", (ports) => keepSlice(ports, listens)),
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
  fixed: { name: "fixed", about: "the watch's revision ends what is remembered", scenario: play("fixed", true) },
  buggy: [
    {
      name: "remembers",
      about: "only the object itself, seen again, ends what is remembered",
      scenario: play("remembers", false),
      firstSeeds: 60,
      schedule: [{ key: "controller|create|/configmaps/default/slice#1|answer|slow-call", value: 200_000 }],
    },
  ],
};

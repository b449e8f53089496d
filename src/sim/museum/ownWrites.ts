import type { ActorPorts } from "../actor.ts";
import type { Invariant } from "../invariant.ts";
import { Mirror } from "../mirror.ts";
import { at, configMap, type Exhibit, every, kinds, person, process, scene } from "./exhibit.ts";

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

/** Gives every parent one child. */
async function ensureChildren(ports: ActorPorts, remembers: boolean): Promise<void> {
  const mirror = new Mirror(ports, kinds.configMaps);
  const made = new Map<string, number>();
  const reconcile = async (): Promise<void> => {
    for (const { metadata } of [...mirror.objects.values()]) {
      if (metadata.labels?.["role"] !== "parent") continue;
      const { name } = metadata;
      const seen = [...mirror.objects.values()].some((object) => object.metadata.labels?.[parentLabel] === name);
      // The fix: our own write counts from now on, until the watch has passed its revision.
      const unseen = remembers && (made.get(name) ?? 0) > mirror.revision;
      if (seen || unseen) continue;
      const child = configMap("", { generateName: `${name}-`, labels: { [parentLabel]: name } });
      const outcome = await ports.kube.create(kinds.configMaps, child);
      if (outcome.ok) made.set(name, Number(outcome.value.metadata.resourceVersion));
    }
  };
  await Promise.all([mirror.run(), every(ports, 30, reconcile)]);
}

const play = (variant: string, remembers: boolean) =>
  scene({
    slug: "own-writes",
    variant,
    about: "a controller gives every parent one child, and its watch is late",
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
      process("controller", (ports) => ensureChildren(ports, remembers)),
    ],
  });

export const ownWrites: Exhibit = {
  number: 54,
  slug: "own-writes",
  title: "A controller does not see its own write, and writes again",
  source: "kubernetes/kubernetes#129795, #134937; kubernetes-sigs/cluster-api#13649",
  invariant: "I19",
  story: `
  controller                       API                     its watch
  p has no child: create one  -->  p-x1, revision 7        (late)
  p has no child: create one  -->  p-q4, revision 8        (late)
                                                           p-x1, p-q4
  A write that was answered counts until the watch has passed its revision.`,
  fixed: { name: "fixed", about: "own writes count until they are seen", scenario: play("fixed", true) },
  buggy: [
    {
      name: "forgets",
      about: "only what the watch has shown counts",
      scenario: play("forgets", false),
      firstSeeds: 50,
      // What comes first holds up what comes behind it: the child, too.
      schedule: [{ key: "controller|watch|/configmaps#1|ADDED|noise0#1|watch-delay", value: 500_000 }],
    },
  ],
};

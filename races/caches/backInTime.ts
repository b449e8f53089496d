import type { ActorPorts } from "../../src/sim/actor.ts";
import { runControllers } from "../../src/sim/controllersProcess.ts";
import { cachesAreComplete, neverGoesBack } from "../../src/sim/invariants/general.ts";
import { at, configMap, every, kinds, person, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

/** The product's own cache, which never goes back to an older revision. */
function follow(ports: ActorPorts): Promise<void> {
  return runControllers(ports, (controllers) => void controllers.cache(kinds.configMaps));
}

/** The bug: resourceVersion 0 accepts any revision, also one older than what this client has observed. */
function listAnything(ports: ActorPorts): Promise<void> {
  return every(ports, 200, async () => {
    const list = await ports.kube.list(kinds.configMaps, { resourceVersion: "0" });
    if (list.ok) ports.observe("revision", { kind: "/configmaps", revision: Number(list.value.revision) });
  });
}

const play = (variant: string, floor: boolean) =>
  scene({
    slug: "back-in-time",
    variant,
    about: "a client relists, and each time another replica of the API may answer",
    faults: [
      "stale-read",
      "lagging-replica",
      "no-streaming",
      "partial-page",
      "dropped-event",
      "compaction-gap",
      "slow-call",
    ],
    invariants: [neverGoesBack, cachesAreComplete],
    setUp: async (kube) => {
      await kube.create(kinds.configMaps, configMap("c"));
    },
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 40; round++) {
          await ports.sleep(80);
          await ports.kube.patch(at(kinds.configMaps, "c"), {
            type: "merge",
            body: { data: { round: String(round) } },
          });
        }
      }),
      process("kubelet", floor ? follow : listAnything),
    ],
  });

export const backInTime: Exhibit = {
  number: 50,
  slug: "back-in-time",
  title: "A list from a lagging replica moves a client back in time",
  source: "kubernetes/kubernetes#59848, #67998, #83520",
  invariant: "I8",
  story: `
  kubelet                     replica A (revision 40)      replica B (revision 31)
  list, any revision     -->  40: pod p was deleted
  the connection breaks
  list, any revision     ------------------------------->  31: pod p exists
  runs p again, on this node, while it runs on another
  A client remembers the newest revision it has seen, and refuses an answer that is older.`,
  fixed: { name: "fixed", about: "an older list is rejected and repeated", scenario: play("fixed", true) },
  buggy: [
    {
      name: "any-revision",
      about: "any list is accepted",
      scenario: play("any-revision", false),
      firstSeeds: 20,
      schedule: [
        { key: "kubelet|list|/configmaps#4|stale-read", value: 700 },
        // The same by a watch: it loses an event, and a lagging replica serves the list.
        { key: "kubelet|watch|/configmaps#1|MODIFIED|c#9|dropped-event", value: 100 },
        { key: "kubelet|watch|/configmaps#2|lagging-replica", value: 700 },
      ],
    },
  ],
};

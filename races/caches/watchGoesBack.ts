import { keyOfObject } from "../../src/model/intent.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { refused } from "../../src/model/outcome.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { runControllers } from "../../src/sim/controllersProcess.ts";
import { cachesAreComplete, neverGoesBack } from "../../src/sim/invariants/general.ts";
import { at, configMap, kinds, person, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

/** A store with two watch bugs: after a partition watches repeat old events, and a slow watch loses events. */
function shakyStore(ports: ActorPorts, losesSilently: boolean): KubeApi {
  const { kube } = ports;
  return Object.assign(Object.create(kube) as KubeApi, {
    watch: (...[kind, options, sink]: Parameters<KubeApi["watch"]>) => {
      const { resourceVersion: from } = options;
      const back = ports.choose("resumes-behind", (dice) => (dice.perMille(300) ? dice.between(1, 5) : 0));
      const resumed = from === undefined ? {} : { resourceVersion: String(Math.max(1, Number(from) - back)) };
      let ended = false;
      const watch = kube.watch(
        kind,
        { ...options, ...resumed },
        {
          ended: (why) => {
            if (!ended) sink.ended(why);
          },
          event: (event) => {
            if (ended) return;
            const starved =
              event.type !== "BOOKMARK" && ports.choose("starves", (dice) => (dice.perMille(40) ? 1 : 0)) > 0;
            if (!starved) return sink.event(event);
            ports.note("the watch starves and its buffer overflows");
            if (losesSilently) return;
            ended = true;
            watch.stop();
            sink.ended(refused("Unavailable", "the watcher was too slow"));
          },
        },
      );
      return watch;
    },
  });
}

/** A client that applies all events of a stream in their order. */
async function believeEverything(ports: ActorPorts, kube: KubeApi): Promise<void> {
  const objects = new Map<string, KubeObject>();
  let revision = "1";
  ports.observe("mirror", { kind: "/configmaps", objects: () => objects });
  while (!ports.cancel.cancelled) {
    await new Promise<void>((resolve) => {
      const watch = kube.watch(
        kinds.configMaps,
        { resourceVersion: revision },
        {
          event: (event) => {
            if (event.type === "BOOKMARK") return;
            if (event.type === "DELETED") objects.delete(keyOfObject(event.object));
            else objects.set(keyOfObject(event.object), event.object);
            // The bug: an event may be older than the cached object.
            revision = event.object.metadata.resourceVersion;
            ports.observe("revision", { kind: "configmaps", revision: Number(revision) });
          },
          ended: () => resolve(),
        },
      );
      ports.cancel.onCancel(() => {
        watch.stop();
        resolve();
      });
    });
    await ports.sleep(20);
  }
}

const play = (variant: string, options: { believes: boolean; losesSilently: boolean }) =>
  scene({
    slug: "watch-goes-back",
    variant,
    about: "a client watches a store whose watches break and resume",
    faults: ["stream-cut", "watch-delay"],
    invariants: [neverGoesBack, cachesAreComplete],
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 30; round++) {
          await ports.kube.create(kinds.configMaps, configMap(`c${round % 4}`));
          await ports.sleep(60);
          await ports.kube.delete(at(kinds.configMaps, `c${(round + 2) % 4}`));
        }
      }),
      process("reader", async (ports) => {
        const kube = shakyStore(ports, options.losesSilently);
        if (options.believes) await believeEverything(ports, kube);
        else await runControllers({ ...ports, kube }, (controllers) => void controllers.cache(kinds.configMaps));
      }),
    ],
  });

export const watchGoesBack: Exhibit = {
  number: 52,
  slug: "watch-goes-back",
  title: "A watch repeats old events after a partition, or loses events when it is slow",
  source: "etcd-io/etcd#15271, #17529, #18089, #20418",
  invariant: "I8",
  story: `
  store                          client
  rev 20: c1 deleted        -->  c1 is gone, revision 20
  the stream breaks
  resumes from revision 17  -->  c1 exists again, revision 18      back in time
  or: the buffer is full, rev 21 is left out, rev 22 follows       an unseen hole
  The client ignores what is not newer than what it knows; the store ends a stream that it cannot keep whole.`,
  fixed: {
    name: "fixed",
    about: "older events are ignored, and a stream that is too slow ends",
    scenario: play("fixed", { believes: false, losesSilently: false }),
  },
  buggy: [
    {
      name: "goes-back",
      about: "the client applies old events",
      scenario: play("goes-back", { believes: true, losesSilently: false }),
      firstSeeds: 20,
      schedule: [
        { key: "reader|watch|/configmaps#1|ADDED|c3#1|stream-cut", value: 1 },
        { key: "reader|resumes-behind#2", value: 3 },
      ],
    },
    {
      name: "loses-when-starved",
      invariant: "I9",
      about: "the store skips events and continues the stream",
      scenario: play("loses-when-starved", { believes: false, losesSilently: true }),
      firstSeeds: 50,
      schedule: [{ key: "reader|starves#57", value: 1 }],
    },
  ],
};

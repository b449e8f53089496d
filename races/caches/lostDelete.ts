import { refused } from "../../src/model/outcome.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { runControllers } from "../../src/sim/controllersProcess.ts";
import { cachesAreComplete } from "../../src/sim/invariants/general.ts";
import { at, configMap, kinds, person, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

/** A watch cache between the client and the store that sometimes cannot decode a deletion. */
function watchCache(ports: ActorPorts, honest: boolean): KubeApi {
  const { kube } = ports;
  return Object.assign(Object.create(kube) as KubeApi, {
    watch: (...[kind, options, sink]: Parameters<KubeApi["watch"]>) => {
      let broken = false;
      const watch = kube.watch(kind, options, {
        ended: (why) => {
          if (!broken) sink.ended(why);
        },
        event: (event) => {
          if (broken) return;
          const bad =
            event.type === "DELETED" && ports.choose("undecodable", (dice) => (dice.perMille(80) ? 1 : 0)) > 0;
          if (!bad) return sink.event(event);
          ports.note(`the watch cache cannot decode the deletion of ${event.object.metadata.name}`);
          // The bug: the event is skipped, so the client never observes the deletion.
          if (!honest) return;
          broken = true;
          watch.stop();
          sink.ended(refused("Unavailable", "an event could not be decoded"));
        },
      });
      return watch;
    },
  });
}

const play = (variant: string, honest: boolean) =>
  scene({
    slug: "lost-delete",
    variant,
    about: "a client watches objects through a watch cache that cannot decode an event",
    faults: ["watch-delay"],
    invariants: [cachesAreComplete],
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 20; round++) {
          await ports.kube.create(kinds.configMaps, configMap(`c${round}`));
          await ports.sleep(100);
          await ports.kube.delete(at(kinds.configMaps, `c${round}`));
        }
      }),
      process("reader", (ports) =>
        runControllers({ ...ports, kube: watchCache(ports, honest) }, (controllers) => {
          controllers.cache(kinds.configMaps);
        }),
      ),
    ],
  });

export const lostDelete: Exhibit = {
  number: 51,
  slug: "lost-delete",
  title: "A watch cache loses a deletion, and the deleted object stays in caches for a day",
  source: "kubernetes/kubernetes#123072, #76624",
  invariant: "I9",
  story: `
  store                 watch cache                      client
  c3 deleted, rev 9 ->  cannot decode it, leaves it out  still sees c3
  c4 created, rev 10 -> ADDED c4                    -->  revision 10: up to date, with a deleted object
  Nothing ever tells the client. A bad event must end the stream: the client resumes before it, or lists again.`,
  fixed: { name: "fixed", about: "an event that cannot be decoded ends the stream", scenario: play("fixed", true) },
  buggy: [
    {
      name: "skips",
      about: "an event that cannot be decoded is skipped",
      scenario: play("skips", false),
      firstSeeds: 20,
      schedule: [{ key: "reader|undecodable#3", value: 1 }],
    },
  ],
};

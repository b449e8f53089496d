import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import { expectedOf, type Intent } from "../../src/model/intent.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, carryOut, inFlightOf, kinds, person, pod } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const boundToItsNode: Invariant = {
  id: "I7",
  fact: "a bind applies to the pod that it was decided for",
  begin: () => ({
    commit: ({ event, call }) => {
      if (call.verb !== "bind" || event.current.resource !== "/pods") return undefined;
      const { metadata, spec } = event.current.object() as {
        metadata: { labels?: Record<string, string> };
        spec?: object;
      };
      const wants = metadata.labels?.["wants"];
      const { nodeName } = spec as { nodeName?: string };
      return nodeName === wants ? undefined : `${event.current.key} wants ${wants} and was bound to ${nodeName}`;
    },
  }),
};

/** Binds every pod to the node in its annotation. */
function bindPods(controllers: Controllers, ports: ActorPorts, byUid: boolean): void {
  const pods = controllers.cache(kinds.pods);
  const inFlight = inFlightOf(controllers, [kinds.pods]);
  controllers.add({
    name: "scheduler",
    sources: [kindSource(pods, forObject())],
    reconcile: async (key, turn) => {
      const found = pods.get(key);
      if (found === undefined || (found["spec"] as { nodeName?: string }).nodeName) return undefined;
      const { name, labels } = found.metadata;
      const node = labels?.["wants"] ?? "";
      const target = at(kinds.pods, name);
      if (byUid) {
        const intent: Intent = { type: "bind", target, node, expected: expectedOf(found), why: `${name} wants it` };
        return carryOut(inFlight, { intent, effects: [] }, turn);
      }
      // The bug: the bind applies to any pod of this name. An empty UID disables the precondition.
      const outcome = await ports.kube.bind(target, { node, uid: "" });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

const play = (variant: string, byUid: boolean) =>
  scene({
    slug: "bind-by-name",
    variant,
    about: "a scheduler binds a pod while its owner deletes it and creates another one of the same name",
    faults: ["slow-call", "timeout-before", "watch-delay"],
    invariants: [boundToItsNode],
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 0; round < 12; round++) {
          const wants = round % 2 === 0 ? "left" : "right";
          await ports.kube.delete(at(kinds.pods, "p"), { gracePeriodSeconds: 0 });
          await ports.kube.create(kinds.pods, pod("p", { labels: { wants } }));
          await ports.sleep(250);
        }
      }),
      controllersProcess("scheduler", (controllers, ports) => bindPods(controllers, ports, byUid)),
    ],
  });

export const bindByName: Exhibit = {
  number: 16,
  slug: "bind-by-name",
  title: "A bind for one pod is applied to another pod of the same name",
  source: "kubernetes/kubernetes#102761",
  invariant: "I7",
  story: `
  scheduler           API                        owner
  p wants left
  bind p to left ---\\
                     \\ p is gone            <--  delete p
                      \\ p again, wants right <--  create p
                       -> p is bound to left     a pod on a node that its spec forbids
  The UID travels with the bind: another p is refused.`,
  fixed: { name: "fixed", about: "the bind carries UID and resourceVersion", scenario: play("fixed", true) },
  buggy: [
    {
      name: "by-name",
      about: "the bind has only the name of the pod",
      scenario: play("by-name", false),
      firstSeeds: 50,
      schedule: [{ key: "scheduler|bind|/pods/default/p#1|request|slow-call", value: 400_000 }],
    },
  ],
};

import { isWarm } from "../../src/decide/inventory/podUse.ts";
import { destroyAfterLooking } from "../../src/intents/lookAgain.ts";
import { type DeleteIntent, expectedOf } from "../../src/model/intent.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, every, kinds, person, pod, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const claimedPodsStay: Invariant = {
  id: "I13",
  fact: "a warm pod that was assigned to a user is not evicted",
  begin: () => ({
    commit: ({ event, call }) => {
      if (event.current.resource !== "/pods" || !event.current.deleted || call.actor !== "evictor") return undefined;
      const state = event.previous?.object().metadata.labels?.["warm-state"];
      return state === "claimed" ? `${event.current.name} was evicted although it was assigned to a user` : undefined;
    },
  }),
};

type Evict = (ports: ActorPorts, victim: KubeObject, revision: string) => Promise<unknown>;

const play = (variant: string, evict: Evict) =>
  scene({
    slug: "warm-claim",
    variant,
    about: "warm pods are assigned to users, and evicted when their GPUs are needed",
    faults: ["slow-call", "timeout-before", "busy"],
    invariants: [claimedPodsStay],
    actors: () => [
      person("processor", async (ports) => {
        for (let round = 0; round < 10; round++) {
          const name = `warm-${round}`;
          await ports.kube.create(kinds.pods, pod(name, { labels: { app: "gpu-dev-warm", "warm-state": "ready" } }));
          await ports.sleep(150 + (ports.random.uint32() % 100));
          await ports.kube.patch(at(kinds.pods, name), {
            type: "merge",
            body: { metadata: { labels: { "warm-state": "claimed" } } },
          });
          await ports.sleep(100);
        }
      }),
      process("evictor", async (ports) => {
        await every(ports, 70, async () => {
          const listed = await ports.kube.list(kinds.pods, { namespace: "default", labelSelector: "app=gpu-dev-warm" });
          if (!listed.ok) return;
          const victim = listed.value.items.find((found) => isWarm(found as unknown as Pod));
          // Other actors write between the read and the delete.
          await ports.sleep(60);
          if (victim !== undefined) await evict(ports, victim, listed.value.revision);
        });
      }),
    ],
  });

const byName: Evict = (ports, { metadata }) =>
  ports.kube.delete(at(kinds.pods, metadata.name), { gracePeriodSeconds: 0 });

/** The remaining window upstream: the label is read again, and the delete has no precondition. */
const afterReading: Evict = async (ports, { metadata }) => {
  const found = await ports.kube.get(at(kinds.pods, metadata.name));
  if (!found.ok || !isWarm(found.value as unknown as Pod)) return;
  await ports.sleep(20);
  await ports.kube.delete(at(kinds.pods, metadata.name), { gracePeriodSeconds: 0 });
};

const afterLooking: Evict = async (ports, victim, revision) => {
  const intentOf = (found: KubeObject): DeleteIntent => ({
    type: "delete",
    target: at(kinds.pods, found.metadata.name),
    expected: expectedOf(found),
    gracePeriodSeconds: 0,
    why: "its room is needed",
  });
  await destroyAfterLooking(
    ports.kube,
    intentOf(victim),
    ({ object }) =>
      object !== undefined && isWarm(object as unknown as Pod)
        ? { still: intentOf(object) }
        : { noLongerDue: "it was handed over" },
    { atLeast: revision },
  );
};

export const warmClaim: Exhibit = {
  number: 46,
  slug: "warm-claim",
  title: "A warm pod is evicted while it is being assigned to a user",
  source: "wdvr/osdc@d095369",
  invariant: "I13",
  story: `
  processor              API                      evictor
                                                  list: w is warm and ready
  label w claimed  -->   w belongs to a user
                                            <--   delete w
  The label read once more just before the delete leaves a smaller window. The version that was read goes
  with the delete: a pod that was claimed since is another one.`,
  fixed: {
    name: "fixed",
    about: "reads again, and deletes with the version that was read",
    scenario: play("fixed", afterLooking),
  },
  buggy: [
    {
      name: "by-name",
      about: "deletes by a list without reading again",
      scenario: play("by-name", byName),
      firstSeeds: 30,
      schedule: [{ key: "evictor|delete|/pods/default/warm-0#1|request|slow-call", value: 300_000 }],
    },
    {
      name: "label-read-again",
      about: "reads the label again, then deletes by name",
      scenario: play("label-read-again", afterReading),
      firstSeeds: 60,
      schedule: [{ key: "evictor|delete|/pods/default/warm-0#1|request|slow-call", value: 300_000 }],
    },
  ],
};

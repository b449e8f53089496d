import { applyIntent } from "../../src/intents/applyIntent.ts";
import { expectedOf } from "../../src/model/intent.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, configMap, kinds, person, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const statusOf = (object: KubeObject): string =>
  (object["data"] as Record<string, string> | undefined)?.["status"] ?? "";

const endsOnce: Invariant = {
  id: "I11",
  fact: "a reservation that was cancelled stays cancelled",
  begin: () => {
    const over = new Set<string>();
    return {
      commit: ({ event, call }) => {
        if (event.current.resource !== "/configmaps" || event.current.deleted) return undefined;
        const object = event.current.object();
        const status = statusOf(object);
        if (status === "cancelled") over.add(object.metadata.uid);
        else if (over.has(object.metadata.uid)) return `${call.actor} made ${object.metadata.name} ${status} again`;
        return undefined;
      },
    };
  },
};

type Start = (ports: ActorPorts, seen: KubeObject) => Promise<boolean>;

/** A queue redelivers a message that was not acknowledged in time. */
const play = (variant: string, start: Start) =>
  scene({
    slug: "revived-reservation",
    variant,
    about: "a user cancels a reservation while the queue redelivers its message",
    faults: ["slow-call", "timeout-before", "timeout-after", "restart"],
    invariants: [endsOnce],
    actors: () => {
      const queue: KubeObject[] = [];
      return [
        person("user", async (ports) => {
          for (let round = 0; round < 5; round++) {
            const made = await ports.kube.create(kinds.configMaps, configMap(`r${round}`, {}, { status: "pending" }));
            if (!made.ok) continue;
            // Delivered twice: the first delivery was not acknowledged in time.
            queue.push(made.value);
            await ports.sleep(150);
            for (;;) {
              const outcome = await ports.kube.patch(at(kinds.configMaps, `r${round}`), {
                type: "merge",
                body: { data: { status: "cancelled" } },
              });
              if (outcome.ok) break;
              await ports.sleep(50);
            }
            queue.push(made.value);
            await ports.sleep(400);
          }
        }),
        process("worker", async (ports) => {
          while (!ports.cancel.cancelled) {
            const [message] = queue;
            if (message !== undefined && (await start(ports, message))) queue.shift();
            await ports.sleep(60);
          }
        }),
      ];
    },
  });

const put: Start = async (ports, seen) => {
  const outcome = await ports.kube.patch(at(kinds.configMaps, seen.metadata.name), {
    type: "merge",
    body: { data: { status: "active" } },
  });
  return outcome.ok;
};

/** The write carries its precondition, and a conflict means: read again. */
const startIfPending: Start = async (ports, seen) => {
  const target = at(kinds.configMaps, seen.metadata.name);
  const found = await ports.kube.get(target);
  if (!found.ok) return found.reason === "NotFound";
  if (statusOf(found.value) !== "pending") return true;
  const patch = { data: { status: "active" } };
  const intent = { type: "patch", target, expected: expectedOf(found.value), patch, why: "its turn has come" } as const;
  return (await applyIntent(ports.kube, intent, {})).ok;
};

export const revivedReservation: Exhibit = {
  number: 45,
  slug: "revived-reservation",
  title: "A redelivered message reactivates a cancelled reservation",
  source: "wdvr/osdc@ff11d06, @874599a",
  invariant: "I11",
  story: `
  user                 reservation            queue and worker
  make r          -->  pending         -->    message r
                       active          <--    put r active; the answer is late
  cancel r        -->  cancelled
                                              no confirmation in time: message r again
                       active again    <--    put r active: a pod, and a disk, without a user
  The status is read again, and the write carries the version that was read.`,
  fixed: {
    name: "fixed",
    about: "reads again, and writes with a precondition",
    scenario: play("fixed", startIfPending),
  },
  buggy: [
    {
      name: "unconditional-put",
      about: "processes the message without reading the reservation",
      scenario: play("unconditional-put", put),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};

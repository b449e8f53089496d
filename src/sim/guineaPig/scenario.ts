import type { KubeObject } from "../../model/object.ts";
import {
  changesWhatItSaw,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  intentsEndOnce,
  mirrorsAreComplete,
  neverGoesBack,
  statusKeepsUp,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import type { Scenario } from "../scenario.ts";
import { absenceIsAsked, claimedPodsStay, ownWritesCount, setsAreFilled } from "./invariants.ts";
import { type Mistake, PodSetController, setKind } from "./podSet.ts";
import { setNamed, user } from "./user.ts";

const controllers = ["ann", "bob"];
const held = (actor: string): boolean => controllers.includes(actor);

/** Two controllers of which one leads, and people who keep them busy, under all faults. */
export function podSetScenario(mistake?: Mistake): Scenario {
  return {
    name: mistake === undefined ? "pod-sets" : `pod-sets/${mistake}`,
    about: "a controller that keeps pods for sets, with a stand-by, under every fault",
    setUp: async (kube) => {
      await kube.create({ group: "", version: "v1", plural: "namespaces" }, namespaceDefault);
      await kube.create(setKind, setNamed("red", 2));
    },
    actors: () => [
      ...controllers.map((name) => ({
        name,
        run: (ports: ConstructorParameters<typeof PodSetController>[0]) => new PodSetController(ports, mistake).run(),
      })),
      user({ name: "user", acts: 14, spanMs: 18_000 }),
    ],
    invariants: [
      destroysTheSameObject(held),
      claimedPodsStay(held),
      absenceIsAsked(held),
      destroysWhatItLookedAt(held),
      changesWhatItSaw(held),
      ownWritesCount(held),
      oneEpochWrites(held, "pod-sets"),
      neverGoesBack,
      mirrorsAreComplete,
      intentsEndOnce,
      statusKeepsUp,
      setsAreFilled,
    ],
    shakenMs: 20_000,
    settleMs: 60_000,
    quietMs: 10_000,
    humming: ["coordination.k8s.io/leases"],
  };
}

const namespaceDefault = { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } } as KubeObject;

import type { Controllers } from "../../control/runtime/controllers.ts";
import type { Unstored } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { controllersProcess } from "../controllersProcess.ts";
import {
  cachesAreComplete,
  changesWhatItSaw,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  intentsEndOnce,
  neverGoesBack,
  statusKeepsUp,
  writesChangeSomething,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import { type Scenario, watchesRestMs } from "../scenario.ts";
import {
  absenceIsAsked,
  claimedPodsStay,
  ownCreatesCount,
  ownWritesCount,
  removedIsRemoved,
  setsAreFilled,
} from "./invariants.ts";
import { leadsForEver } from "./leadsForEver.ts";
import type { Mistake } from "./mistakes.ts";
import { PodSets } from "./podSet.ts";
import { setKind } from "./podSetObjects.ts";
import { setNamed, user } from "./user.ts";

const controllers = ["ann", "bob"];
const held = (actor: string): boolean => controllers.includes(actor);

/** Two controllers of which one is the leader, and users, under all faults. */
export function podSetScenario(mistake?: Mistake): Scenario {
  return {
    name: mistake === undefined ? "pod-sets" : `pod-sets/${mistake}`,
    about: "a controller that keeps pods for sets, with a stand-by, under every fault",
    setUp: async (kube) => {
      await kube.create(builtin.Namespace, namespaceDefault);
      await kube.create(setKind, setNamed("red", 2));
    },
    actors: () => [
      ...controllers.map((name) => process(name, mistake)),
      user({ name: "user", acts: 14, spanMs: 18_000 }),
    ],
    invariants: [
      destroysTheSameObject(held),
      claimedPodsStay(held),
      absenceIsAsked(held),
      destroysWhatItLookedAt(held),
      changesWhatItSaw(held),
      ownWritesCount(held),
      ownCreatesCount(held),
      removedIsRemoved,
      oneEpochWrites(held, "pod-sets"),
      neverGoesBack,
      writesChangeSomething(held),
      cachesAreComplete,
      intentsEndOnce,
      statusKeepsUp,
      setsAreFilled,
    ],
    faultPhaseMs: 20_000,
    settleMs: 200_000,
    quietMs: watchesRestMs,
    ignoredForQuiescence: ["coordination.k8s.io/leases"],
  };
}

function process(name: string, mistake: Mistake | undefined): ActorSpec {
  const add = (controllers: Controllers, ports: ActorPorts): void => {
    new PodSets(controllers, ports, mistake);
  };
  if (mistake === "keeps-leading") return { name, run: (ports) => leadsForEver(ports, add) };
  return controllersProcess(name, add, { lease: { namespace: "default", name: "pod-sets" } });
}

const namespaceDefault: Unstored = { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } };

import { addGangReconcilers, gangComponent } from "../../control/gang/gangComponent.ts";
import { defaultGangSettings, type FullLossPolicy, type GangSettings } from "../../model/gang/settings.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts } from "../actor.ts";
import { controllersProcess, runControllers } from "../controllersProcess.ts";
import {
  cachesAreComplete,
  changesWhatItSaw,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  neverGoesBack,
  statusKeepsUp,
  writesChangeSomething,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import { type Mistake, mistaken } from "../mistake.ts";
import { type Scenario, watchesRestMs } from "../scenario.ts";
import { beat, makeNamespaces } from "../workloads/cast.ts";
import {
  cliquesEndOnRecord,
  endsHaveACause,
  endsTheSameObject,
  endsWhatItLookedAt,
  gangsAreWhole,
  gatesWaitForTheGang,
  lossesAreReportedOnce,
  ownPodsOfCliquesCount,
  regressionsAreFlagged,
  statusIsOfItsObject,
  terminationsAreReportedOnce,
} from "./invariants.ts";
import { addCluster, heart, Machines, nodeNames, register } from "./nodes.ts";
import { gangSet, gangUser } from "./user.ts";

const operators = ["ann", "bob"];
const held = (actor: string): boolean => operators.includes(actor);
const lease = { namespace: "default", name: "gang" };

export const simGangSettings = (fullLossPolicy: FullLossPolicy): GangSettings => ({
  ...defaultGangSettings,
  fullLossPolicy,
  profiles: ["default-scheduler"],
  startOrder: { by: "container", image: "registry/initc:1" },
});

/**
 * Two operators of which one is the leader, gangs that are created, scaled, changed and recreated, and nodes that stop
 * reporting or are deleted with all their pods. `gang/<mistake>` has one classic bug.
 */
export function gangScenario(policy: FullLossPolicy = "Suppress", mistake?: Mistake): Scenario {
  const settings = simGangSettings(policy);
  const name = policy === "Suppress" ? "gang" : "gang/terminate";
  return {
    name: mistake === undefined ? name : `${name}/${mistake.name}`,
    about: `gangs are created, scaled, changed and recreated while nodes are lost, under all faults; full loss: ${policy}`,
    components: [gangComponent(settings)],
    serverLoops: true,
    setUp: (kube) => setUpGangs(kube),
    actors: () => {
      const machines = new Machines();
      return [
        ...operators.map((operator) => ({
          name: operator,
          run: (ports: ActorPorts) =>
            runControllers(mistaken(ports, mistake), (controllers) => void addGangReconcilers(controllers, settings), {
              lease,
            }),
        })),
        { ...controllersProcess("cluster", addCluster(machines)), isExemptFromFaults: true },
        heart(machines),
        gangUser({ name: "user", acts: 16, spanMs: 24_000, machines }),
      ];
    },
    invariants: [
      gatesWaitForTheGang(held),
      regressionsAreFlagged(policy),
      lossesAreReportedOnce,
      terminationsAreReportedOnce,
      cliquesEndOnRecord(held),
      endsHaveACause(held),
      ownPodsOfCliquesCount(held),
      endsTheSameObject(held),
      endsWhatItLookedAt(held),
      destroysTheSameObject(held),
      destroysWhatItLookedAt(held),
      changesWhatItSaw(held),
      oneEpochWrites(held, lease.name),
      neverGoesBack,
      writesChangeSomething(held),
      cachesAreComplete,
      statusKeepsUp,
      statusIsOfItsObject(held),
      gangsAreWhole,
    ],
    faultPhaseMs: 26_000,
    settleMs: 240_000,
    quietMs: watchesRestMs,
    ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
  };
}

export async function setUpGangs(kube: KubeApi): Promise<void> {
  await makeNamespaces(kube);
  for (const name of nodeNames) {
    await register(kube, name, 0);
    await beat(kube, name, 0);
  }
  await kube.create({ group: "grove.io", version: "v1alpha1", plural: "podcliquesets" }, gangSet("red", 1));
}

import type { Controllers } from "../../control/controllers.ts";
import { addGangTurns, gangPart } from "../../control/gang/gangPart.ts";
import { defaultGangSettings, type FullLossPolicy, type GangSettings } from "../../model/gang/settings.ts";
import type { KubeObject } from "../../model/object.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { controllersProcess } from "../controllersProcess.ts";
import {
  changesWhatItSaw,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  mirrorsAreComplete,
  neverGoesBack,
  statusKeepsUp,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import type { Scenario } from "../scenario.ts";
import { tinyKubelet } from "../workloads/tinyKubelet.ts";
import { tinyScheduler } from "../workloads/tinyScheduler.ts";
import {
  cliquesEndOnRecord,
  endsHaveACause,
  endsTheSameObject,
  endsWhatItLookedAt,
  gangsAreWhole,
  gatesWaitForTheGang,
  lossesAreToldOnce,
  ownPodsOfCliquesCount,
  regressionsAreFlagged,
  statusIsOfItsObject,
} from "./invariants.ts";
import { gangNode, gangSet, gangUser, nodeNames } from "./user.ts";

const operators = ["ann", "bob"];
const held = (actor: string): boolean => operators.includes(actor);
const lease = { namespace: "default", name: "gang" };

export const simGangSettings = (fullLossPolicy: FullLossPolicy): GangSettings => ({
  ...defaultGangSettings,
  fullLossPolicy,
  profiles: ["default-scheduler"],
  startOrder: { by: "container", image: "registry/initc:1" },
});

/** Two operators of which one leads, gangs that are made, scaled, changed and remade, and nodes that go with all their pods. */
export function gangScenario(policy: FullLossPolicy = "Suppress"): Scenario {
  const settings = simGangSettings(policy);
  return {
    name: policy === "Suppress" ? "gang" : "gang/terminate",
    about: `gangs that are made, scaled, changed and remade on nodes that are lost, under every fault; full loss: ${policy}`,
    parts: [gangPart(settings)],
    serverLoops: true,
    setUp: (kube) => setUpGangs(kube),
    actors: () => [
      ...operators.map((name) =>
        controllersProcess(name, (controllers) => void addGangTurns(controllers, settings), { lease }),
      ),
      { ...controllersProcess("cluster", addCluster), sheltered: true },
      gangUser({ name: "user", acts: 16, spanMs: 24_000 }),
    ],
    invariants: [
      gatesWaitForTheGang(held),
      regressionsAreFlagged(policy),
      lossesAreToldOnce,
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
      mirrorsAreComplete,
      statusKeepsUp,
      statusIsOfItsObject(held),
      gangsAreWhole,
    ],
    shakenMs: 26_000,
    settleMs: 240_000,
    // A watch that was refused may be tried again after half a minute.
    quietMs: 40_000,
    humming: ["coordination.k8s.io/leases", "/events"],
  };
}

/** What places pods, and what runs them. */
function addCluster(controllers: Controllers): void {
  tinyScheduler(controllers);
  tinyKubelet(controllers);
}

export async function setUpGangs(kube: KubeApi): Promise<void> {
  const namespaces = { group: "", version: "v1", plural: "namespaces" };
  await kube.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } } as KubeObject);
  const nodes = { group: "", version: "v1", plural: "nodes" };
  for (const name of nodeNames) {
    const node = gangNode(name);
    const made = await kube.create(nodes, node);
    if (!made.ok) continue;
    await kube.update(
      { ...nodes, namespace: "", name, subresource: "status" },
      { ...made.value, status: node["status"] },
    );
  }
  await kube.create({ group: "grove.io", version: "v1alpha1", plural: "podcliquesets" }, gangSet("red", 1));
}

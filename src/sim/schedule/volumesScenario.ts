import type { Controllers } from "../../control/runtime/controllers.ts";
import { addEphemeralVolumes } from "../../control/workloads/ephemeralVolumes.ts";
import { addVolumes } from "../../control/workloads/volumes.ts";
import { WorkloadCaches } from "../../control/workloads/workloadCaches.ts";
import { controllersProcess } from "../controllersProcess.ts";
import type { Scenario } from "../scenario.ts";
import {
  keepsVolumes,
  podsReachTheirVolumes,
  volumeHasOneClaim,
  volumesSettle,
} from "../workloads/volumeInvariants.ts";
import { makeClasses, volumeUser } from "../workloads/volumeUser.ts";
import { scheduleWith } from "./scenario.ts";

/** The simulated nodes of the scenario `schedule`. */
const nodes = ["l40s-0", "l40s-1"];
const writesVolumes = (actor: string): boolean => actor === "volumes" || actor === "binder";
const base = scheduleWith(undefined, volumeUser({ nodes, selectsNodes: false, acts: 36, spanMs: 12_000 }));

/** Pods with claims that wait for a node, through schedulers, binder and the controllers of volumes. */
export const volumesScenario: Scenario = {
  ...base,
  name: "schedule/volumes",
  about: "pods with claims that wait for their node are placed, deleted and created again, under all faults",
  setUp: async (kube) => {
    await base.setUp?.(kube);
    await makeClasses(kube);
  },
  actors: () => [...base.actors(), controllersProcess("volumes", addVolumeControllers)],
  invariants: [
    ...base.invariants,
    volumeHasOneClaim(writesVolumes),
    keepsVolumes(writesVolumes),
    podsReachTheirVolumes,
    volumesSettle,
  ],
};

/** Without node lifecycle: the kubelets of the scenario report rarely. */
function addVolumeControllers(controllers: Controllers): void {
  const caches = new WorkloadCaches(controllers);
  addVolumes(controllers, caches);
  addEphemeralVolumes(controllers, caches);
}

import type { Controllers } from "../../control/runtime/controllers.ts";
import type { ActorPorts } from "../actor.ts";
import {
  noGpuTwice as noShareTwice,
  oneReservationPerGroup,
  requestsEnd,
  reservationsOutliveTheirUsers,
} from "../bind/invariants.ts";
import { controllersProcess } from "../controllersProcess.ts";
import {
  allocatedIsProtected,
  countsAreTrue,
  deviceGivenOnce,
  gpuHasOneHolder,
  repeatingChangesNothing,
} from "../devices/invariants.ts";
import {
  cliquesEndOnRecord,
  endsTheSameObject,
  endsWhatItLookedAt,
  gatesWaitForTheGang,
  lossesAreReportedOnce,
  ownPodsOfCliquesCount,
  regressionsAreFlagged,
  statusIsOfItsObject,
  terminationsAreReportedOnce,
} from "../gang/invariants.ts";
import { foldedOnce } from "../invariants/foldedOnce.ts";
import {
  cachesAreComplete,
  changesWhatItSaw,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  type Held,
  neverGoesBack,
  writesChangeSomething,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import { planNodeLosses } from "../nodes/nodeFaults.ts";
import { type Scenario, watchesRestMs } from "../scenario.ts";
import { decidingAgainDecidesNothing, nothingStaysInDoubt, sumsClose } from "../schedule/clusterInvariants.ts";
import {
  bindsTheSamePod,
  evictionsServe,
  gangsStartWhole,
  noEvictionForDeletedOwners,
  noGpuTwice,
  placementEnds,
  placesByWatchedNodes,
  queuesAddUp,
  reasonsAreCurrent,
} from "../schedule/invariants.ts";
import {
  adoptsWithAFreshLook,
  ownPodsCount,
  shrinksOnlyWhatIsTooMuch,
  successesCountOnce,
  surgeIsBounded,
} from "../workloads/invariants.ts";
import { addScheduler, addWorkloads, components, nodeNamed, nodeNames, nodes, plane, setUp } from "./cluster.ts";
import { operators } from "./operators.ts";
import { teams } from "./teams.ts";

interface Replicas {
  readonly lease: { readonly namespace: string; readonly name: string };
  readonly actors: readonly string[];
  readonly held: Held;
}

const managers = replicas("manager", ["ann", "bob"]);
const schedulers = replicas("scheduler", ["sam", "sue"]);
const binders = replicas("binder", ["cid", "dot"]);
const isManager = managers.held;
const isScheduler = schedulers.held;
/** Processes that must not delete the reservation of a GPU group that has pods. Users may. */
const isKeeper: Held = (actor) => binders.held(actor) || isScheduler(actor) || actor === "kubelets";
const held: Held = (actor) => isManager(actor) || isScheduler(actor) || binders.held(actor);
const spanMs = 22_000;

/**
 * The whole control plane at once: two replicas each of the workload controllers with the gang operator, of the
 * scheduler with the device manager, and of the binder; simulated nodes with device plugin and DRA driver; users,
 * platform engineers, and nodes that are lost.
 */
export const everythingScenario: Scenario = {
  name: "everything",
  about: "the whole control plane: every kind of workload comes and goes while nodes, leaders and watches fail",
  components,
  serverLoops: true,
  collectMsMax: 12_000,
  setUp,
  actors: () => [
    ...processes(managers, addWorkloads),
    ...processes(schedulers, addScheduler),
    ...processes(binders, (controllers) => plane.binder.add(controllers)),
    controllersProcess("kubelets", (controllers) => nodes.add(controllers)),
    teams({ acts: 40, spanMs }),
    operators({ acts: 10, spanMs }),
  ],
  planFaults: (simulation) => planNodeLosses(simulation, { names: nodeNames, nodeObject: nodeNamed }),
  invariants: [
    noGpuTwice(isKeeper),
    noShareTwice(isKeeper),
    deviceGivenOnce,
    gpuHasOneHolder(isKeeper),
    reservationsOutliveTheirUsers(isKeeper),
    oneReservationPerGroup,
    requestsEnd,
    allocatedIsProtected,
    countsAreTrue(schedulers.lease.name),
    repeatingChangesNothing,
    placesByWatchedNodes(isScheduler),
    gangsStartWhole,
    sumsClose(isScheduler),
    foldedOnce,
    bindsTheSamePod(held),
    queuesAddUp,
    placementEnds,
    nothingStaysInDoubt(schedulers.lease.name),
    evictionsServe(isScheduler),
    noEvictionForDeletedOwners(isScheduler),
    reasonsAreCurrent,
    decidingAgainDecidesNothing(schedulers.lease.name),
    gatesWaitForTheGang(isManager),
    regressionsAreFlagged("Suppress"),
    lossesAreReportedOnce,
    terminationsAreReportedOnce,
    cliquesEndOnRecord(isManager),
    ownPodsOfCliquesCount(isManager),
    endsTheSameObject(isManager),
    endsWhatItLookedAt(isManager),
    statusIsOfItsObject(isManager),
    ownPodsCount(isManager),
    surgeIsBounded(isManager),
    shrinksOnlyWhatIsTooMuch(isManager),
    successesCountOnce,
    adoptsWithAFreshLook(isManager),
    changesWhatItSaw((actor) => isManager(actor) || isScheduler(actor)),
    destroysTheSameObject(held),
    destroysWhatItLookedAt(held),
    ...[managers, schedulers, binders].map((each) => oneEpochWrites(each.held, each.lease.name)),
    neverGoesBack,
    writesChangeSomething((actor) => held(actor) || actor === "kubelets"),
    cachesAreComplete,
  ],
  faultPhaseMs: 26_000,
  settleMs: 300_000,
  quietMs: watchesRestMs,
  ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
};

function replicas(name: string, actors: readonly string[]): Replicas {
  return { lease: { namespace: "default", name }, actors, held: (actor) => actors.includes(actor) };
}

function processes({ lease, actors }: Replicas, add: (controllers: Controllers, ports: ActorPorts) => void) {
  return actors.map((name) => controllersProcess(name, add, { lease }));
}

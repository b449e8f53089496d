import { followRbac } from "../../src/apiserver/auth/followRbac.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { Actor } from "../../src/sim/actor.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { SimKube } from "../../src/sim/simKube.ts";
import { Simulation } from "../../src/sim/simulation.ts";
import type { ContractCluster } from "../contract/contractCluster.ts";
import { kubeApiContract } from "../contract/kubeApi.ts";

/** It has no actors but the tests. */
const empty: Scenario = {
  name: "empty",
  about: "an API without actors",
  actors: () => [],
  invariants: [],
  faultPhaseMs: 0,
  settleMs: 0,
  quietMs: 0,
  freeze: true,
};

/** A list of no decisions: nothing unusual happens. */
async function simulatedCluster(): Promise<ContractCluster> {
  const simulation = await Simulation.create(empty, 1, []);
  const { store, hub } = simulation.core;
  const authorizer = followRbac(store);
  const as = (username: string, groups: string[]): KubeApi => {
    const actor = new Actor({ name: username, run: () => Promise.resolve() });
    actor.begin();
    const caller = { user: { username, groups }, fieldManager: "contract" };
    return stepping(simulation, new SimKube(simulation, actor, inProcessKube(simulation.core, caller, { authorizer })));
  };
  return {
    api: as("admin", ["system:masters"]),
    stranger: as("stranger", ["system:authenticated"]),
    compact: () => store.compact(store.durableRevision),
    closeWatches: () => hub.closeWatches(),
    sendBookmarks: () => hub.sendBookmarks(),
    step: () => letTimePass(simulation),
    close: () => Promise.resolve(),
  };
}

/** A moment passes, then the test continues: a fact that does not come true must be able to time out. */
async function letTimePass(simulation: Simulation): Promise<void> {
  const untilUs = simulation.nowUs + 3_000;
  do await simulation.step();
  while ((simulation.nextUs ?? Number.POSITIVE_INFINITY) <= untilUs);
  await new Promise<void>((resolve) => setImmediate(resolve));
}

/** Simulated time passes while a call is in flight. */
function stepping(simulation: Simulation, kube: KubeApi): KubeApi {
  const answered = async <T>(call: Promise<T>): Promise<T> => {
    let settled = false;
    const answer = call.finally(() => {
      settled = true;
    });
    while (!settled) await letTimePass(simulation);
    return answer;
  };
  return {
    get: (...args) => answered(kube.get(...args)),
    list: (...args) => answered(kube.list(...args)),
    watch: (...args) => kube.watch(...args),
    create: (...args) => answered(kube.create(...args)),
    update: (...args) => answered(kube.update(...args)),
    patch: (...args) => answered(kube.patch(...args)),
    delete: (...args) => answered(kube.delete(...args)),
    bind: (...args) => answered(kube.bind(...args)),
    evict: (...args) => answered(kube.evict(...args)),
  };
}

kubeApiContract("simulated, with no faults", simulatedCluster);

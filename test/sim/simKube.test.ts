import { followRbac } from "../../src/apiserver/auth/followRbac.ts";
import { inProcessKube } from "../../src/apiserver/kubeApi.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { Actor } from "../../src/sim/actor.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { SimKube } from "../../src/sim/simKube.ts";
import { World } from "../../src/sim/world.ts";
import type { ContractWorld } from "../contract/contractWorld.ts";
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
async function simulatedWorld(): Promise<ContractWorld> {
  const world = await World.create(empty, 1, []);
  const { store, hub } = world.core;
  const authorizer = followRbac(store);
  const as = (username: string, groups: string[]): KubeApi => {
    const actor = new Actor({ name: username, run: () => Promise.resolve() });
    actor.begin();
    const caller = { user: { username, groups }, fieldManager: "contract" };
    return stepping(world, new SimKube(world, actor, inProcessKube(world.core, caller, { authorizer })));
  };
  return {
    api: as("admin", ["system:masters"]),
    stranger: as("stranger", ["system:authenticated"]),
    compact: () => store.compact(store.durableRevision),
    closeWatches: () => hub.closeWatches(),
    sendBookmarks: () => hub.sendBookmarks(),
    step: () => letTimePass(world),
    close: () => Promise.resolve(),
  };
}

/** A moment passes, then the test continues: a fact that does not come true must be able to time out. */
async function letTimePass(world: World): Promise<void> {
  const untilUs = world.nowUs + 3_000;
  do await world.step();
  while ((world.nextUs ?? Number.POSITIVE_INFINITY) <= untilUs);
  await new Promise<void>((resolve) => setImmediate(resolve));
}

/** Simulated time passes while a call is in flight. */
function stepping(world: World, kube: KubeApi): KubeApi {
  const answered =
    <A extends unknown[], T>(call: (...args: A) => Promise<T>) =>
    async (...args: A): Promise<T> => {
      let settled = false;
      const answer = call(...args).finally(() => {
        settled = true;
      });
      while (!settled) await letTimePass(world);
      return answer;
    };
  return {
    get: answered((...args: Parameters<KubeApi["get"]>) => kube.get(...args)),
    list: answered((...args: Parameters<KubeApi["list"]>) => kube.list(...args)),
    watch: (...args) => kube.watch(...args),
    create: answered((...args: Parameters<KubeApi["create"]>) => kube.create(...args)),
    update: answered((...args: Parameters<KubeApi["update"]>) => kube.update(...args)),
    patch: answered((...args: Parameters<KubeApi["patch"]>) => kube.patch(...args)),
    delete: answered((...args: Parameters<KubeApi["delete"]>) => kube.delete(...args)),
    bind: answered((...args: Parameters<KubeApi["bind"]>) => kube.bind(...args)),
    evict: answered((...args: Parameters<KubeApi["evict"]>) => kube.evict(...args)),
  };
}

kubeApiContract("simulated, with no faults", simulatedWorld);

import { workloads } from "../../control/workloads/workloads.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Unstored } from "../../model/objects/object.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorSpec } from "../actor.ts";
import { hashText } from "../chance.ts";
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
import { type Scenario, watchesRestMs } from "../scenario.ts";
import { beat, clusterWith, held, isOfJob, lease, makeNamespaces, managing, nodes } from "./cast.ts";
import {
  adoptsWithAFreshLook,
  oneHolderPerIdentity,
  ownPodsCount,
  shrinksOnlyWhatIsTooMuch,
  successesCountOnce,
  surgeIsBounded,
  workloadsAreDone,
} from "./invariants.ts";
import type { TinyLife } from "./tinyKubelet.ts";
import { bigNode, workloadUser } from "./user.ts";

export const nodeNames = ["n0", "n1", "n2"];

/** Pods of Jobs end, some of them with a failure; all others keep running. */
function lifeOf(pod: Pod): TinyLife {
  if (!isOfJob(pod)) return { startMs: 100 };
  return { startMs: 100, ends: { afterMs: 500, exitCode: hashText(3, pod.metadata.name) % 8 === 0 ? 1 : 0 } };
}

/** The cluster's own controllers, with a follower, under all faults. */
export const workloadsScenario: Scenario = {
  name: "workloads",
  about: "Deployments, StatefulSets, DaemonSets and Jobs are created, scaled, changed and deleted under all faults",
  components: [workloads],
  serverLoops: true,
  setUp: setUpNodes,
  actors: () => [...managing(), clusterWith(lifeOf), heart, workloadUser({ name: "user", acts: 16, spanMs: 18_000 })],
  invariants: [
    ownPodsCount(held),
    surgeIsBounded(held),
    shrinksOnlyWhatIsTooMuch(held),
    successesCountOnce,
    oneHolderPerIdentity,
    adoptsWithAFreshLook(held),
    destroysTheSameObject(held),
    destroysWhatItLookedAt(held),
    changesWhatItSaw(held),
    oneEpochWrites(held, lease.name),
    neverGoesBack,
    writesChangeSomething(held),
    cachesAreComplete,
    statusKeepsUp,
    workloadsAreDone,
  ],
  faultPhaseMs: 20_000,
  settleMs: 240_000,
  // Longer than the backoff of a failed Job: ten seconds, and three times nine more after clock steps backwards.
  quietMs: watchesRestMs,
  ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
};

export async function setUpNodes(kube: KubeApi): Promise<void> {
  await makeNamespaces(kube);
  for (const name of nodeNames) {
    const room = { cpu: "16", pods: "30" };
    const status = {
      allocatable: room,
      capacity: room,
      conditions: [{ type: "Ready", status: "True", reason: "KubeletReady", message: "" }],
    };
    // The DaemonSets do not select the last node.
    const metadata = { name, labels: name === "n2" ? {} : bigNode };
    const node: Unstored = { apiVersion: "v1", kind: "Node", metadata, status };
    const made = await kube.create(nodes, node);
    if (made.ok) await kube.update({ ...nodes, namespace: "", name, subresource: "status" }, { ...made.value, status });
    await beat(kube, name, 0);
  }
}

/** The nodes' heartbeats, until the end of the run. */
export const heart: ActorSpec = {
  name: "heart",
  isExemptFromFaults: true,
  run: async ({ kube, clock, cancel, sleep }) => {
    while (!cancel.cancelled) {
      for (const name of nodeNames) await beat(kube, name, clock.nowMs());
      await sleep(5_000);
    }
  },
};

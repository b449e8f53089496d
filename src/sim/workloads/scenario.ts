import { defaultScheduler } from "../../control/defaultScheduler.ts";
import { workloads } from "../../control/workloads/workloads.ts";
import { controllerOf } from "../../decide/workloads/ownership.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/object.ts";
import { formatMicroTime } from "../../model/time.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorSpec } from "../actor.ts";
import { hashText } from "../chance.ts";
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
import {
  adoptsWithAFreshLook,
  nodesAreNotOverfull,
  oneHolderPerIdentity,
  ownPodsCount,
  shrinksOnlyWhatIsTooMuch,
  successesCountOnce,
  surgeIsBounded,
  workloadsAreDone,
} from "./invariants.ts";
import { type TinyLife, tinyKubelet } from "./tinyKubelet.ts";
import { bigNode, workloadUser } from "./user.ts";

const managers = ["ann", "bob"];
const held = (actor: string): boolean => managers.includes(actor);
const lease = { namespace: "default", name: "workloads" };
/** How many pods fit on each. The small one is soon full, so a bind that is forgotten shows. */
const nodeRooms: Readonly<Record<string, number>> = { n0: 30, small: 1, n1: 30 };
const nodeNames = Object.keys(nodeRooms);
const leases = { group: "coordination.k8s.io", version: "v1", plural: "leases" };
const leaseNamespace = "kube-node-lease";

/** Pods of Jobs end by themselves, and some of them badly; all others run on. */
function lifeOf(pod: Pod): TinyLife {
  if (controllerOf(pod.metadata)?.kind !== "Job") return { startMs: 100 };
  return { startMs: 100, ends: { afterMs: 500, exitCode: hashText(3, pod.metadata.name) % 8 === 0 ? 1 : 0 } };
}

/** The cluster's own controllers and the default scheduler, with a stand-by, under every fault. */
export const workloadsScenario: Scenario = {
  name: "workloads",
  about: "Deployments, StatefulSets, DaemonSets and Jobs made, scaled, changed and deleted under every fault",
  parts: [workloads, defaultScheduler],
  serverLoops: true,
  setUp,
  actors: () => [
    ...managers.map((name) =>
      controllersProcess(
        name,
        (controllers) => {
          workloads.add(controllers);
          defaultScheduler.add(controllers);
        },
        { lease },
      ),
    ),
    { ...controllersProcess("kubelet", (controllers) => tinyKubelet(controllers, lifeOf)), sheltered: true },
    heart,
    workloadUser({ name: "user", acts: 16, spanMs: 18_000 }),
  ],
  invariants: [
    ownPodsCount(held),
    surgeIsBounded(held),
    shrinksOnlyWhatIsTooMuch(held),
    successesCountOnce,
    oneHolderPerIdentity,
    adoptsWithAFreshLook(held),
    nodesAreNotOverfull,
    destroysTheSameObject(held),
    destroysWhatItLookedAt(held),
    changesWhatItSaw(held),
    oneEpochWrites(held, lease.name),
    neverGoesBack,
    mirrorsAreComplete,
    statusKeepsUp,
    workloadsAreDone,
  ],
  shakenMs: 20_000,
  settleMs: 240_000,
  // A Job that has failed tries again after ten seconds, and three times nine later if the clock was set back.
  quietMs: 40_000,
  humming: ["coordination.k8s.io/leases", "/events"],
};

async function setUp(kube: KubeApi): Promise<void> {
  const namespaces = { group: "", version: "v1", plural: "namespaces" };
  for (const name of ["default", leaseNamespace]) {
    await kube.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name } } as KubeObject);
  }
  const nodes = { group: "", version: "v1", plural: "nodes" };
  for (const name of nodeNames) {
    const room = { cpu: "16", pods: String(nodeRooms[name]) };
    const status = {
      allocatable: room,
      capacity: room,
      conditions: [{ type: "Ready", status: "True", reason: "KubeletReady", message: "" }],
    };
    // Daemons stay away from the small node: nobody would make room for them there.
    const metadata = { name, labels: name === "small" ? {} : bigNode };
    const node = { apiVersion: "v1", kind: "Node", metadata, status } as unknown as KubeObject;
    const made = await kube.create(nodes, node);
    if (made.ok) await kube.update({ ...nodes, namespace: "", name, subresource: "status" }, { ...made.value, status });
    await kube.create(leases, leaseOf(name, 0));
  }
}

/** The nodes say that they live, for as long as anybody listens. */
const heart: ActorSpec = {
  name: "heart",
  sheltered: true,
  run: async ({ kube, clock, cancel, sleep }) => {
    while (!cancel.cancelled) {
      for (const name of nodeNames) {
        const ref = { ...leases, namespace: leaseNamespace, name };
        const body = { spec: { renewTime: formatMicroTime(clock.nowMs()) } };
        await kube.patch(ref, { type: "merge", body });
      }
      await sleep(5_000);
    }
  },
};

function leaseOf(name: string, nowMs: number): KubeObject {
  const metadata = { name, namespace: leaseNamespace };
  const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime: formatMicroTime(nowMs) };
  return { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec } as unknown as KubeObject;
}

import { binderComponent } from "../../control/bind/binderComponent.ts";
import type { Component } from "../../control/runtime/component.ts";
import { reservationDefaults } from "../../decide/bind/reservation.ts";
import { nodeObject, simNode } from "../../kubelet/node/simNode.ts";
import { fastDelays } from "../../kubelet/pods/podPlan.ts";
import { nodesComponent } from "../../kubelet/run/nodesComponent.ts";
import { nodesDefaults } from "../../kubelet/run/nodesOptions.ts";
import { assert } from "../../model/assert.ts";
import type { NewObject } from "../../model/intent.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import type { Unstored } from "../../model/objects/object.ts";
import { parsePool, profilesWith } from "../../model/profiles/profiles.ts";
import { builtin } from "../../model/resources.generated.ts";
import {
  bindRequestApiVersion,
  bindRequestRef,
  isFinallyFailed,
  podUidOf,
} from "../../model/scheduling/bindRequest.ts";
import { kaiSchedulerName } from "../../model/scheduling/keys.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { controllersProcess, runControllers } from "../controllersProcess.ts";
import {
  cachesAreComplete,
  destroysTheSameObject,
  destroysWhatItLookedAt,
  neverGoesBack,
  writesChangeSomething,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import { type Mistake, mistaken } from "../mistake.ts";
import { type LosableNodes, planNodeLosses } from "../nodes/nodeFaults.ts";
import { type Scenario, watchesRestMs } from "../scenario.ts";
import { noGpuTwice, oneReservationPerGroup, requestsEnd, reservationsOutliveTheirUsers } from "./invariants.ts";
import { reservationDeleter } from "./reservationDeleter.ts";

const podsRef = builtin.Pod;
const binders = ["ann", "bob"];
const isBinder = (actor: string): boolean => binders.includes(actor);
const lease = { namespace: "default", name: "binder" };

/**
 * Nodes that only allocate devices and run pods, as fast as they can. They hold leases: without them a process that
 * restarts with a stale list would not know the devices that it had allocated before.
 */
export const kubelets = (pools: readonly string[]): Component =>
  nodesComponent({
    pools: pools.map((text) => parsePool(text, profilesWith())),
    delays: fastDelays,
    events: "none",
    leases: true,
    leaseSeconds: 240,
    heartbeatMs: 3_600_000,
    dra: undefined,
    stages: false,
  }).component;

/** A node of such a pool that registers again after it was deleted. */
export function kubeletNode(pool: string): (name: string, nowMs: number) => NewObject<Node> {
  const { name: ofPool, profile, count } = parsePool(pool, profilesWith());
  return (name, nowMs) => {
    const index = Number(name.slice(ofPool.length + 1));
    assert(index < count, `node ${name} is not in pool ${pool}`);
    return nodeObject(simNode({ clusterSeed: nodesDefaults.seed, pool: ofPool, profile, index }), {
      ordinal: index,
      nowMs,
    });
  };
}

/** Creates the namespaces, that of the node leases included. */
export async function makeNamespaces(kube: Pick<KubeApi, "create">): Promise<void> {
  for (const name of ["default", "kube-node-lease"]) {
    await kube.create(builtin.Namespace, plain("Namespace", name));
  }
}

/** Four GPUs each, and at most four are requested, so that a GPU that is allocated twice is noticed. */
const pool = "t4=2";
const nodes = kubelets([pool]);
const losable: LosableNodes = { names: ["t4-0", "t4-1"], nodeObject: kubeletNode(pool) };
const binder = binderComponent({ reservation: { ...reservationDefaults, allocationTimeoutMs: 4_000 } });

const isKeeper = (actor: string): boolean => isBinder(actor) || actor === "kubelets";

/**
 * GPU shares on one and two GPUs and whole-GPU pods are created and deleted while two binders compete for the lease and
 * a user deletes reservations.
 */
export const bindScenario: Scenario = bindWith();

/** `bind`, or `bind/<mistake>` with one classic bug. */
export function bindWith(mistake?: Mistake): Scenario {
  return {
    name: mistake === undefined ? "bind" : `bind/${mistake.name}`,
    about: "pods with GPU shares are bound, deleted and bound again under all faults",
    components: [binder, nodes],
    serverLoops: true,
    setUp: makeNamespaces,
    actors: () => [
      ...binders.map((name) => ({
        name,
        run: (ports: ActorPorts) =>
          runControllers(mistaken(ports, mistake), (controllers) => binder.add(controllers), { lease }),
      })),
      controllersProcess("kubelets", (controllers) => nodes.add(controllers)),
      scheduler(),
      reservationDeleter(),
    ],
    planFaults: (simulation) => planNodeLosses(simulation, losable),
    invariants: [
      noGpuTwice(isKeeper),
      reservationsOutliveTheirUsers(isKeeper),
      oneReservationPerGroup,
      requestsEnd,
      destroysTheSameObject(isBinder),
      destroysWhatItLookedAt(isBinder, { withGrace: true }),
      oneEpochWrites(isBinder, lease.name),
      neverGoesBack,
      writesChangeSomething(isKeeper),
      cachesAreComplete,
    ],
    faultPhaseMs: 16_000,
    settleMs: 240_000,
    quietMs: watchesRestMs,
    ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
  };
}

/** The request and the node of a pod of the scenario. Both are fixed, so that a group is never overcommitted. */
interface PodRequest {
  readonly name: string;
  readonly node: string;
  readonly groups: readonly string[];
  readonly share: string;
}

/** p0 to p9: p0 and p1 share a GPU, p2 and p3, and so on; the pairs alternate between the two nodes. */
const pair = (number: number, pool: string, share: string): PodRequest => ({
  name: `p${number}`,
  node: `${pool}-${Math.floor(number / 2) % 2}`,
  groups: [`g${Math.floor(number / 2)}`],
  share,
});

const podRequests: readonly PodRequest[] = [
  ...Array.from({ length: 10 }, (_, number) => pair(number, "t4", "0.4")),
  { name: "m0", node: "t4-0", groups: ["g0", "g2"], share: "0.2" },
  { name: "w0", node: "t4-0", groups: [], share: "" },
  { name: "w1", node: "t4-1", groups: [], share: "" },
];

/**
 * Creates pods and BindRequests, deletes some pods, and retries failed requests. The actor crashes too, and then reads
 * the current state again.
 */
const scheduler = (): ActorSpec => {
  let turn = 0;
  return {
    name: "scheduler",
    finite: true,
    run: async (ports) => {
      for (; turn < 40; turn++) {
        await ports.sleep(300);
        // 1 to 13: create or place that pod; 14 to 18: delete one; 0 only in a history that is being shrunk.
        const what = ports.choose("turn", (dice) => dice.between(1, 18));
        if (what === 0) continue;
        const request = podRequests[
          what <= 13 ? what - 1 : ((what - 14) * 3 + turn) % podRequests.length
        ] as PodRequest;
        if (what <= 13) await place(ports, request);
        else await removePod(ports, request.name);
      }
    },
  };
};

/** Places pod `number` with half a GPU, on one of two nodes with eight GPUs each. For the race museum. */
export function submit(ports: ActorPorts, number: number): Promise<void> {
  return place(ports, pair(number, "h100", "0.5"));
}

async function place(ports: ActorPorts, request: PodRequest): Promise<void> {
  const { name } = request;
  const ref = { ...podsRef, namespace: "default", name };
  const found = await ports.kube.get(ref);
  const created = found.ok
    ? found
    : found.reason === "NotFound"
      ? await ports.kube.create(podsRef, podOf(request))
      : found;
  if (!created.ok) return;
  const pod = created.value;
  if (pod.spec?.nodeName !== undefined || pod.metadata.deletionTimestamp !== undefined) return;
  await clearOld(ports, pod);
  await ports.kube.create(bindRequestRef, requestFor(pod, request));
}

/** As the scheduler does: deletes a request that failed for good, or that was for an earlier pod of this name. */
async function clearOld({ kube }: ActorPorts, pod: Pod): Promise<void> {
  const ref = { ...bindRequestRef, namespace: "default", name: pod.metadata.name };
  const found = await kube.get(ref);
  if (!found.ok) return;
  const request = found.value;
  if (podUidOf(request) === pod.metadata.uid && !isFinallyFailed(request)) return;
  const { uid, resourceVersion } = request.metadata;
  await kube.delete(ref, { preconditions: { uid, resourceVersion } });
}

export async function removePod({ kube }: ActorPorts, name: string): Promise<void> {
  const ref = { ...podsRef, namespace: "default", name };
  const found = await kube.get(ref);
  if (!found.ok) return;
  const { uid } = found.value.metadata;
  await kube.delete(ref, { preconditions: { uid }, gracePeriodSeconds: 1 });
}

function podOf({ name, groups, share }: PodRequest): Unstored {
  const amounts = { "nvidia.com/gpu": "1" };
  const annotations = {
    "gpu-fraction": share,
    ...(groups.length > 1 && { "gpu-fraction-num-devices": String(groups.length) }),
  };
  const resources = groups.length > 0 ? {} : { resources: { requests: amounts, limits: amounts } };
  return {
    ...plain("Pod", name),
    metadata: { name, namespace: "default", ...(groups.length > 0 && { annotations }) },
    spec: { schedulerName: kaiSchedulerName, containers: [{ name: "main", image: "i", ...resources }] },
  };
}

function requestFor(pod: Pod, { node, groups, share }: PodRequest): Unstored {
  const { name, uid } = pod.metadata;
  const shared = {
    receivedResourceType: "Fraction",
    receivedGPU: { count: groups.length, portion: `${share}0` },
    selectedGPUGroups: groups,
  };
  const whole = { receivedResourceType: "Regular", receivedGPU: { count: 1, portion: "1.00" } };
  return {
    apiVersion: bindRequestApiVersion,
    kind: "BindRequest",
    metadata: { name, namespace: "default", ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid }] },
    spec: { podName: name, selectedNode: node, ...(groups.length > 0 ? shared : whole), backoffLimit: 2 },
  };
}

function plain(kind: string, name: string): Unstored {
  return { apiVersion: "v1", kind, metadata: { name } };
}

import { binderPart } from "../../control/bind/binderPart.ts";
import { nodesPart } from "../../control/nodes/nodesPart.ts";
import type { Part } from "../../control/part.ts";
import { reservationDefaults } from "../../decide/bind/reservation.ts";
import { fastDelays } from "../../decide/nodes/podPlan.ts";
import { parsePool, profilesWith } from "../../decide/nodes/profiles.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/object.ts";
import {
  type BindRequest,
  bindRequestApiVersion,
  bindRequestRef,
  isFinallyFailed,
  podUidOf,
} from "../../model/scheduling/bindRequest.ts";
import { kaiSchedulerName } from "../../model/scheduling/keys.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { controllersProcess } from "../controllersProcess.ts";
import {
  destroysTheSameObject,
  destroysWhatItLookedAt,
  mirrorsAreComplete,
  neverGoesBack,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import type { Scenario } from "../scenario.ts";
import { oneReservationPerGroup, requestsEnd, reservationsOutliveTheirUsers } from "./invariants.ts";

const podsRef = { group: "", version: "v1", plural: "pods" };
const binders = ["ann", "bob"];
const held = (actor: string): boolean => binders.includes(actor);
const lease = { namespace: "default", name: "binder" };

/** Nodes that give devices and run pods, as fast as they can, and nothing else. */
export const kubelets = (pools: readonly string[]): Part =>
  nodesPart({
    pools: pools.map((text) => parsePool(text, profilesWith())),
    delays: fastDelays,
    events: "none",
    leases: false,
    heartbeatMs: 3_600_000,
    dra: undefined,
    stages: false,
  }).part;

const nodes = kubelets(["h100=2"]);
const binder = binderPart({ reservation: { ...reservationDefaults, allocationTimeoutMs: 4_000 } });

/** Halves of GPUs come and go while two binders quarrel about who leads. */
export const bindScenario: Scenario = {
  name: "bind",
  about: "pods that share GPUs are bound, deleted and bound again while everything lags, fails and dies",
  parts: [binder, nodes],
  serverLoops: true,
  setUp: async (kube) => {
    await kube.create({ group: "", version: "v1", plural: "namespaces" }, plain("Namespace", "default"));
  },
  actors: () => [
    ...binders.map((name) => controllersProcess(name, (controllers) => binder.add(controllers), { lease })),
    controllersProcess("kubelets", (controllers) => nodes.add(controllers)),
    scheduler,
  ],
  invariants: [
    reservationsOutliveTheirUsers,
    oneReservationPerGroup,
    requestsEnd,
    destroysTheSameObject(held),
    destroysWhatItLookedAt(held),
    oneEpochWrites(held, lease.name),
    neverGoesBack,
    mirrorsAreComplete,
  ],
  shakenMs: 16_000,
  settleMs: 120_000,
  quietMs: 10_000,
  humming: ["coordination.k8s.io/leases", "events.k8s.io/events"],
};

/** Submits pods, places two of them on each GPU, takes some away, and gives a failed one another try. */
const scheduler: ActorSpec = {
  name: "scheduler",
  finite: true,
  sheltered: true,
  run: async (ports) => {
    for (let turn = 0; turn < 40; turn++) {
      await ports.sleep(300);
      // 0: nothing. 1 to 10: submit or place that pod; 11 to 13: take one away.
      const what = ports.choose("turn", (dice) => dice.between(1, 13));
      if (what === 0) continue;
      if (what > 10) await takeAway(ports, `p${(what - 11) * 3 + (turn % 3)}`);
      else await submit(ports, what - 1);
    }
  },
};

export async function submit(ports: ActorPorts, number: number): Promise<void> {
  const name = `p${number}`;
  const ref = { ...podsRef, namespace: "default", name };
  const found = await ports.kube.get(ref);
  const created = found.ok
    ? found
    : found.reason === "NotFound"
      ? await ports.kube.create(podsRef, podOf(name))
      : found;
  if (!created.ok) return;
  const pod = created.value as unknown as Pod;
  if (pod.spec?.nodeName !== undefined || pod.metadata.deletionTimestamp !== undefined) return;
  await clearOld(ports, pod);
  // Two of them share a GPU, and every other GPU is on the other node.
  const group = `g${Math.floor(number / 2)}`;
  const node = `h100-${Math.floor(number / 2) % 2}`;
  await ports.kube.create(bindRequestRef, requestFor(pod, group, node));
}

/** As the scheduler does it: what failed for good, or was for a namesake, makes room. */
async function clearOld({ kube }: ActorPorts, pod: Pod): Promise<void> {
  const ref = { ...bindRequestRef, namespace: "default", name: pod.metadata.name };
  const found = await kube.get(ref);
  if (!found.ok) return;
  const request = found.value as unknown as BindRequest;
  if (podUidOf(request) === pod.metadata.uid && !isFinallyFailed(request)) return;
  const { uid, resourceVersion } = request.metadata;
  await kube.delete(ref, { preconditions: { uid, resourceVersion } });
}

export async function takeAway({ kube }: ActorPorts, name: string): Promise<void> {
  const ref = { ...podsRef, namespace: "default", name };
  const found = await kube.get(ref);
  if (!found.ok) return;
  const { uid } = found.value.metadata;
  await kube.delete(ref, { preconditions: { uid }, gracePeriodSeconds: 1 });
}

function podOf(name: string): KubeObject {
  return {
    ...plain("Pod", name),
    metadata: { name, namespace: "default", annotations: { "gpu-fraction": "0.5" } },
    spec: { schedulerName: kaiSchedulerName, containers: [{ name: "main", image: "i" }] },
  } as unknown as KubeObject;
}

function requestFor(pod: Pod, group: string, selectedNode: string): KubeObject {
  const { name, uid } = pod.metadata;
  return {
    apiVersion: bindRequestApiVersion,
    kind: "BindRequest",
    metadata: { name, namespace: "default", ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid }] },
    spec: {
      podName: name,
      selectedNode,
      receivedResourceType: "Fraction",
      receivedGPU: { count: 1, portion: "0.50" },
      selectedGPUGroups: [group],
      backoffLimit: 2,
    },
  } as unknown as KubeObject;
}

function plain(kind: string, name: string): KubeObject {
  return { apiVersion: "v1", kind, metadata: { name } } as unknown as KubeObject;
}

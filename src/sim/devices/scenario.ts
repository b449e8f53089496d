import type { Controllers } from "../../control/runtime/controllers.ts";
import type { Unstored } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import { controllersProcess } from "../controllersProcess.ts";
import { foldedOnce, observeCycles } from "../invariants/foldedOnce.ts";
import {
  cachesAreComplete,
  changesWhatItSaw,
  destroysTheSameObject,
  neverGoesBack,
  writesChangeSomething,
} from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import { type Scenario, watchesRestMs } from "../scenario.ts";
import { addAllocators, allocatorComponents } from "./allocators.ts";
import {
  allAreServed,
  allocatedIsProtected,
  countsAreTrue,
  deviceGivenOnce,
  devicePreparedOnce,
  gpuHasOneHolder,
  repeatingChangesNothing,
} from "./invariants.ts";
import { kubelet, type NodeMemory } from "./kubelet.ts";

export const podsRef = builtin.Pod;
const nodesRef = builtin.Node;
const group = "resource.k8s.io";
const slicesRef = { group, version: "v1", plural: "resourceslices" };
const classesRef = { group, version: "v1", plural: "deviceclasses" };
const claimsRef = { group, version: "v1", plural: "resourceclaims" };
const templatesRef = { group, version: "v1", plural: "resourceclaimtemplates" };

const allocators = ["ann", "bob"];
const held = (actor: string): boolean => allocators.includes(actor);
const lease = { namespace: "default", name: "devices" };

export interface DevicesSize {
  readonly nodes: number;
  readonly devices: number;
  /** The number of actions of the user. */
  readonly turns: number;
  /** At most as many pods as devices, so that all pods must get one. */
  readonly isExact: boolean;
  /** Claims that two pods use each, besides the pods that have one for themselves. */
  readonly shared?: number;
  /** Every GPU is also offered by a device plugin, and some pods request theirs that way. */
  readonly plugin?: boolean;
}

/** Pods with a claim each come and go, while two allocators compete for the lease. */
export function devicesScenario(name: string, size: DevicesSize): Scenario {
  return {
    name,
    about: "pods with device claims are created, scheduled, deleted and force-deleted under all faults",
    components: allocatorComponents,
    serverLoops: true,
    setUp: async (kube) => {
      await setUp(kube, size);
      for (let i = 0; i < (size.shared ?? 0); i++) await makeClaim(kube, `c${i}`);
    },
    actors: () => {
      const memory: NodeMemory = { prepared: new Map(), running: new Map(), plugged: new Map() };
      return [
        ...allocators.map((each) => controllersProcess(each, addObserved, { lease })),
        kubelet("kubelets", memory, { stopMs: 400 }),
        user(size),
      ];
    },
    invariants: [
      deviceGivenOnce,
      gpuHasOneHolder(),
      devicePreparedOnce,
      allocatedIsProtected,
      countsAreTrue(),
      foldedOnce,
      repeatingChangesNothing,
      allAreServed,
      changesWhatItSaw(held),
      destroysTheSameObject(held),
      oneEpochWrites(held, lease.name),
      neverGoesBack,
      writesChangeSomething(held),
      cachesAreComplete,
    ],
    faultPhaseMs: 12_000,
    settleMs: 240_000,
    quietMs: watchesRestMs,
    ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
  };
}

/** Adds the allocators, and reports the devices that they count as allocated to the invariants. */
export function addObserved(controllers: Controllers, ports: ActorPorts): void {
  const { devices, model } = addAllocators(controllers);
  ports.observe("given", () => devices.tracker.listAllAllocatedDevices());
  observeCycles(ports, model);
}

export async function setUp(
  kube: KubeApi,
  { nodes, devices, plugin = false }: Pick<DevicesSize, "nodes" | "devices" | "plugin">,
): Promise<void> {
  await kube.create(builtin.Namespace, plain("v1", "Namespace", "default"));
  await kube.create(classesRef, plain("resource.k8s.io/v1", "DeviceClass", "gpu", { spec: {} }));
  const template = plain("resource.k8s.io/v1", "ResourceClaimTemplate", "one", { spec: { spec: oneDevice } });
  await kube.create(templatesRef, { ...template, metadata: { ...template.metadata, namespace: "default" } });
  for (let n = 0; n < nodes; n++) {
    const name = `n${n}`;
    await kube.create(nodesRef, plain("v1", "Node", name));
    const gpus = plugin ? { [gpuResource]: String(devices) } : {};
    const status = { conditions: [{ type: "Ready", status: "True" }], allocatable: { pods: "1000", ...gpus } };
    await kube.patch({ ...nodesRef, namespace: "", name, subresource: "status" }, { type: "merge", body: { status } });
    for (let first = 0; first < devices; first += 100) {
      const count = Math.min(100, devices - first);
      const list = Array.from({ length: count }, (_, i) => ({
        name: `d${first + i}`,
        ...(plugin && { attributes: { uuid: { string: gpuIdOf(name, first + i) } } }),
      }));
      const pool = { name, generation: 1, resourceSliceCount: Math.ceil(devices / 100) };
      const slice = { driver: plugin ? "gpu.nvidia.com" : "gpu.example.com", nodeName: name, pool, devices: list };
      await kube.create(slicesRef, plain("resource.k8s.io/v1", "ResourceSlice", `${name}-${first}`, { spec: slice }));
    }
  }
}

export const gpuResource = "nvidia.com/gpu";

/** The identity of a GPU, as its driver publishes it and the device plugin reports it. */
export function gpuIdOf(node: string, index: number): string {
  return `GPU-${node}-${index}`;
}

/**
 * Creates and deletes pods, some with force; at the end there are as many pods as devices, or a few more.
 */
function user({ nodes, devices, turns, isExact, shared = 0, plugin = false }: DevicesSize): ActorSpec {
  const alone = nodes * devices - shared + (isExact ? 0 : 2);
  const most = alone + 2 * shared;
  const make = (ports: ActorPorts, i: number): Promise<void> =>
    plugin && i % 2 === 1
      ? makeGpuPod(ports, `p${i}`)
      : makePod(ports, `p${i}`, i < alone ? undefined : `c${(i - alone) >> 1}`);
  return {
    name: "user",
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      for (let turn = 0; turn < turns; turn++) {
        await ports.sleep(Math.floor(10_000 / turns));
        // 0: nothing. Then: create that pod, delete one, force-delete one.
        const what = ports.choose("turn", (dice) => dice.between(1, most * 2));
        if (what === 0) continue;
        if (what <= most || turn < turns / 3) await make(ports, (what - 1) % most);
        else await removePod(ports, `p${what - most - 1}`, what % 2 === 0);
      }
      for (let i = 0; i < most; i++) await make(ports, i);
    },
  };
}

/** Creates a pod with a claim from the template, or with an existing claim of this name. */
export async function makePod(ports: ActorPorts, name: string, claim?: string): Promise<void> {
  const from = claim === undefined ? { resourceClaimTemplateName: "one" } : { resourceClaimName: claim };
  await makeAgain(ports, name, {
    containers: [{ name: "main", image: "i", resources: { claims: [{ name: "gpu" }] } }],
    resourceClaims: [{ name: "gpu", ...from }],
  });
}

/** The spec of a pod that requests its GPU from the device plugin. */
export function gpuPodSpec(): object {
  const amounts = { [gpuResource]: "1" };
  return { containers: [{ name: "main", image: "i", resources: { requests: amounts, limits: amounts } }] };
}

async function makeGpuPod(ports: ActorPorts, name: string): Promise<void> {
  await makeAgain(ports, name, gpuPodSpec());
}

/** Creates the pod, and retries while a terminating pod has this name. */
async function makeAgain(ports: ActorPorts, name: string, spec: object): Promise<void> {
  const pod = plain("v1", "Pod", name, { spec });
  for (let attempt = 0; attempt < 30; attempt++) {
    const outcome = await ports.kube.create(podsRef, { ...pod, metadata: { ...pod.metadata, namespace: "default" } });
    if (outcome.ok) return;
    if (outcome.reason !== "AlreadyExists") {
      await ports.sleep(200);
      continue;
    }
    const found = await ports.kube.get({ ...podsRef, namespace: "default", name });
    // A terminating pod still has the name.
    if (found.ok && found.value.metadata.deletionTimestamp === undefined) return;
    await ports.sleep(500);
  }
}

const oneDevice = { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu" } }] } };

export async function makeClaim(kube: KubeApi, name: string): Promise<void> {
  const claim = plain("resource.k8s.io/v1", "ResourceClaim", name, { spec: oneDevice });
  await kube.create(claimsRef, { ...claim, metadata: { ...claim.metadata, namespace: "default" } });
}

export async function removePod({ kube }: ActorPorts, name: string, byForce: boolean): Promise<void> {
  await kube.delete({ ...podsRef, namespace: "default", name }, { gracePeriodSeconds: byForce ? 0 : 30 });
}

export function plain(apiVersion: string, kind: string, name: string, fields: object = {}): Unstored {
  return { apiVersion, kind, metadata: { name }, ...fields };
}

export const devicesScenarios: readonly Scenario[] = [
  devicesScenario("devices", { nodes: 2, devices: 3, turns: 24, isExact: false, plugin: true }),
  devicesScenario("devices/one-node", { nodes: 1, devices: 2, turns: 20, isExact: true }),
  devicesScenario("devices/shared", { nodes: 2, devices: 2, turns: 24, isExact: true, shared: 2 }),
  devicesScenario("devices/three-nodes", { nodes: 3, devices: 8, turns: 40, isExact: true }),
  devicesScenario("devices/many", { nodes: 8, devices: 100, turns: 10, isExact: true }),
];

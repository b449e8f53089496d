/** The cluster of the scenario `everything`: its processes, nodes and queues. */
import { controlPlane } from "../../control/assembly/controlPlane.ts";
import { deviceCachesOf } from "../../control/devices/deviceCaches.ts";
import type { Component } from "../../control/runtime/component.ts";
import type { Controllers } from "../../control/runtime/controllers.ts";
import { SchedulerPools } from "../../control/schedule/schedulerPools.ts";
import { reservationDefaults } from "../../decide/bind/reservation.ts";
import { nodeObject, simNode } from "../../kubelet/node/simNode.ts";
import { nodesComponent } from "../../kubelet/run/nodesComponent.ts";
import { nodesDefaults } from "../../kubelet/run/nodesOptions.ts";
import type { NewObject } from "../../model/intent.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import type { Unstored } from "../../model/objects/object.ts";
import type { Profile } from "../../model/profiles/profile.ts";
import { builtin } from "../../model/resources.generated.ts";
import { queueApiVersion, queueRef } from "../../model/scheduling/queue.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts } from "../actor.ts";
import { makeNamespaces } from "../bind/scenario.ts";
import { observeCycles } from "../invariants/foldedOnce.ts";

export const gpuResource = "nvidia.com/gpu";
export const deviceClass = "gpu.nvidia.com";
/** Every claim that is created from it has one GPU. */
export const claimTemplate = "one-gpu";
export const leafQueues = ["red", "blue"];

const profile: Profile = {
  name: "small",
  arch: "amd64",
  osImage: "Simulated Linux",
  cpu: "16",
  memory: "64Gi",
  storage: "100Gi",
  maxPods: 40,
  gpu: { product: "NVIDIA-T4", count: 4, memoryMiB: 16_384, driver: "570.86.16" },
};
const pool = { name: "n", profile, count: 3 };
export const nodeNames = Array.from({ length: pool.count }, (_, index) => `${pool.name}-${index}`);

const fixed = (ms: number) => ({ minMs: ms, maxMs: ms });
/** Short, so that a node that stops renewing its lease is found and its pods are evicted within a run. */
const leaseSeconds = 6;

export const nodes: Component = nodesComponent({
  pools: [pool],
  delays: { sandbox: fixed(20), start: fixed(40), initRun: fixed(50), jobRun: fixed(1_500), stop: fixed(300) },
  events: "none",
  leaseSeconds,
  heartbeatMs: 3_600_000,
  stages: false,
}).component;

/** A node of the pool that registers again after it was deleted. */
export function nodeNamed(name: string, nowMs: number): NewObject<Node> {
  const index = nodeNames.indexOf(name);
  const sim = simNode({ clusterSeed: nodesDefaults.seed, pool: pool.name, profile, index });
  return nodeObject(sim, { ordinal: index, nowMs });
}

/** The control plane as `muster up` assembles it, with time limits of seconds, so that they pass within a run. */
export const plane = controlPlane({
  scheduler: { stalenessGraceMs: 3_000, allocatesDevices: true },
  binder: { volumeTimeoutMs: 5_000, reservation: { ...reservationDefaults, allocationTimeoutMs: 4_000 } },
  workloads: { nodeLifecycle: { graceMs: 8_000, startupGraceMs: 8_000, tickMs: 1_000 } },
});

/** The BindRequest CRD is a definition of scheduler and binder; it is served once. */
export const components: readonly Component[] = [
  plane.workloads,
  plane.scheduler,
  plane.devices,
  { ...plane.binder, definitions: [] },
  plane.gang,
  nodes,
];

/** The workload controllers (in a real cluster: kube-controller-manager) and the gang operator. */
export function addWorkloads(controllers: Controllers): void {
  plane.workloads.add(controllers);
  plane.gang.add(controllers);
}

/** The scheduler with the device manager. Their caches are reported to the invariants. */
export function addScheduler(controllers: Controllers, ports: ActorPorts): void {
  plane.devices.add(controllers);
  plane.scheduler.add(controllers);
  const { tracker } = deviceCachesOf(controllers).model;
  ports.observe("given", () => tracker.listAllAllocatedDevices());
  for (const { caches } of controllers.share(SchedulerPools, () => new SchedulerPools()).all()) {
    ports.observe("caches", caches);
    observeCycles(ports, caches.model);
  }
}

/** A parent queue, two leaf queues with a quota of half of its GPUs each, a DeviceClass and a ResourceClaimTemplate. */
export async function setUp(kube: KubeApi): Promise<void> {
  await makeNamespaces(kube);
  const open = { quota: -1, limit: -1, overQuotaWeight: 1 };
  const gpus = nodeNames.length * (profile.gpu?.count ?? 0);
  for (const [name, quota, parentQueue] of [
    ["colours", gpus, ""],
    ...leafQueues.map((leaf) => [leaf, gpus / 2, "colours"] as const),
  ] as const) {
    const resources = { gpu: { quota, limit: -1, overQuotaWeight: 1 }, cpu: open, memory: open };
    const spec = { ...(parentQueue !== "" && { parentQueue }), resources };
    await kube.create(queueRef, { ...plain(queueApiVersion, "Queue", name), spec });
  }
  const selectors = [{ cel: { expression: `device.driver == "${deviceClass}"` } }];
  const apiVersion = "resource.k8s.io/v1";
  await kube.create(builtin.DeviceClass, { ...plain(apiVersion, "DeviceClass", deviceClass), spec: { selectors } });
  const devices = { requests: [{ name: "gpu", exactly: { deviceClassName: deviceClass } }] };
  const template = plain(apiVersion, "ResourceClaimTemplate", claimTemplate);
  await kube.create(builtin.ResourceClaimTemplate, {
    ...template,
    metadata: { ...template.metadata, namespace: "default" },
    spec: { spec: { devices } },
  });
}

function plain(apiVersion: string, kind: string, name: string): Unstored {
  return { apiVersion, kind, metadata: { name } };
}

/**
 * A fake device plugin: which devices a node offers under which resource name, which of them are free, and which one a
 * container gets. No counters are kept: allocated devices are always derived from the pods that hold them.
 */

import type { Container, Pod, ResourceStatus } from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import { marks } from "../../model/profiles/marks.ts";
import { migResource, placePartitions } from "../../model/profiles/mig.ts";
import type { GpuSpec, MigSpec } from "../../model/profiles/profile.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import { seededUuid } from "../../model/values/seeded.ts";

/** A GPU with its permanent identity. */
export interface GpuDevice {
  readonly index: number;
  readonly uuid: string;
  readonly minor: number;
  /** `0000:1b:00.0`. */
  readonly pciBusId: string;
  readonly numaNode: number;
}

/** PCI bus numbers of a machine with eight GPUs; further GPUs repeat them in the next domain. */
const buses = [0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf];

export function gpuDevicesOf(gpu: GpuSpec, place: { clusterSeed: string; node: string }): GpuDevice[] {
  const numaNodes = Math.min(gpu.numaNodes ?? 2, gpu.count);
  return Array.from({ length: gpu.count }, (_, index) => ({
    index,
    uuid: `GPU-${seededUuid(place.clusterSeed, "gpu", place.node, index)}`,
    minor: index,
    pciBusId: `${hex(Math.floor(index / buses.length), 4)}:${hex(buses[index % buses.length] ?? 0, 2)}:00.0`,
    numaNode: Math.floor((index * numaNodes) / gpu.count),
  }));
}

function hex(number: number, digits: number): string {
  return number.toString(16).padStart(digits, "0");
}

/** One allocatable device: a GPU, a partition of one, or a time slice of one. */
export interface DeviceUnit {
  /** The GPU's UUID, a partition's `MIG-<uuid>`, or `<uuid>::<slice>` with time slicing. */
  readonly id: string;
  readonly gpu: number;
  readonly healthy: boolean;
}

/** Units by resource name, lowest index first. */
export type DeviceUnits = ReadonlyMap<string, readonly DeviceUnit[]>;

/** The state of the plugin; defaults are those of the profile, with every GPU healthy. */
export interface PluginState {
  /** Indexes of GPUs that are not healthy. */
  readonly unhealthy?: ReadonlySet<number>;
  /** The plugin is restarting: capacity is known, and nothing can be allocated. */
  readonly down?: boolean;
  readonly mig?: MigSpec;
}

type DeviceOwner = {
  readonly clusterSeed: string;
  readonly name: string;
  readonly profile: { readonly gpu?: GpuSpec };
  readonly devices: readonly GpuDevice[];
};

/** Cached, because every step of every pod reads it and it changes only with faults. */
const offers = new WeakMap<DeviceOwner, Map<string, DeviceUnits>>();
const offersMax = 64;

export function pluginResources(node: DeviceOwner, state: PluginState): DeviceUnits {
  const broken = [...(state.unhealthy ?? [])].sort((a, b) => a - b);
  const key = `${broken.join()}|${state.down === true}|${state.mig === undefined ? "" : JSON.stringify(state.mig)}`;
  let known = offers.get(node);
  if (known === undefined) {
    known = new Map();
    offers.set(node, known);
  }
  let units = known.get(key);
  if (units === undefined) {
    units = offeredUnits(node, state);
    if (known.size >= offersMax) known.clear();
    known.set(key, units);
  }
  return units;
}

function offeredUnits(node: DeviceOwner, state: PluginState): DeviceUnits {
  const { gpu } = node.profile;
  const units = new Map<string, DeviceUnit[]>();
  if (gpu === undefined) return units;
  const mig = state.mig ?? gpu.mig;
  const offer = (resource: string, unit: DeviceUnit) => {
    const known = units.get(resource);
    if (known === undefined) units.set(resource, [unit]);
    else known.push(unit);
  };
  for (const device of node.devices) {
    const healthy = state.down !== true && state.unhealthy?.has(device.index) !== true;
    if (mig !== undefined && mig.strategy !== "none") {
      for (const { id, profile } of migInstances(node, device, mig)) {
        const resource = mig.strategy === "single" ? "nvidia.com/gpu" : migResource(profile);
        offer(resource, { id, gpu: device.index, healthy });
      }
      continue;
    }
    const replicas = gpu.replicas ?? 1;
    for (let turn = 0; turn < replicas; turn++) {
      const id = replicas === 1 ? device.uuid : `${device.uuid}::${turn}`;
      offer("nvidia.com/gpu", { id, gpu: device.index, healthy });
    }
  }
  return units;
}

/** Partitions of one GPU with their permanent names. */
export function migInstances(
  node: DeviceOwner,
  device: GpuDevice,
  mig: MigSpec,
): { id: string; profile: string; start: number }[] {
  const placed = placePartitions(mig, node.profile.gpu?.memoryMiB ?? 0) ?? [];
  return placed.map(({ profile, start }) => ({
    id: `MIG-${seededUuid(node.clusterSeed, "mig", node.name, device.index, profile.name, start)}`,
    profile: profile.name,
    start,
  }));
}

/** Capacity counts all devices, allocatable only the healthy ones. */
export function unitCounts(units: DeviceUnits): {
  capacity: Record<string, number>;
  allocatable: Record<string, number>;
} {
  const capacity: Record<string, number> = {};
  const allocatable: Record<string, number> = {};
  for (const [resource, list] of units) {
    capacity[resource] = list.length;
    allocatable[resource] = list.filter(({ healthy }) => healthy).length;
  }
  return { capacity, allocatable };
}

export function migStateLabel(pending: boolean): string {
  return pending ? "pending" : "success";
}

/** The devices of a pod: container to resource to device ids. */
export type Assignment = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

/** Whether a pod may still hold devices: it has been admitted and has not finished. */
export function holdsDevices(pod: Pod): boolean {
  const phase = pod.status?.phase;
  return phase !== "Succeeded" && phase !== "Failed";
}

/** The devices that the node recorded on a pod; empty without a record, or for an invalid one. */
export function assignmentOf(pod: Pod): Assignment {
  const text = pod.metadata.annotations?.[marks.devices];
  if (text === undefined) return {};
  const value = parsed(text);
  const assignment: Record<string, Record<string, string[]>> = {};
  if (!isObject(value)) return assignment;
  for (const [container, resources] of Object.entries(value)) {
    if (!isObject(resources)) continue;
    const list: Record<string, string[]> = {};
    for (const [resource, ids] of Object.entries(resources)) {
      if (Array.isArray(ids)) list[resource] = ids.filter((id): id is string => typeof id === "string");
    }
    assignment[container] = list;
  }
  return assignment;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Device id to the UID of the pod that holds it, read from the holders themselves. */
export function heldDevices(pods: Iterable<Pod>): Map<string, string> {
  const held = new Map<string, string>();
  for (const pod of pods) {
    if (!holdsDevices(pod)) continue;
    for (const resources of Object.values(assignmentOf(pod))) {
      for (const ids of Object.values(resources)) for (const id of ids) held.set(id, pod.metadata.uid);
    }
  }
  return held;
}

export type AssignResult =
  | { readonly ok: true; readonly assignment: Assignment }
  | { readonly ok: false; readonly resource: string; readonly wanted: number; readonly free: number };

/**
 * Allocates devices to each container, lowest free index first; a pod that names a device gets that one or is refused.
 * Init containers run before the others, so their devices are reused by later containers; sidecars keep theirs.
 */
export function assignDevices(pod: Pod, units: DeviceUnits, held: ReadonlyMap<string, string>): AssignResult {
  const assignment: Record<string, Record<string, string[]>> = {};
  const taken = new Set<string>();
  const reusable = new Map<string, string[]>();
  const pinned = pod.metadata.annotations?.[annotationKeys.pinDevice];
  const isMeant = (id: string): boolean => pinned === undefined || id === pinned || id.startsWith(`${pinned}::`);
  const steps: [Container, boolean][] = [
    ...(pod.spec?.initContainers ?? []).map((each): [Container, boolean] => [each, each.restartPolicy !== "Always"]),
    ...(pod.spec?.containers ?? []).map((each): [Container, boolean] => [each, false]),
  ];
  for (const [container, endsFirst] of steps) {
    for (const [resource, list] of units) {
      const wanted = deviceCount(container, resource);
      if (wanted === 0) continue;
      const again = reusable.get(resource) ?? [];
      const free = list
        .filter(({ id, healthy }) => healthy && !held.has(id) && !taken.has(id) && isMeant(id))
        .map(({ id }) => id);
      const pool = [...again, ...free];
      if (pool.length < wanted) return { ok: false, resource, wanted, free: pool.length };
      const given = pool.slice(0, wanted);
      for (const id of given) taken.add(id);
      if (endsFirst) reusable.set(resource, [...new Set([...again, ...given])]);
      else
        reusable.set(
          resource,
          again.filter((id) => !given.includes(id)),
        );
      assignment[container.name] = { ...assignment[container.name], [resource]: given };
    }
  }
  return { ok: true, assignment };
}

/** How many units of an extended resource a container requests; its limits and requests are equal. */
export function deviceCount(container: Container, resource: string): number {
  const { limits, requests } = container.resources ?? {};
  const amount = Number(limits?.[resource] ?? requests?.[resource] ?? 0);
  return Number.isInteger(amount) && amount > 0 ? amount : 0;
}

/** The health of the container's devices, as `allocatedResourcesStatus` of its status. */
export function deviceHealthOf(
  resources: Readonly<Record<string, readonly string[]>> | undefined,
  units: DeviceUnits,
  faults: readonly { readonly device: number; readonly text: string }[] = [],
): ResourceStatus[] | undefined {
  if (resources === undefined) return undefined;
  const names = Object.keys(resources);
  if (names.length === 0) return undefined;
  return names.map((name) => ({
    name,
    resources: (resources[name] ?? []).map((resourceID) => {
      const unit = units.get(name)?.find(({ id }) => id === resourceID);
      if (unit === undefined) return { resourceID, health: "Unknown" };
      const message = faults.find(({ device }) => device === unit.gpu)?.text;
      return {
        resourceID,
        health: unit.healthy ? "Healthy" : "Unhealthy",
        ...(message !== undefined && { message }),
      };
    }),
  }));
}

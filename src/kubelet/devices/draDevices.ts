/**
 * The devices of a node for Dynamic Resource Allocation: whole GPUs, fixed partitions, or every possible partition with
 * counters that express which of them exclude each other.
 */
import type {
  CounterSet,
  Device,
  DeviceAttribute,
  DeviceCapacity,
  DeviceTaint,
} from "../../model/kubernetes.generated.ts";
import { computeSlicesPerGpu, type MigProfile, memorySlicesPerGpu, migProfilesOf } from "../../model/profiles/mig.ts";
import type { GpuSpec } from "../../model/profiles/profile.ts";
import { canonicalQuantity } from "../../model/values/quantity.ts";
import { formatTime } from "../../model/values/time.ts";
import type { GpuFault, NodeState } from "../node/nodeState.ts";
import type { SimNode } from "../node/simNode.ts";
import { type GpuDevice, migInstances } from "./devices.ts";

export interface DraOptions {
  readonly driver: string;
  /** `gpu-0` as in the vendor's driver, or `gpu-<uuid>` as in fake-gpu-operator. */
  readonly names: "index" | "uuid";
  /** Publishes every possible partition with counters, so that the allocator chooses the partitioning. */
  readonly partitionable: boolean;
}

export const draDefaults: DraOptions = { driver: "gpu.nvidia.com", names: "index", partitionable: false };

export interface DraInventory {
  readonly devices: readonly Device[];
  readonly counterSets: readonly CounterSet[];
}

/** Keys of the taints on an unhealthy device, and on a device that its last consumer has not released yet. */
export const unhealthyTaint = "gpu.nvidia.com/unhealthy";
export const heldTaint = "sim.muster.dev/held";

export function draInventory(
  sim: SimNode,
  state: NodeState,
  options: DraOptions,
  unreleased: ReadonlyMap<string, number> = new Map(),
): DraInventory {
  const { gpu } = sim.profile;
  if (gpu === undefined || state.draDown) return { devices: [], counterSets: [] };
  const devices: Device[] = [];
  const counterSets: CounterSet[] = [];
  const mig = state.mig ?? gpu.mig;
  for (const each of sim.devices) {
    const faults = state.gpuFaults.filter(({ device }) => device === each.index);
    // A device that has fallen off the bus is not published.
    if (faults.some(({ dra }) => dra === "remove")) continue;
    const base = { gpu, each, driver: state.driver ?? gpu.driver };
    const name = options.names === "index" ? `gpu-${each.index}` : each.uuid.toLowerCase();
    const own: Device[] = [];
    if (mig !== undefined && mig.strategy !== "none" && !options.partitionable) {
      for (const { id, profile, start } of migInstances(sim, each, mig)) {
        const found = migProfilesOf(gpu.memoryMiB).find((known) => known.name === profile);
        if (found !== undefined) own.push(partition(base, found, start, { name, uuid: id }));
      }
    } else if (options.partitionable && gpu.migCapable === true) {
      const set = `${name}-counters`;
      counterSets.push({ name: set, counters: counters(range(memorySlicesPerGpu, 0), computeSlicesPerGpu) });
      own.push({
        ...wholeGpu(base, name),
        consumesCounters: [{ counterSet: set, counters: counters(range(memorySlicesPerGpu, 0), computeSlicesPerGpu) }],
      });
      for (const profile of migProfilesOf(gpu.memoryMiB)) {
        for (const start of profile.starts) {
          const used = counters(range(profile.memorySlices, start), profile.computeSlices);
          own.push({
            ...partition(base, profile, start, { name }),
            consumesCounters: [{ counterSet: set, counters: used }],
          });
        }
      }
    } else own.push(wholeGpu(base, name));
    for (const device of own) {
      const taints = taintsOf(faults, unreleased.get(device.name));
      devices.push(taints.length === 0 ? device : { ...device, taints });
    }
  }
  return { devices, counterSets };
}

interface Base {
  readonly gpu: GpuSpec;
  readonly each: GpuDevice;
  readonly driver: string;
}

function wholeGpu({ gpu, each, driver }: Base, name: string): Device {
  const attributes: Record<string, DeviceAttribute> = {
    ...shared(gpu, each, driver),
    type: { string: "gpu" },
    uuid: { string: each.uuid },
    index: { int: each.index },
    minor: { int: each.minor },
  };
  return { name, attributes: withPrefixes(attributes), capacity: { memory: { value: mebibytes(gpu.memoryMiB) } } };
}

function partition(
  { gpu, each, driver }: Base,
  profile: MigProfile,
  start: number,
  { name, uuid }: { name: string; uuid?: string },
): Device {
  const attributes: Record<string, DeviceAttribute> = {
    ...shared(gpu, each, driver),
    type: { string: "mig" },
    profile: { string: profile.name },
    parentUUID: { string: each.uuid },
    ...(uuid === undefined ? {} : { uuid: { string: uuid } }),
  };
  const memoryMiB = Math.floor((gpu.memoryMiB * profile.memorySlices) / memorySlicesPerGpu);
  const capacity: Record<string, DeviceCapacity> = { memory: { value: mebibytes(memoryMiB) } };
  for (const slice of range(profile.memorySlices, start)) capacity[`memorySlice${slice}`] = { value: "1" };
  const suffix = profile.name.replace(/[^a-z0-9]+/g, "");
  return { name: `${name}-mig-${suffix}-${start}`, attributes: withPrefixes(attributes), capacity };
}

function shared(gpu: GpuSpec, each: GpuDevice, driver: string): Record<string, DeviceAttribute> {
  const attributes: Record<string, DeviceAttribute> = {
    productName: { string: gpu.product.slice(0, 64) },
    model: { string: gpu.product.slice(0, 64) },
    brand: { string: "Nvidia" },
    driverVersion: { version: semver(driver) },
    pcieBusID: { string: each.pciBusId },
    numaNode: { int: each.numaNode },
    "resource.kubernetes.io/pcieRoot": { string: `pci${each.pciBusId.slice(0, 7)}` },
  };
  if (gpu.family !== undefined) attributes["architecture"] = { string: gpu.family };
  if (gpu.computeCapability !== undefined)
    attributes["cudaComputeCapability"] = { version: semver(gpu.computeCapability) };
  if (gpu.cuda !== undefined) attributes["cudaDriverVersion"] = { version: semver(gpu.cuda) };
  return attributes;
}

/** Existing selectors use both spellings of these attributes, so both are published. */
function withPrefixes(attributes: Record<string, DeviceAttribute>): Record<string, DeviceAttribute> {
  const result = { ...attributes };
  for (const key of ["type", "uuid", "productName"]) {
    const value = attributes[key];
    if (value !== undefined) result[`gpu.nvidia.com/${key}`] = value;
  }
  return result;
}

/** A version attribute must be three numbers without leading zeros. */
function semver(text: string): string {
  const [major = 0, minor = 0, patch = 0] = text.split(".").map((part) => Number.parseInt(part, 10) || 0);
  return `${major}.${minor}.${patch}`;
}

/** In the form in which the server stores it: any other would be a change at each comparison. */
function mebibytes(count: number): string {
  return canonicalQuantity(`${count}Mi`);
}

function counters(memorySlices: readonly number[], computeSlices: number): Record<string, { value: string }> {
  const result: Record<string, { value: string }> = { "compute-slices": { value: String(computeSlices) } };
  for (const slice of memorySlices) result[`memory-slice-${slice}`] = { value: "1" };
  return result;
}

function range(length: number, start: number): number[] {
  return Array.from({ length }, (_, i) => start + i);
}

function taintsOf(faults: readonly GpuFault[], heldSinceMs: number | undefined): DeviceTaint[] {
  const taints: DeviceTaint[] = [];
  const worst = faults.find(({ dra }) => dra === "NoExecute") ?? faults[0];
  if (worst !== undefined) {
    taints.push({ key: unhealthyTaint, value: worst.cause, effect: worst.dra, timeAdded: formatTime(worst.sinceMs) });
  }
  if (heldSinceMs !== undefined) {
    taints.push({ key: heldTaint, effect: "NoSchedule", timeAdded: formatTime(heldSinceMs) });
  }
  return taints;
}

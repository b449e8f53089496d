/**
 * One physical GPU, however it is allocated: by a device plugin as `nvidia.com/gpu` or `nvidia.com/mig-*`, by a claim
 * as a device of a ResourceSlice, or in shares that a reservation pod holds. The scheduler, `muster verify` and the
 * views all use this file.
 *
 * A device and what the plugin offers are the same GPU in two cases:
 *
 *   by name    the driver publishes the attribute `uuid` (or `parentUUID` of a partition), and a pod on that node
 *              reports that id as the one that it got from the plugin
 *   by count   the node offers `nvidia.com/gpu`, or a MIG resource, and slices of the driver `gpu.nvidia.com`: then
 *              both offer the same GPUs, and each GPU that a claim has is one less for the plugin, whether or
 *              not the plugin names its devices
 *
 * Slices of other drivers, and nodes with only a plugin or only slices, are not matched.
 */
import type {
  Device,
  DeviceAttribute,
  Node,
  Pod,
  ResourceClaim,
  ResourceSlice,
} from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import { podRequests } from "../../model/objects/podRequests.ts";
import { marks } from "../../model/profiles/marks.ts";
import { migResource } from "../../model/profiles/mig.ts";
import { annotationKeys, isReservationPod, labelKeys } from "../../model/scheduling/keys.ts";
import { deviceKey } from "./search/poolDevice.ts";

const gpuDriver = "gpu.nvidia.com";
export const gpuResource = "nvidia.com/gpu";
const migPrefix = "nvidia.com/mig-";
/** The number of time slices of a GPU; GPU feature discovery writes it. */
const replicasLabel = "nvidia.com/gpu.replicas";

/** Resources of a device plugin whose GPUs a DRA driver may publish as well. */
export function isPluginGpu(resource: string): boolean {
  return resource === gpuResource || resource.startsWith(migPrefix);
}

/** A device of a node, and the GPU that it belongs to. */
interface GpuDevice {
  readonly key: string;
  /** The UUID of the GPU, its own or its parent's; the device's key where the driver publishes none. */
  readonly gpu: string;
  /** The id of this device in the plugin: that of the partition, or of the GPU. */
  readonly id: string;
  /** The plugin's resource for this device; undefined where the plugin of the node does not offer it. */
  readonly resource: string | undefined;
}

/** The GPUs of one node that are published as devices, matched with the resources of its plugin. */
export class NodeGpus {
  private readonly devices = new Map<string, GpuDevice>();
  /** The amount of `nvidia.com/gpu` of one GPU: more than one with time slicing. */
  private readonly unitsPerGpu: number;

  constructor(node: Node | undefined, slices: readonly ResourceSlice[]) {
    const amounts = node?.status?.capacity ?? node?.status?.allocatable ?? {};
    const isSingle = node?.metadata.labels?.[labelKeys.migStrategy] === "single";
    for (const { spec } of slices) {
      for (const device of spec.devices ?? []) {
        const key = deviceKey({ driver: spec.driver, pool: spec.pool.name, device: device.name });
        const { uuid, parent, profile } = identityOf(spec.driver, device);
        const isCounted = spec.driver === gpuDriver;
        if (uuid === undefined && parent === undefined && !isCounted) continue;
        const gpu = parent ?? uuid ?? key;
        const mig = profile === undefined ? undefined : migResource(profile);
        const resource = mig !== undefined && amounts[mig] !== undefined && !isSingle ? mig : gpuResource;
        const isOffered = isCounted && Number(amounts[resource] ?? 0) > 0;
        // Where `nvidia.com/gpu` counts partitions, each of them is one.
        const id = uuid !== undefined && (resource === mig || (isSingle && mig !== undefined)) ? uuid : gpu;
        this.devices.set(key, { key, gpu, id, resource: isOffered ? resource : undefined });
      }
    }
    const turns = Number(node?.metadata.labels?.[replicasLabel] ?? "1");
    this.unitsPerGpu = Number.isInteger(turns) && turns > 1 ? turns : 1;
  }

  /** Whether the node offers GPUs by its plugin and as devices. */
  get isBothWays(): boolean {
    for (const { resource } of this.devices.values()) if (resource !== undefined) return true;
    return false;
  }

  keys(): Iterable<string> {
    return this.devices.keys();
  }

  /** The amounts of the plugin's resources that these devices use up, each GPU once. */
  unitsOf(keys: Iterable<string>): Map<string, number> {
    const ids = new Map<string, Set<string>>();
    for (const key of keys) {
      const device = this.devices.get(key);
      if (device?.resource === undefined) continue;
      ids.set(device.resource, (ids.get(device.resource) ?? new Set()).add(device.id));
    }
    const units = new Map<string, number>();
    for (const [resource, each] of ids)
      units.set(resource, each.size * (resource === gpuResource ? this.unitsPerGpu : 1));
    return units;
  }

  /** Whether one of these ids, as pods report them, is the device, a partition of it, or its GPU. */
  isAmong(key: string, reported: ReadonlySet<string>): boolean {
    const device = this.devices.get(key);
    if (device === undefined || reported.size === 0) return false;
    return reported.has(device.id) || (reported.has(device.gpu) && device.gpu !== device.key);
  }

  /** The name of a device in findings: its GPU. */
  gpuOf(key: string): string | undefined {
    return this.devices.get(key)?.gpu;
  }

  idOf(key: string): string | undefined {
    return this.devices.get(key)?.id;
  }
}

/**
 * Devices of claims that are GPUs of the node's plugin and that no ResourceSlice describes: a node that registers again
 * offers its plugin's GPUs before its slices are published.
 */
export function unpublishedGpus(node: Node, claims: Iterable<ResourceClaim>, published: NodeGpus | undefined): number {
  if (Number(node.status?.allocatable?.[gpuResource] ?? 0) === 0) return 0;
  const known = new Set(published?.keys());
  const unknown = new Set<string>();
  for (const { status } of claims) {
    for (const result of status?.allocation?.devices?.results ?? []) {
      if (result.driver !== gpuDriver || result.pool !== node.metadata.name || result.adminAccess === true) continue;
      const key = deviceKey(result);
      if (!known.has(key)) unknown.add(key);
    }
  }
  return unknown.size;
}

interface Identity {
  readonly uuid: string | undefined;
  readonly parent: string | undefined;
  readonly profile: string | undefined;
}

function identityOf(driver: string, { attributes = {} }: Device): Identity {
  const text = (name: string): string | undefined => textOf(attributes[name] ?? attributes[`${driver}/${name}`]);
  return { uuid: text("uuid"), parent: text("parentUUID"), profile: text("profile") };
}

function textOf(attribute: DeviceAttribute | undefined): string | undefined {
  return attribute?.string === "" ? undefined : attribute?.string;
}

const reported = new WeakMap<Pod, ReadonlySet<string>>();

/**
 * Ids of GPUs and partitions that a pod got from a device plugin, as its node reports them: in the status of its
 * containers (`allocatedResourcesStatus`), on a reservation pod, or on a pod of a simulated node.
 */
export function reportedGpus(pod: Pod): ReadonlySet<string> {
  let ids = reported.get(pod);
  if (ids === undefined) {
    ids = new Set([...reportedIds(pod)].map(bareId));
    reported.set(pod, ids);
  }
  return ids;
}

/** The ids as they are reported: with time slicing `<uuid>::<slice>`, which several pods have of one GPU. */
export function* reportedIds({ metadata, status }: Pod): Iterable<string> {
  const { [annotationKeys.reservedGpu]: kept, [marks.devices]: text } = metadata.annotations ?? {};
  if (kept !== undefined && kept !== "") yield kept;
  for (const { allocatedResourcesStatus = [] } of [
    ...(status?.initContainerStatuses ?? []),
    ...(status?.containerStatuses ?? []),
  ]) {
    for (const { name, resources = [] } of allocatedResourcesStatus) {
      if (isPluginGpu(name)) for (const { resourceID } of resources) yield resourceID;
    }
  }
  const assignment = text === undefined ? undefined : parsed(text);
  if (!isObject(assignment)) return;
  for (const resources of Object.values(assignment)) {
    if (!isObject(resources)) continue;
    for (const [name, ids] of Object.entries(resources)) {
      if (!isPluginGpu(name) || !Array.isArray(ids)) continue;
      for (const id of ids) if (typeof id === "string") yield id;
    }
  }
}

/** The id of the GPU of a time slice. */
function bareId(id: string): string {
  return id.split("::")[0] ?? id;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether a pod has GPUs from the device plugin, or will have. */
export function usesPlugin(pod: Pod): boolean {
  if (isReservationPod(pod)) return true;
  // Resources that a claim provides do not come from the plugin.
  const { requestMappings = [] } = pod.status?.extendedResourceClaimStatus ?? {};
  for (const [name, amount] of podRequests(pod)) {
    if (amount > 0n && isPluginGpu(name) && !requestMappings.some(({ resourceName }) => resourceName === name))
      return true;
  }
  return false;
}

/**
 * Whether a pod has GPUs from the plugin that are not known by id. A node that reports its devices has done so when the
 * pod runs; otherwise it never will.
 */
export function isUnreported(pod: Pod): boolean {
  return pod.status?.phase !== "Running" && reportedGpus(pod).size === 0 && usesPlugin(pod);
}

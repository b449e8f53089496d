import type { DeviceAttribute, Node, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { nanoOf } from "../../model/objects/podRequests.ts";
import { computeSlicesPerGpu } from "../../model/profiles/mig.ts";
import { labelKeys } from "../../model/scheduling/keys.ts";
import { whole } from "../../model/window/sums.ts";
import { deviceKey } from "../devices/search/poolDevice.ts";
import { gpuMaker, wholeCapacity } from "../schedule/cluster/resources.ts";

/** A GPU of a node, in its place. */
export interface ListedGpu {
  /** Empty where no driver publishes it. */
  readonly uuid: string;
  /** What is wrong with it; empty when nothing is known to be. */
  readonly broken: string;
}

/** The GPUs of a node in their places, and how ids that pods report lead to them. */
export interface NodeGpuList {
  readonly gpus: readonly ListedGpu[];
  /** GPUs that are out of order, and it is not known which. */
  readonly brokenElsewhere: number;
  /** By UUID of a GPU or a partition: the place, and how much of the GPU it is. */
  readonly byId: ReadonlyMap<string, { readonly at: number; readonly milli: number }>;
  /** By key of a device of a slice. */
  readonly byDevice: ReadonlyMap<string, { readonly at: number; readonly milli: number }>;
  /** How much of a GPU one unit of the device plugin is. */
  readonly unitMilli: number;
}

/** GPU feature discovery writes how many pods take turns at a GPU. */
const replicasLabel = "nvidia.com/gpu.replicas";
/** Taints of a device that say that it is out of order; any other may only keep pods away. */
const unhealthyTaint = /unhealthy|failed|xid|ecc/i;

/** From what the node offers and from what drivers publish of it. */
export function nodeGpuList(node: Node, slices: readonly ResourceSlice[]): NodeGpuList {
  const labels = node.metadata.labels ?? {};
  const turns = Math.max(1, Math.floor(Number(labels[replicasLabel] ?? "1")) || 1);
  const offered = gpusIn(node.status?.capacity);
  const usable = gpusIn(node.status?.allocatable ?? node.status?.capacity);
  const published = publishedGpus(slices);
  const isPartitioned = labels[labelKeys.migStrategy] === "single" || labels[labelKeys.migStrategy] === "mixed";
  const counted = isPartitioned ? published.length : Math.ceil(offered / turns);
  const named = isPartitioned ? 0 : Math.floor(Number(labels[labelKeys.gpuCount] ?? "0")) || 0;
  const places = placesOf(published);
  const count = Math.max(counted, places.length, counted === 0 && places.length === 0 ? 0 : named);
  const gpus: ListedGpu[] = [];
  const byId = new Map<string, { at: number; milli: number }>();
  const byDevice = new Map<string, { at: number; milli: number }>();
  for (let at = 0; at < count; at++) {
    const found = places[at];
    const isMissing = found === undefined && published.length > 0 && counted > 0;
    gpus.push({ uuid: found?.gpu ?? "", broken: found?.broken ?? (isMissing ? "not published by its driver" : "") });
    if (found === undefined) continue;
    byId.set(found.gpu, { at, milli: whole });
    for (const { key, id, milli } of found.devices) {
      byDevice.set(key, { at, milli });
      if (id !== "" && !byId.has(id)) byId.set(id, { at, milli });
    }
  }
  const known = gpus.filter(({ broken }) => broken !== "").length;
  const lost = isPartitioned ? 0 : Math.ceil(Math.max(0, offered - usable) / turns);
  return { gpus, brokenElsewhere: Math.max(0, lost - known), byId, byDevice, unitMilli: Math.floor(whole / turns) };
}

/** A GPU as its driver publishes it, with the devices that are parts of it. */
interface PublishedGpu {
  readonly gpu: string;
  index: number | undefined;
  broken: string;
  readonly devices: { readonly key: string; readonly id: string; readonly milli: number }[];
}

function publishedGpus(slices: readonly ResourceSlice[]): PublishedGpu[] {
  const byGpu = new Map<string, PublishedGpu>();
  for (const { spec } of slices) {
    for (const { name, attributes = {}, taints = [] } of spec.devices ?? []) {
      const attribute = (key: string): DeviceAttribute | undefined =>
        attributes[key] ?? attributes[`${spec.driver}/${key}`];
      const uuid = attribute("uuid")?.string ?? "";
      const parent = attribute("parentUUID")?.string ?? "";
      const profile = attribute("profile")?.string ?? "";
      if (uuid === "" && parent === "" && !spec.driver.includes("gpu")) continue;
      const key = deviceKey({ driver: spec.driver, pool: spec.pool.name, device: name });
      const gpu = parent !== "" ? parent : uuid !== "" ? uuid : key;
      const known = byGpu.get(gpu) ?? { gpu, index: undefined, broken: "", devices: [] };
      byGpu.set(gpu, known);
      const index = attribute(parent === "" ? "index" : "parentIndex")?.int;
      if (index !== undefined) known.index ??= Number(index);
      const ill = taints.find(({ key: taint }) => unhealthyTaint.test(taint));
      if (ill !== undefined) known.broken = ill.value ?? ill.key;
      known.devices.push({ key, id: uuid, milli: partMilli(profile) });
    }
  }
  return [...byGpu.values()];
}

/** By the index that the driver gives; in the order of publication where it gives none. */
function placesOf(published: readonly PublishedGpu[]): (PublishedGpu | undefined)[] {
  const places: (PublishedGpu | undefined)[] = [];
  const hasIndexes =
    published.every(({ index }) => index !== undefined && index >= 0 && index < 1024) &&
    new Set(published.map(({ index }) => index)).size === published.length;
  if (!hasIndexes) return [...published];
  for (const each of published) places[each.index ?? 0] = each;
  return Array.from(places);
}

function partMilli(profile: string): number {
  const match = /^([1-7])g\./.exec(profile);
  return match === null ? whole : Math.floor((Number(match[1]) * whole) / computeSlicesPerGpu);
}

function gpusIn(amounts: Readonly<Record<string, string>> = {}): number {
  let sum = 0;
  for (const [name, text] of Object.entries(amounts))
    if (gpuMaker(name) !== 0) sum += wholeCapacity(name, nanoOf(text));
  return sum;
}

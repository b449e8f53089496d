import type { Node, Taint } from "../../../model/kubernetes.generated.ts";
import { nanoOf } from "../../../model/objects/podRequests.ts";
import { labelKeys } from "../../../model/scheduling/keys.ts";
import type { NodeGpus } from "../../devices/physicalGpus.ts";
import type { ClaimedUnits } from "./deviceClaims.ts";
import type { PodShape } from "./podShape.ts";
import { gpuMaker, type ResourceNames, type Vector, wholeCapacity, zeroVector } from "./resources.ts";
import { type ServedResources, servedAmount } from "./servedResources.ts";

/** How a pod holds what it has on a node. */
export type HoldState =
  /** Now and later. */
  | "used"
  /** Now; it is terminating, and what it has may be nominated to others. */
  | "releasing"
  /** Now; it should have gone long ago, so nothing of it is nominated. */
  | "stuck"
  /** Later, when what is being released is free. */
  | "pipelined";

/**
 * A pod on a node, or about to be: its amounts count there. A pod holds two places while the outcome of a bind is
 * unknown.
 */
export interface Holding {
  readonly holder: Holder;
  readonly node: NodeState;
  /** The groups whose GPUs it shares. */
  readonly groups: readonly string[];
  state: HoldState;
}

/** What a pod should hold on a node. */
export interface WantedHolding {
  readonly node: NodeState;
  readonly groups: readonly string[];
  readonly state: HoldState;
}

export function sameHolding(a: Holding | undefined, b: WantedHolding): boolean {
  return (
    a !== undefined &&
    a.node === b.node &&
    a.groups.length === b.groups.length &&
    a.groups.every((group, at) => group === b.groups[at])
  );
}

export function sameHoldings(a: readonly Holding[], b: readonly WantedHolding[]): boolean {
  return a.length === b.length && b.every((each, at) => sameHolding(a[at], each));
}

/** What can hold a place. */
export interface Holder {
  readonly uid: string;
  readonly shape: PodShape;
  /** Reserves a GPU for the pods that share it: it has the device, but the sharers count, not it. */
  readonly isReservation: boolean;
  /** Not ours to schedule: what it holds is no part of what queues divide. */
  readonly isForeign: boolean;
}

/** One GPU that is shared. */
export interface GroupUse {
  readonly id: string;
  /** Memory taken now, and when what is being released is free. */
  usedMiB: number;
  laterMiB: number;
  /** Holders, reservations included. */
  holders: number;
  laterHolders: number;
  hasReservation: boolean;
}

/** When a node does not say how much memory its GPUs have, shares are counted in hundredths. */
const unknownGpuMemoryMiB = 100;

/** A node as decisions see it. It exists as soon as a pod names it; without its object nothing may be placed on it. */
export class NodeState {
  readonly name: string;
  /** Its place in the packed arrays, in order of name. */
  index = -1;
  node: Node | undefined;
  readonly holdings = new Set<Holding>();
  readonly groups = new Map<string, GroupUse>();
  /** What it can give, by place of the resource. */
  capacity: number[] = [];
  labels: Readonly<Record<string, string>> = {};
  taints: readonly Taint[] = [];
  /** Ready, not cordoned, under no pressure. */
  isHealthy = false;
  gpuMemoryMiB = unknownGpuMemoryMiB;
  knowsGpuMemory = false;
  migStrategy: "none" | "single" | "mixed" = "none";
  /** The product that its GPUs are; empty when it does not say. */
  gpuType = "";
  /** Makers of the GPUs that it offers, as bits. */
  gpuMakers = 0;
  /** GPUs that only claims can have: published as devices, and not as an amount. */
  claimGpus = 0;
  /** Resources that it has from devices, and not from a device plugin. */
  servedPlaces: ReadonlySet<number> = new Set();
  /** Its GPUs that are published as devices; undefined where there are none. */
  gpus: NodeGpus | undefined;
  /** What claims have of the GPUs that its device plugin offers as well; undefined where they have none. */
  claimed: ClaimedUnits | undefined;
  /** What is idle of the plugin's resources for claims, by place, where pods have to wait for it. */
  readonly idleForClaims = new Map<number, number>();
  /** What pods that are not ours hold. */
  foreign: Vector = zeroVector();

  constructor(name: string) {
    this.name = name;
  }

  /** The node as its object says it is; without one it can give nothing. */
  update(node: Node | undefined, names: ResourceNames, served: ServedResources): void {
    this.node = node;
    this.labels = node?.metadata.labels ?? {};
    this.taints = node?.spec?.taints ?? [];
    this.isHealthy = node !== undefined && isHealthyNode(node);
    this.capacity = [];
    this.gpuMakers = 0;
    for (const [name, text] of Object.entries(node?.status?.allocatable ?? node?.status?.capacity ?? {})) {
      const place = names.placeOf(name);
      this.capacity[place] = (this.capacity[place] ?? 0) + wholeCapacity(name, nanoOf(text));
      this.gpuMakers |= gpuMaker(name);
    }
    this.servedPlaces = node === undefined ? new Set() : served.placesOn(node, names);
    for (const place of this.servedPlaces) this.capacity[place] = servedAmount(place, this.claimGpus);
    const memory = gpuMemoryMiB(this.labels[labelKeys.gpuMemory]);
    this.knowsGpuMemory = memory !== undefined;
    this.gpuMemoryMiB = memory ?? unknownGpuMemoryMiB;
    this.gpuType = this.labels[labelKeys.gpuProduct] ?? "";
    const strategy = this.labels[labelKeys.migStrategy];
    this.migStrategy = strategy === "single" || strategy === "mixed" ? strategy : "none";
  }
}

/** Ready, and neither cordoned nor short of memory, disk, process ids or network. */
function isHealthyNode(node: Node): boolean {
  if (node.spec?.unschedulable === true || node.metadata.deletionTimestamp !== undefined) return false;
  let isReady = false;
  for (const { type, status } of node.status?.conditions ?? []) {
    if (type === "Ready") isReady = status === "True";
    else if (badWhenTrue.has(type) && status !== "False") return false;
  }
  return isReady;
}

const badWhenTrue = new Set(["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"]);

const mebi = 1024 * 1024;

/** Floored to whole hundreds of MiB; some label makers write bytes, which no GPU has so many MiB of. */
export function gpuMemoryMiB(label: string | undefined): number | undefined {
  if (label === undefined || !/^[0-9]+$/.test(label)) return undefined;
  const value = Number(label);
  const mib = value >= 100 * mebi ? Math.floor(value / mebi) : value;
  const floored = Math.floor(mib / 100) * 100;
  return floored > 0 ? floored : undefined;
}

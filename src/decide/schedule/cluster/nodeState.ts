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
  /** Now; the pod is terminating, and its resources may be nominated to others. */
  | "releasing"
  /** Now; the pod is terminating for too long, so its resources are not nominated. */
  | "stuck"
  /** Later, when terminating pods have released their resources. */
  | "pipelined";

/**
 * A pod on a node, bound or decided: its requests count there. A pod holds two nodes while the outcome of a bind is
 * unknown and it was decided again.
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

/** A pod that can hold resources of a node. */
export interface Holder {
  readonly uid: string;
  readonly shape: PodShape;
  /** A reservation pod holds the device of a GPU group; the pods of the group count, and not the reservation. */
  readonly isReservation: boolean;
  /** A pod of another scheduler: its resources are not divided among queues. */
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

/** For a node without a label of GPU memory: shares are counted in hundredths of a GPU. */
const unknownGpuMemoryMiB = 100;

/** A node as decisions read it. It exists as soon as a pod names it; without a Node object no pod is placed on it. */
export class NodeState {
  readonly name: string;
  /** Its place in the packed arrays, in order of name. */
  index = -1;
  node: Node | undefined;
  readonly holdings = new Set<Holding>();
  readonly groups = new Map<string, GroupUse>();
  /** Allocatable amounts, by place of the resource. */
  capacity: number[] = [];
  labels: Readonly<Record<string, string>> = {};
  taints: readonly Taint[] = [];
  /** Ready, not cordoned, under no pressure. */
  isHealthy = false;
  gpuMemoryMiB = unknownGpuMemoryMiB;
  knowsGpuMemory = false;
  migStrategy: "none" | "single" | "mixed" = "none";
  /** The label `nvidia.com/gpu.product`; empty without the label. */
  gpuType = "";
  /** Makers of the GPUs that it offers, as bits. */
  gpuMakers = 0;
  /** GPUs that are published as devices only, and not by a device plugin. */
  claimGpus = 0;
  /** Resources that it has from devices, and not from a device plugin. */
  servedPlaces: ReadonlySet<number> = new Set();
  /** Its GPUs that are published as devices; undefined where there are none. */
  gpus: NodeGpus | undefined;
  /** GPUs of its device plugin that are allocated to claims; undefined where there are none. */
  claimed: ClaimedUnits | undefined;
  /** Idle amounts of the plugin's resources for claims, by place, while pods may not use them yet. */
  readonly idleForClaims = new Map<number, number>();
  /** Resources that pods of other schedulers hold. */
  heldByOthers: Vector = zeroVector();

  constructor(name: string) {
    this.name = name;
  }

  /** Updates the state from the Node object; without one nothing is allocatable. */
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

/** Rounded down to hundreds of MiB. A value that no GPU can have in MiB is in bytes, as some labellers write it. */
export function gpuMemoryMiB(label: string | undefined): number | undefined {
  if (label === undefined || !/^[0-9]+$/.test(label)) return undefined;
  const value = Number(label);
  const mib = value >= 100 * mebi ? Math.floor(value / mebi) : value;
  const floored = Math.floor(mib / 100) * 100;
  return floored > 0 ? floored : undefined;
}

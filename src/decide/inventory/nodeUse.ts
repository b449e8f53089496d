/** The capacity of one node: allocatable, used and free amounts of a resource, and whether new pods can start there. */
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { parseQuantity, QuantityError, unitsOf } from "../../model/values/quantity.ts";
import type { InventorySnapshot } from "./inventorySnapshot.ts";
import { holdsItsNode, isReservationPod, isWarm, unitsRequested } from "./podUse.ts";
import { instanceIdOf, type NodeRules, type UnschedulableReason, whyNotSchedulable } from "./schedulableNode.ts";

export interface NodeUse {
  readonly name: string;
  readonly instanceId: string | undefined;
  readonly allocatable: number;
  readonly capacity: number;
  readonly used: number;
  readonly free: number;
  /** Pods that use the resource on this node, with the amount. */
  readonly holders: readonly { readonly pod: Pod; readonly units: number }[];
  /** Reservation pods on this node, with and without GPUs. */
  readonly reservations: readonly Pod[];
  /** Why no new pod can start on this node; undefined when one can. */
  readonly unschedulable: UnschedulableReason | undefined;
  /** Why the amounts are unknown: a quantity could not be parsed. */
  readonly unknown: string | undefined;
}

/** Nodes, pods and devices, indexed for counting. */
export class ClusterIndex {
  readonly nodes: readonly Node[];
  private readonly pods = new Map<string, Pod[]>();
  private readonly devices: ReadonlyMap<string, readonly string[]>;
  private readonly published = new Map<string, number>();
  private readonly byLabel = new Map<string, Node[]>();

  constructor(snapshot: InventorySnapshot, nodeLabel: string) {
    this.nodes = [...snapshot.nodes].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    for (const pod of snapshot.pods) {
      if (!holdsItsNode(pod)) continue;
      const node = pod.spec?.nodeName ?? "";
      const here = this.pods.get(node);
      if (here === undefined) this.pods.set(node, [pod]);
      else here.push(pod);
    }
    for (const here of this.pods.values()) here.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
    for (const node of this.nodes) {
      const value = node.metadata.labels?.[nodeLabel];
      if (value === undefined) continue;
      const same = this.byLabel.get(value);
      if (same === undefined) this.byLabel.set(value, [node]);
      else same.push(node);
    }
    this.devices = snapshot.devicesByPod;
    for (const [node, count] of snapshot.devicesByNode) this.published.set(node, count);
  }

  labelled(value: string): readonly Node[] {
    return this.byLabel.get(value) ?? [];
  }

  use(node: Node, resource: string, rules: NodeRules, nowMs: number): NodeUse {
    const { name } = node.metadata;
    const unschedulable = whyNotSchedulable(node, rules, nowMs);
    // A node without a cloud instance is identified by its name.
    const instanceId = instanceIdOf(node) ?? name;
    const nothing = { name, instanceId, unschedulable, allocatable: 0, capacity: 0, used: 0, free: 0, holders: [] };
    try {
      const allocatable = this.amount(node, node.status?.allocatable, resource);
      const capacity = Math.max(allocatable, this.amount(node, node.status?.capacity, resource));
      const holders: { pod: Pod; units: number }[] = [];
      const reservations: Pod[] = [];
      const seen = new Set<string>();
      let used = 0;
      for (const pod of this.pods.get(name) ?? []) {
        if (isReservationPod(pod)) reservations.push(pod);
        const units = unitsRequested(pod, resource) + this.claimed(pod, resource, seen);
        if (units === 0) continue;
        holders.push({ pod, units });
        if (!isWarm(pod)) used += units;
      }
      const free = Math.max(0, allocatable - used);
      return { ...nothing, allocatable, capacity, used, free, holders, reservations, unknown: undefined };
    } catch (error) {
      if (!(error instanceof QuantityError)) throw error;
      return { ...nothing, reservations: [], unknown: error.message };
    }
  }

  private amount(node: Node, list: Readonly<Record<string, string>> | undefined, resource: string): number {
    const text = list?.[resource];
    if (text !== undefined) return Number(unitsOf(parseQuantity(text)));
    // A node whose GPUs are allocated only by claims has none in status.allocatable.
    return resource === wholeGpu ? (this.published.get(node.metadata.name) ?? 0) : 0;
  }

  /** Devices of claims that were not created for the pod's extended resources. */
  private claimed(pod: Pod, resource: string, seen: Set<string>): number {
    if (resource !== wholeGpu) return 0;
    let count = 0;
    for (const device of this.devices.get(pod.metadata.uid) ?? []) {
      if (seen.has(device)) continue;
      seen.add(device);
      count++;
    }
    return count;
  }
}

/** Claims allocate whole GPUs; slices are requested by their own resource. */
const wholeGpu = "nvidia.com/gpu";

function keyOf(pod: Pod): string {
  return `${pod.metadata.namespace ?? ""}/${pod.metadata.name}`;
}

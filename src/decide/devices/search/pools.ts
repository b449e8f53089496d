/**
 * From slices to pools: the devices that one node can reach, in the order in which they are tried. A pool is one
 * driver's set of slices of one generation; while some of them are missing, none of its devices is allocated.
 */
import type { Device, Node, ResourceSlice } from "../../../model/kubernetes.generated.ts";
import { matchesNodeSelector } from "../../../model/objects/nodeMatch.ts";
import { parseQuantity } from "../../../model/values/quantity.ts";
import type { DeviceFeatures } from "./features.ts";
import { devicesOf, type PoolDevice } from "./poolDevice.ts";

export interface Pool {
  readonly id: string;
  readonly driver: string;
  readonly name: string;
  readonly state: "complete" | "incomplete" | "invalid";
  readonly why?: string;
  /** Of the slices that reach the node, in order of slice name. */
  readonly devices: readonly PoolDevice[];
  readonly counters: PoolCounters | undefined;
}

/** Counters of a pool by index, and what each of its devices consumes; devices of other nodes consume counters too. */
export interface PoolCounters {
  readonly totals: readonly bigint[];
  readonly uses: ReadonlyMap<string, readonly CounterUse[]>;
}

export interface CounterUse {
  readonly at: number;
  readonly amount: bigint;
}

/** A device and its index in the search order of one node. */
export interface PlacedDevice {
  readonly it: PoolDevice;
  readonly pool: Pool;
  readonly uses: readonly CounterUse[] | undefined;
}

export interface NodePools {
  readonly node: Node;
  readonly pools: readonly Pool[];
  /** Of the complete pools, in the order in which they are tried. */
  readonly devices: readonly PlacedDevice[];
}

/**
 * All slices of a cluster, indexed by node. Created again when slices change; the pools of a node are computed on
 * demand.
 */
export class SliceIndex {
  private readonly features: DeviceFeatures;
  private readonly slices: readonly ResourceSlice[];
  private readonly byNode = new Map<string, ResourceSlice[]>();
  private readonly shared: ResourceSlice[] = [];
  private byPool: Map<string, ResourceSlice[]> | undefined;
  private readonly known = new Map<string, { node: Node; pools: NodePools }>();

  constructor(slices: readonly ResourceSlice[], features: DeviceFeatures) {
    this.features = features;
    this.slices = slices;
    for (const slice of slices) {
      const { nodeName } = slice.spec;
      if (!nodeName) {
        this.shared.push(slice);
        continue;
      }
      const own = this.byNode.get(nodeName);
      if (own === undefined) this.byNode.set(nodeName, [slice]);
      else own.push(slice);
    }
  }

  get hasSharedSlices(): boolean {
    return this.shared.length > 0;
  }

  /** The pools that the node can reach. Throws BadSelector where a slice is invalid. */
  poolsOf(node: Node): NodePools {
    const before = this.known.get(node.metadata.name);
    // A node changes with every heartbeat; only its name and labels matter here.
    if (before !== undefined && (before.node === node || sameLabels(before.node, node))) return before.pools;
    const pools = this.build(node);
    this.known.set(node.metadata.name, { node, pools });
    return pools;
  }

  private build(node: Node): NodePools {
    const groups = new Map<string, ResourceSlice[]>();
    for (const slice of this.byNode.get(node.metadata.name) ?? []) this.admit(slice, node, groups);
    for (const slice of this.shared) this.admit(slice, node, groups);
    const plain: Pool[] = [];
    const binding: Pool[] = [];
    for (const targeting of groups.values()) {
      const pool = this.poolOf(targeting);
      if (pool === undefined) continue;
      const needsBinding = pool.devices.some(({ device }) => device.bindingConditions !== undefined);
      (needsBinding ? binding : plain).push(pool);
    }
    const pools = [...plain.sort(byDriverAndName), ...binding.sort(byDriverAndName)];
    const devices: PlacedDevice[] = [];
    for (const pool of pools) {
      if (pool.state !== "complete") continue;
      for (const it of pool.devices) devices.push({ it, pool, uses: pool.counters?.uses.get(it.key) });
    }
    return { node, pools, devices };
  }

  private admit(slice: ResourceSlice, node: Node, groups: Map<string, ResourceSlice[]>): void {
    const { spec } = slice;
    const isRich = spec.perDeviceNodeSelection === true || (spec.sharedCounters?.length ?? 0) > 0;
    if (isRich && !this.features.partitionableDevices) return;
    if (!reachesNode(slice, node)) return;
    const id = poolId(slice);
    const held = groups.get(id);
    const heldGeneration = held?.[0]?.spec.pool.generation ?? -1;
    if (held === undefined || spec.pool.generation > heldGeneration) groups.set(id, [slice]);
    else if (spec.pool.generation === heldGeneration) held.push(slice);
  }

  /** Undefined when the pool has a newer generation elsewhere. */
  private poolOf(targeting: ResourceSlice[]): Pool | undefined {
    const [first] = targeting as [ResourceSlice, ...ResourceSlice[]];
    const { generation, resourceSliceCount } = first.spec.pool;
    let others: ResourceSlice[] = [];
    if (targeting.length !== resourceSliceCount) {
      const all = this.slicesOfPool(poolId(first));
      if (all.some(({ spec }) => spec.pool.generation > generation)) return undefined;
      const current = all.filter(({ spec }) => spec.pool.generation === generation);
      if (current.length !== resourceSliceCount) return marker(first, "incomplete");
      const names = new Set(targeting.map(({ metadata }) => metadata.name));
      others = current.filter(({ metadata }) => !names.has(metadata.name));
    }
    return completePool(targeting, others, this.features);
  }

  private slicesOfPool(id: string): readonly ResourceSlice[] {
    if (this.byPool === undefined) {
      this.byPool = new Map();
      for (const slice of this.slices) {
        const key = poolId(slice);
        const own = this.byPool.get(key);
        if (own === undefined) this.byPool.set(key, [slice]);
        else own.push(slice);
      }
    }
    return this.byPool.get(id) ?? [];
  }
}

/** A slice or device with an invalid node selector: an error of the driver. */
export class BadSelector extends Error {}

function completePool(
  targeting: readonly ResourceSlice[],
  others: readonly ResourceSlice[],
  features: DeviceFeatures,
): Pool {
  const [first] = targeting as [ResourceSlice, ...ResourceSlice[]];
  const sorted = [...targeting].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const isCounterSlice = ({ spec }: ResourceSlice): boolean =>
    features.partitionableDevices && (spec.sharedCounters?.length ?? 0) > 0;
  const devices = sorted.filter((slice) => !isCounterSlice(slice)).flatMap(devicesOf);
  const names = new Set<string>();
  for (const { device } of devices) {
    if (names.has(device.name)) return marker(first, "invalid", `duplicate device name ${device.name}`);
    names.add(device.name);
  }
  const base = { id: poolId(first), driver: first.spec.driver, name: first.spec.pool.name, state: "complete" as const };
  if (!features.partitionableDevices) return { ...base, devices, counters: undefined };
  const counterSlices = [...sorted, ...others].filter(isCounterSlice);
  const elsewhere = others.filter((slice) => !isCounterSlice(slice)).flatMap(devicesOf);
  const counters = countersOf(counterSlices, [...devices, ...elsewhere]);
  return typeof counters === "string" ? marker(first, "invalid", counters) : { ...base, devices, counters };
}

function countersOf(
  slices: readonly ResourceSlice[],
  devices: readonly PoolDevice[],
): PoolCounters | undefined | string {
  const totals: bigint[] = [];
  const sets = new Map<string, Map<string, number>>();
  for (const { spec } of slices) {
    for (const { name, counters } of spec.sharedCounters ?? []) {
      if (sets.has(name)) return `duplicate counter set ${name}`;
      const positions = new Map<string, number>();
      for (const [counter, { value }] of Object.entries(counters)) {
        positions.set(counter, totals.push(parseQuantity(value).nano) - 1);
      }
      sets.set(name, positions);
    }
  }
  const uses = new Map<string, CounterUse[]>();
  for (const { key, device } of devices) {
    if (device.consumesCounters === undefined || device.consumesCounters.length === 0) continue;
    const own: CounterUse[] = [];
    for (const { counterSet, counters } of device.consumesCounters) {
      const positions = sets.get(counterSet);
      if (positions === undefined) return `device ${device.name} consumes the unknown counter set ${counterSet}`;
      for (const [counter, { value }] of Object.entries(counters)) {
        const at = positions.get(counter);
        if (at === undefined) return `device ${device.name} consumes the unknown counter ${counterSet}/${counter}`;
        own.push({ at, amount: parseQuantity(value).nano });
      }
    }
    uses.set(key, own);
  }
  return totals.length === 0 && uses.size === 0 ? undefined : { totals, uses };
}

function marker(slice: ResourceSlice, state: "incomplete" | "invalid", why?: string): Pool {
  const { driver, pool } = slice.spec;
  const base = { id: poolId(slice), driver, name: pool.name, state, devices: [], counters: undefined };
  return why === undefined ? base : { ...base, why };
}

/** Two drivers may use the same name for their pools. */
export function poolId({ spec }: ResourceSlice): string {
  return `${spec.driver}/${spec.pool.name}`;
}

/** Upstream's order: by driver, then by name, byte for byte. */
function byDriverAndName(a: Pool, b: Pool): number {
  if (a.driver !== b.driver) return a.driver < b.driver ? -1 : 1;
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

function reachesNode(slice: ResourceSlice, node: Node): boolean {
  const { spec } = slice;
  if (spec.perDeviceNodeSelection !== true) return placeMatches(spec, node);
  return (spec.devices ?? []).some((device) => placeMatches(device, node));
}

/** The nodes of a slice or device. */
export type Place = Pick<Device, "nodeName" | "nodeSelector" | "allNodes">;

export function placeMatches({ nodeName, allNodes, nodeSelector }: Place, node: Node): boolean {
  if (nodeName) return nodeName === node.metadata.name;
  if (allNodes === true) return true;
  if (nodeSelector === undefined) return false;
  for (const term of nodeSelector.nodeSelectorTerms) {
    for (const { key, operator } of [...(term.matchExpressions ?? []), ...(term.matchFields ?? [])]) {
      if (!operators.has(operator)) throw new BadSelector(`${key}: ${operator} is not a valid node selector operator`);
    }
  }
  return matchesNodeSelector(nodeSelector, node);
}

const operators = new Set(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);

function sameLabels(a: Node, b: Node): boolean {
  const [left, right] = [a.metadata.labels, b.metadata.labels];
  if (left === right) return true;
  const keys = Object.keys(left ?? {});
  return keys.length === Object.keys(right ?? {}).length && keys.every((key) => left?.[key] === right?.[key]);
}

/** All GPUs in their places: which there are, what holds them, and the sums. A function of the cluster model. */
import type { Node, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { shareMemoryMiB } from "../../model/scheduling/gpuRequest.ts";
import { gpuGroupsOfLabels } from "../../model/scheduling/keys.ts";
import { formatTime } from "../../model/values/time.ts";
import type { GpuCell, Hold, NodeHealth, NodeRow, OccupantRow, WallPart } from "../../model/window/parts.ts";
import { sumsOf, whole } from "../../model/window/sums.ts";
import { reportedGpus } from "../devices/physicalGpus.ts";
import { usesOf } from "../devices/search/deviceUse.ts";
import type { Cluster } from "../schedule/cluster/cluster.ts";
import type { Job } from "../schedule/cluster/job.ts";
import type { NodeState } from "../schedule/cluster/nodeState.ts";
import type { Task } from "../schedule/cluster/task.ts";
import { type NodeGpuList, nodeGpuList } from "./nodeGpuList.ts";

/** What the wall reads. */
export interface WallSources {
  /** The cluster as the scheduler of each node pool has it. */
  readonly clusters: readonly Cluster[];
  slicesOn(node: string): readonly ResourceSlice[];
  claimsOf(podUid: string): readonly ResourceClaim[];
}

/**
 * What is remembered from one wall to the next, so that an occupant keeps its number, and a pod its GPUs where no node
 * reports which they are.
 */
export class WallMemory {
  private readonly ids = new Map<string, number>();
  private readonly pods = new Map<string, number>();
  private nextId = 1;
  private nextPod = 1;
  places = new Map<string, readonly number[]>();
  private readonly lists = new WeakMap<
    Node,
    { readonly slices: readonly ResourceSlice[]; readonly list: NodeGpuList }
  >();

  idOf(occupant: string): number {
    let id = this.ids.get(occupant);
    if (id === undefined) {
      id = this.nextId++;
      this.ids.set(occupant, id);
    }
    return id;
  }

  podOf(uid: string): number {
    let number = this.pods.get(uid);
    if (number === undefined) {
      number = this.nextPod++;
      this.pods.set(uid, number);
    }
    return number;
  }

  /** Numbers of what is gone are not given again, and not kept. */
  forgetAllBut(occupants: ReadonlySet<string>, pods: ReadonlySet<string>): void {
    for (const occupant of this.ids.keys()) if (!occupants.has(occupant)) this.ids.delete(occupant);
    for (const uid of this.pods.keys()) if (!pods.has(uid)) this.pods.delete(uid);
  }

  listOf(node: Node, slices: readonly ResourceSlice[]): NodeGpuList {
    const known = this.lists.get(node);
    const isSame = known?.slices.length === slices.length && known.slices.every((each, at) => each === slices[at]);
    if (known !== undefined && isSame) return known.list;
    const list = nodeGpuList(node, slices);
    this.lists.set(node, { slices, list });
    return list;
  }
}

/** Labels that name the rack of a node, the narrowest first. */
const rackLabels = [
  "topology.kubernetes.io/rack",
  "network.topology.nvidia.com/accelerator",
  "accelerator.topograph.run/domain",
  "network.topology.nvidia.com/leaf",
  "fabric.topograph.run/tier-0",
  "network.topology.nvidia.com/block",
];
/** Nodes of one type that stand in no named rack are shown in blocks. */
const blockSize = 8;

interface Occupant {
  readonly key: string;
  readonly id: number;
  readonly queue: string;
  readonly sinceMs: number;
  readonly pods: Set<Task>;
  milli: number;
}

export function wallOf(sources: WallSources, memory: WallMemory): WallPart {
  const states = sources.clusters.flatMap(({ table }) => [...table.known()].filter(({ node }) => node !== undefined));
  const listed = states
    .map((state) => ({ state, list: memory.listOf(state.node as Node, sources.slicesOn(state.name)) }))
    .filter(({ list }) => list.gpus.length > 0);
  const { racks, rackOf } = racksOf(listed.map(({ state }) => state));
  listed.sort((a, b) => rackOf(a.state) - rackOf(b.state) || byName(a.state, b.state));
  const types = [...new Set(listed.map(({ state }) => typeOf(state)))];
  const typeAt = new Map(types.map((type, at) => [type, at]));
  const occupants = new Map<string, Occupant>();
  const occupantOf = (task: Task): Occupant => {
    const key = holderKey(task);
    let occupant = occupants.get(key);
    if (occupant === undefined) {
      const { job } = task;
      const sinceMs = job?.lastStartMs ?? job?.createdMs ?? task.createdMs;
      occupant = { key, id: memory.idOf(key), queue: job?.queueName ?? "", sinceMs, pods: new Set(), milli: 0 };
      occupants.set(key, occupant);
    }
    return occupant;
  };
  const nominated = nominations(sources.clusters);
  const places = new Map<string, readonly number[]>();
  const nodes: NodeRow[] = [];
  const gpus: GpuCell[] = [];
  for (const { state, list } of listed) {
    const health = healthOf(state.node as Node);
    nodes.push([
      state.name,
      rackOf(state),
      typeAt.get(typeOf(state)) ?? 0,
      health,
      list.gpus.length,
      health === "unknown" ? silentSince(state.node as Node) : "",
    ]);
    const found = placesOn(state, list, sources, memory, places);
    gpus.push(...cellsOf(found, { list, health, occupantOf, memory, nominated: nominated.get(state.name) ?? [] }));
  }
  memory.places = places;
  const podUids = new Set<string>();
  for (const { pods } of occupants.values()) for (const { uid } of pods) podUids.add(uid);
  memory.forgetAllBut(new Set(occupants.keys()), podUids);
  return {
    racks,
    types,
    nodes,
    occupants: [...occupants.values()].map(rowOf).sort((a, b) => a[0] - b[0]),
    gpus,
    sums: sumsOf(gpus),
  };
}

function rowOf({ id, key, queue, sinceMs, pods, milli }: Occupant): OccupantRow {
  return [id, key, queue, formatTime(sinceMs), pods.size, pods.size === 0 ? 0 : Math.round(milli / pods.size)];
}

export function holderKey({ job, key }: Task): string {
  return job === undefined ? key : nameOfJob(job);
}

export function nameOfJob(job: Job): string {
  return job.isGroup ? job.id : `${job.namespace}/${job.name}`;
}

function byName(a: NodeState, b: NodeState): number {
  return compareNatural(a.name, b.name);
}

/** `n2` before `n10`. */
function compareNatural(a: string, b: string): number {
  const [left, right] = [naturalKey(a), naturalKey(b)];
  return left < right ? -1 : left > right ? 1 : a < b ? -1 : a > b ? 1 : 0;
}

/** Names are compared again and again, and there are as many as nodes. */
const naturalKeys = new Map<string, string>();
const naturalKeysMax = 100_000;

function naturalKey(text: string): string {
  let key = naturalKeys.get(text);
  if (key === undefined) {
    key = text.replace(/[0-9]+/g, (digits) => digits.padStart(12, "0"));
    if (naturalKeys.size >= naturalKeysMax) naturalKeys.clear();
    naturalKeys.set(text, key);
  }
  return key;
}

function typeOf({ gpuType }: NodeState): string {
  return gpuType === "" ? "GPU" : gpuType;
}

function racksOf(states: readonly NodeState[]): { racks: string[]; rackOf: (state: NodeState) => number } {
  const loose = new Map<string, NodeState[]>();
  const rackOfNode = new Map<NodeState, string>();
  for (const state of [...states].sort(byName)) {
    const label = rackLabels.map((key) => state.labels[key]).find((value) => value !== undefined && value !== "");
    if (label !== undefined) rackOfNode.set(state, label);
    else {
      const known = loose.get(typeOf(state));
      if (known === undefined) loose.set(typeOf(state), [state]);
      else known.push(state);
    }
  }
  for (const each of loose.values()) {
    for (let from = 0; from < each.length; from += blockSize) {
      const block = each.slice(from, from + blockSize);
      const [first, last] = [block[0]?.name ?? "", block.at(-1)?.name ?? ""];
      for (const state of block) rackOfNode.set(state, first === last ? first : `${first} to ${last}`);
    }
  }
  const racks = [...new Set(rackOfNode.values())].sort(compareNatural);
  const at = new Map(racks.map((rack, index) => [rack, index]));
  return { racks, rackOf: (state) => at.get(rackOfNode.get(state) ?? "") ?? 0 };
}

/** A node that says nothing, or says that it is not ready, leaves its GPUs unknown. */
function healthOf(node: Node): NodeHealth {
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status !== "True") return "unknown";
  return node.spec?.unschedulable === true ? "cordoned" : "ready";
}

function silentSince({ metadata, status }: Node): string {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return ready?.lastTransitionTime ?? metadata.creationTimestamp ?? "";
}

/** Pods that are nominated, by node. */
function nominations(clusters: readonly Cluster[]): Map<string, Task[]> {
  const found = new Map<string, Task[]>();
  for (const { nominated } of clusters) {
    for (const task of nominated) {
      const node = task.pod.status?.nominatedNodeName;
      if (node === undefined || task.status !== "pending") continue;
      found.set(node, [...(found.get(node) ?? []), task]);
    }
  }
  return found;
}

interface PlacedHold {
  readonly task: Task;
  readonly milli: number;
  readonly isLeaving: boolean;
}

/** What is held of each GPU of a node. */
function placesOn(
  state: NodeState,
  list: NodeGpuList,
  { claimsOf }: WallSources,
  memory: WallMemory,
  places: Map<string, readonly number[]>,
): PlacedHold[][] {
  const held: PlacedHold[][] = list.gpus.map(() => []);
  const holdings = [...state.holdings].sort((a, b) => {
    const [x, y] = [a.holder as Task, b.holder as Task];
    return x.createdMs - y.createdMs || (x.uid < y.uid ? -1 : 1);
  });
  const groupPlaces = new Map<string, number>();
  const open: (() => void)[] = [];
  const free = (): number => {
    const at = held.findIndex((each, place) => each.length === 0 && list.gpus[place]?.broken === "");
    return at >= 0 ? at : held.findIndex((each) => each.length === 0);
  };
  for (const { holder } of holdings) {
    const task = holder as Task;
    if (!task.isReservation) continue;
    const [id] = reportedGpus(task.pod);
    const place = id === undefined ? undefined : list.byId.get(id);
    if (place !== undefined)
      for (const group of gpuGroupsOfLabels(task.pod.metadata.labels)) groupPlaces.set(group, place.at);
  }
  for (const { holder, groups, state: hold } of holdings) {
    const task = holder as Task;
    if (task.isReservation || hold === "pipelined") continue;
    const isLeaving = hold === "releasing" || hold === "stuck";
    const put = (at: number, milli: number): void => {
      held[at]?.push({ task, milli, isLeaving });
    };
    const { gpu } = task.shape;
    if (gpu.type === "fraction" || gpu.type === "memory") {
      const milli =
        gpu.type === "fraction"
          ? gpu.shareMilli
          : Math.floor((shareMemoryMiB(gpu, state.gpuMemoryMiB) * whole) / state.gpuMemoryMiB);
      for (const group of groups) {
        const known = groupPlaces.get(group);
        if (known !== undefined) put(known, milli);
        else {
          open.push(() => {
            const at = groupPlaces.get(group) ?? memory.places.get(`group ${group}`)?.[0] ?? free();
            if (at < 0) return;
            groupPlaces.set(group, at);
            places.set(`group ${group}`, [at]);
            put(at, milli);
          });
        }
      }
      continue;
    }
    const located: { at: number; milli: number }[] = [];
    if (task.shape.hasDeviceClaims) located.push(...devicesOf(task, list, claimsOf));
    for (const id of reportedGpus(task.pod)) {
      const place = list.byId.get(id);
      if (place !== undefined && !located.some(({ at }) => at === place.at && place.milli === whole))
        located.push({ at: place.at, milli: Math.min(place.milli, list.unitMilli) });
    }
    for (const { at, milli } of located) put(at, milli);
    const missing = (gpu.type === "whole" ? gpu.devices : 0) - located.length;
    if (missing <= 0 || (list.unitMilli < whole && located.length > 0)) continue;
    open.push(() => {
      const chosen: number[] = [];
      const before = memory.places.get(task.uid) ?? [];
      for (let n = 0; n < missing; n++) {
        const again = before.find((at) => !chosen.includes(at) && held[at]?.length === 0);
        const at = again ?? free();
        if (at < 0) break;
        chosen.push(at);
        put(at, list.unitMilli);
      }
      places.set(task.uid, chosen);
    });
  }
  // Pods whose GPUs are known come first: the others get what is left.
  for (const place of open) place();
  return held;
}

function devicesOf(task: Task, list: NodeGpuList, claimsOf: WallSources["claimsOf"]): { at: number; milli: number }[] {
  const found: { at: number; milli: number }[] = [];
  for (const claim of claimsOf(task.uid)) {
    const users = Math.max(1, claim.status?.reservedFor?.length ?? 1);
    for (const { device } of usesOf(claim)) {
      const place = list.byDevice.get(device);
      if (place !== undefined) found.push({ at: place.at, milli: Math.floor(place.milli / users) });
    }
  }
  return found;
}

interface CellContext {
  readonly list: NodeGpuList;
  readonly health: NodeHealth;
  readonly occupantOf: (task: Task) => Occupant;
  readonly memory: WallMemory;
  readonly nominated: readonly Task[];
}

function cellsOf(held: readonly (readonly PlacedHold[])[], context: CellContext): GpuCell[] {
  const { list, health, occupantOf, memory } = context;
  const broken = brokenPlaces(held, list);
  const wanted = context.nominated.flatMap((task) => {
    const { gpu } = task.shape;
    const count = gpu.type === "none" ? 0 : gpu.devices;
    return Array.from({ length: count }, () => occupantOf(task).id);
  });
  const isLeaving = (at: number): boolean => held[at]?.some((each) => each.isLeaving) === true;
  const order = [...held.keys()].filter((at) => !broken.has(at));
  const targets = [...order.filter(isLeaving), ...order.filter((at) => held[at]?.length === 0)];
  const nominatedAt = new Map(wanted.flatMap((id, n) => (targets[n] === undefined ? [] : [[targets[n], id] as const])));
  return held.map((each, at): GpuCell => {
    const holds = each.map(({ task, milli, isLeaving: leaves }): Hold => {
      const occupant = occupantOf(task);
      occupant.pods.add(task);
      occupant.milli += milli;
      return [occupant.id, memory.podOf(task.uid), milli, leaves ? 1 : 0];
    });
    const why = broken.get(at);
    if (health === "unknown") return trimmed("?", holds, 0, "");
    if (why !== undefined) return trimmed("x", holds, 0, why);
    const nominatedTo = nominatedAt.get(at) ?? 0;
    if (health === "cordoned" && sumOf(holds) < whole) return trimmed("c", holds, nominatedTo, "");
    if (holds.length === 0) return trimmed("f", holds, nominatedTo, "");
    return trimmed(isLeaving(at) ? "l" : "u", holds, nominatedTo, "");
  });
}

/** Those that drivers name, and as many of the others as the node withholds: the ones that nothing holds. */
function brokenPlaces(
  held: readonly (readonly PlacedHold[])[],
  { gpus, brokenElsewhere }: NodeGpuList,
): Map<number, string> {
  const broken = new Map(gpus.flatMap(({ broken: why }, at) => (why === "" ? [] : [[at, why] as const])));
  const rest = [...held.keys()].filter((at) => !broken.has(at)).reverse();
  const order = [...rest.filter((at) => held[at]?.length === 0), ...rest.filter((at) => held[at]?.length !== 0)];
  for (const at of order.slice(0, brokenElsewhere)) broken.set(at, "withheld by its device plugin");
  return broken;
}

function sumOf(holds: readonly Hold[]): number {
  return holds.reduce((sum, [, , milli]) => sum + milli, 0);
}

function trimmed(state: GpuCell[0], holds: readonly Hold[], nominated: number, note: string): GpuCell {
  if (note !== "") return [state, holds, nominated, note];
  if (nominated !== 0) return [state, holds, nominated];
  return holds.length > 0 ? [state, holds] : [state];
}

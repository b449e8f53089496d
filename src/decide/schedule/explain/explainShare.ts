import { type GpuRequest, gpuMilliOf, shareMemoryMiB } from "../../../model/scheduling/gpuRequest.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import { gpuAt, podsAt } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import { findSpot } from "../placement/placeTask.ts";
import type { Session } from "../session.ts";
import { numberText, placeText } from "./amountWords.ts";
import { give } from "./cure.ts";
import type { Verdict } from "./verdict.ts";

/**
 * Why a GPU share fits no node, as far as the share is the cause: no GPU has enough left, or the node of such a GPU
 * lacks another resource.
 */
export interface ShareFound {
  readonly reason: Extract<Verdict["reason"], "NoGpuWithRoom" | "NodeFull">;
  /** The predicate of a sentence about the pod. */
  readonly text: string;
  /** A change that would be enough without evictions; empty if there is none. */
  readonly cure: string;
}

/** The free resources of a node for a share, after terminating pods have released theirs. */
interface Room {
  readonly node: NodeState;
  readonly gpus: number;
  readonly wholeGpus: number;
  /** Memory left on the shared GPU with the most. */
  readonly mostMiB: number | undefined;
  /** The memory that each of the requested number of GPUs has left. */
  readonly eachMiB: number;
  /** Its GPUs have room. */
  readonly fits: boolean;
  readonly lacks: readonly Lack[];
}

interface Lack {
  readonly resource: number;
  readonly amount: number;
  readonly text: string;
  /** The capacity of the node is enough; other pods hold it. */
  readonly canBeFreed: boolean;
}

type Share = Extract<GpuRequest, { type: "fraction" | "memory" }>;

/**
 * `open` are the nodes that lack nothing but free resources. Undefined if the pod requests no share, or none of the
 * nodes has GPUs.
 */
export function explainShare(session: Session, task: Task, open: readonly NodeState[]): ShareFound | undefined {
  const { gpu } = task.shape;
  if (gpu.type !== "fraction" && gpu.type !== "memory") return undefined;
  const rooms = open.map((node) => roomOn(session, task, gpu, node)).filter(({ gpus }) => gpus >= gpu.devices);
  const [first] = rooms;
  if (first === undefined) return undefined;
  const asks = `requests ${wantedText(gpu, first.node)} of ${gpu.devices > 1 ? `each of ${gpu.devices} GPUs` : "a GPU"}`;
  const full = rooms.filter(({ fits, lacks }) => fits && lacks.length > 0);
  const lacksText = ({ lacks }: Room): string => lacks.map(({ text }) => text).join(" and ");
  if (full.length > 0) {
    const shown = full.slice(0, 3).map((room) => `${room.node.name} lacks ${lacksText(room)}`);
    const cured = full.find((room) => room.lacks.every((lack) => lack.canBeFreed) && fitsWith(session, task, room));
    return {
      reason: "NodeFull",
      text: `${asks}, for which ${full.length === 1 ? "one node has" : `${full.length} nodes have`} room on a GPU, but ${shown.join("; ")}${more(full.length)}`,
      cure: cured === undefined ? "" : `free ${lacksText(cured)} on ${cured.node.name}, or add a node`,
    };
  }
  const byRoom = rooms.filter(({ fits }) => !fits).sort((a, b) => b.eachMiB - a.eachMiB || a.node.index - b.node.index);
  const [best] = byRoom;
  if (best === undefined) return undefined;
  const shown = byRoom.slice(0, 3).map(({ node, gpus, wholeGpus, mostMiB }) => {
    const rest =
      mostMiB === undefined
        ? "none of them shared"
        : `the most that a shared one has left is ${fractionText((mostMiB * 1000) / node.gpuMemoryMiB)}`;
    return `${node.name} has ${gpus} GPUs, ${wholeGpus > 0 ? wholeGpus : "none"} of them free, and ${rest}`;
  });
  return {
    reason: "NoGpuWithRoom",
    text: `${asks}, and ${gpu.devices > 1 ? `no node has ${gpu.devices} GPUs with that much free` : "no GPU has that"}: ${shown.join("; ")}${more(byRoom.length)}`,
    cure: best.lacks.length > 0 ? "" : lessText(gpu, best),
  };
}

function roomOn({ cluster }: Session, { shape }: Task, gpu: Share, node: NodeState): Room {
  const { later, idle: free } = cluster.table;
  const at = node.index;
  const memoryMiB = node.gpuMemoryMiB;
  const wantedMiB = shareMemoryMiB(gpu, memoryMiB);
  const wholeGpus = Math.max(0, later[gpuAt]?.[at] ?? 0);
  const shared = [...node.groups.values()]
    .filter(({ laterHolders }) => laterHolders > 0)
    .map(({ laterMiB }) => Math.max(0, memoryMiB - laterMiB))
    .sort((a, b) => b - a);
  const joinable = shared.filter((leftMiB) => leftMiB >= wantedMiB).length;
  const unshared = Math.max(0, gpu.devices - joinable);
  const lacks: Lack[] = [];
  for (const [k, resource] of shape.places.entries()) {
    const left = Math.max(0, Math.min(later[resource]?.[at] ?? 0, free[resource]?.[at] ?? 0));
    const slots = resource === podsAt ? unshared : 0;
    const wants = (shape.amounts[k] ?? 0) + slots;
    if (left >= wants) continue;
    const what = placeText(cluster.names.names[resource] ?? "", resource);
    const why =
      slots > 0
        ? ` (1 for the pod, ${slots} for the reservation ${slots > 1 ? "pods of its GPUs" : "pod of its GPU"})`
        : "";
    const of = resource === podsAt ? `of ${wants} ` : "";
    const canBeFreed = (node.capacity[resource] ?? 0) >= wants;
    const text = `${numberText(wants - left, resource)} ${of}${what}${why}`;
    lacks.push({ resource, amount: wants - left, text, canBeFreed });
  }
  return {
    node,
    gpus: node.capacity[gpuAt] ?? 0,
    wholeGpus,
    mostMiB: shared[0],
    eachMiB: wholeGpus >= gpu.devices ? memoryMiB : (shared[gpu.devices - wholeGpus - 1] ?? 0),
    fits: wantedMiB <= memoryMiB && unshared <= wholeGpus,
    lacks,
  };
}

/** Whether the pod fits the node with the lacking resources added, tried on the cluster. */
function fitsWith(session: Session, task: Task, { node, lacks }: Room): boolean {
  for (const { resource, amount } of lacks) give(session, { node, place: resource, amount });
  const spot = findSpot(session.cluster, task, { nodes: [node.index] });
  for (const { resource, amount } of lacks) give(session, { node, place: resource, amount }, -1);
  return spot !== undefined;
}

/** The largest share that would fit, on the node with the most left. */
function lessText(gpu: Share, { node, eachMiB }: Room): string {
  if (gpu.type === "memory") return eachMiB > 0 ? `request ${eachMiB} MiB or less` : "";
  const hundredths = Math.floor((eachMiB * 100) / node.gpuMemoryMiB);
  return hundredths > 0 ? `request ${(hundredths / 100).toFixed(2)} or less` : "";
}

function wantedText(gpu: Share, { gpuMemoryMiB }: NodeState): string {
  return gpu.type === "memory"
    ? `${gpu.memoryMiB} MiB`
    : fractionText(gpuMilliOf({ ...gpu, devices: 1 }, gpuMemoryMiB));
}

function fractionText(milli: number): string {
  return (Math.floor(milli / 10) / 100).toFixed(2);
}

function more(nodes: number): string {
  return nodes > 3 ? `; and ${nodes - 3} more` : "";
}

/** What nodes have left for a pod that asks for a share of a GPU: counted from pods and BindRequests, as the scheduler counts. */
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { matchesNode } from "../../model/nodeMatch.ts";
import { type BindRequest, isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import { gpuGroupsOfLabels, isReservationPod, labelKeys } from "../../model/scheduling/keys.ts";
import { isTolerated } from "../../model/taints.ts";
import { nanoOf, podRequests } from "../nodes/podRequests.ts";
import { type GpuRequest, gpuMilliOf, readGpuRequest } from "../schedule/gpuRequest.ts";
import { hasEnded } from "./reservation.ts";

const gpu = "nvidia.com/gpu";

/** What is looked at, all of one revision. */
export interface ShareView {
  readonly pods: readonly Pod[];
  readonly nodes: readonly Node[];
  readonly requests: readonly BindRequest[];
}

export type Share = Extract<GpuRequest, { type: "fraction" | "memory" }>;

/** Undefined for a pod that asks for no share, or for one that makes no sense. */
export function shareOf(pod: Pod): Share | undefined {
  const read = readGpuRequest(pod, 0);
  if (!("gpu" in read)) return undefined;
  return read.gpu.type === "fraction" || read.gpu.type === "memory" ? read.gpu : undefined;
}

export interface Room {
  readonly node: string;
  /** What the pod asks for of each of its GPUs on this node, in thousandths. */
  readonly wanted: number;
  readonly gpus: number;
  readonly idle: number;
  /** The shared GPU with the most room, in thousandths. */
  readonly most: { readonly group: string; readonly free: number; readonly users: readonly string[] } | undefined;
  /** Whether its GPUs have room. */
  readonly fits: boolean;
  /** What the node lacks besides. */
  readonly lacks: readonly string[];
}

export function roomOn(node: Node, pod: Pod, asked: Share, { pods, requests }: ShareView): Room {
  const { name } = node.metadata;
  const memoryMiB = Math.floor(Number(node.metadata.labels?.[labelKeys.gpuMemory] ?? 0) / 100) * 100;
  // A node that does not say how much memory its GPUs have cannot serve who asks by memory.
  const wanted = asked.type === "memory" && memoryMiB === 0 ? 1001 : milliOfEach(asked, memoryMiB);
  const here = pods.filter((each) => each.spec?.nodeName === name && !hasEnded(each));
  const shared = new Map<string, { used: number; users: string[] }>();
  const group = (id: string): { used: number; users: string[] } => {
    const known = shared.get(id) ?? { used: 0, users: [] };
    shared.set(id, known);
    return known;
  };
  const share = (user: Pod, groups: readonly string[]): void => {
    const theirs = shareOf(user);
    if (theirs === undefined) return;
    for (const id of groups) {
      const known = group(id);
      known.used += milliOfEach(theirs, memoryMiB);
      known.users.push(`${user.metadata.namespace}/${user.metadata.name}`);
    }
  };
  let whole = 0;
  for (const each of here) {
    const groups = gpuGroupsOfLabels(each.metadata.labels);
    if (isReservationPod(each)) for (const id of groups) group(id);
    else if (groups.length > 0) share(each, groups);
    else whole += Number((podRequests(each).get(gpu) ?? 0n) / 1_000_000_000n);
  }
  // On their way: decided, and not on the node yet.
  const byUid = new Map(pods.map((each) => [each.metadata.uid, each]));
  for (const each of requests) {
    const user = byUid.get(podUidOf(each) ?? "");
    if (each.spec?.selectedNode !== name || isFinallyFailed(each) || user?.spec?.nodeName !== undefined) continue;
    if (user !== undefined && user !== pod) share(user, each.spec.selectedGPUGroups ?? []);
  }
  const gpus = Number(node.status?.allocatable?.[gpu] ?? 0);
  const idle = Math.max(0, gpus - whole - shared.size);
  const open = [...shared].filter(([, { used }]) => used + wanted <= 1000).length;
  const opened = Math.max(0, asked.devices - open);
  const most = [...shared]
    .map(([id, { used, users }]) => ({ group: id, free: Math.max(0, 1000 - used), users }))
    .sort((a, b) => b.free - a.free || (a.group < b.group ? -1 : 1))[0];
  return { node: name, wanted, gpus, idle, most, fits: opened <= idle, lacks: lacksOf(node, pod, here, opened) };
}

function milliOfEach(share: Share, memoryMiB: number): number {
  return gpuMilliOf({ ...share, devices: 1 }, memoryMiB);
}

/** Pod slots for the pod and for each reservation that it needs, processor, memory. */
function lacksOf(node: Node, pod: Pod, here: readonly Pod[], reservations: number): string[] {
  const lacks: string[] = [];
  const slots = Number(node.status?.allocatable?.["pods"] ?? 110) - here.length;
  const needed = 1 + reservations;
  if (slots < needed) {
    const why = reservations === 0 ? "" : ` (one for the pod, ${reservations} for a reservation)`;
    lacks.push(`${needed - Math.max(0, slots)} of ${needed} pod slots${why}`);
  }
  for (const resource of ["cpu", "memory"]) {
    const wants = podRequests(pod).get(resource) ?? 0n;
    let free = nanoOf(node.status?.allocatable?.[resource] ?? "0");
    for (const each of here) free -= podRequests(each).get(resource) ?? 0n;
    if (wants > 0n && wants > free) lacks.push(amountText(resource, wants - (free > 0n ? free : 0n)));
  }
  return lacks;
}

function amountText(resource: string, nano: bigint): string {
  if (resource === "cpu") return `${Number(nano / 1_000_000n) / 1000} cpu`;
  return `${Math.ceil(Number(nano / 1_000_000_000n) / 2 ** 20)}Mi of memory`;
}

/** Nodes that are closed for other reasons are the scheduler's to explain. */
export function mayRun(pod: Pod, node: Node): boolean {
  if (node.spec?.unschedulable === true || node.metadata.deletionTimestamp !== undefined) return false;
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready !== undefined && ready.status !== "True") return false;
  const strategy = node.metadata.labels?.[labelKeys.migStrategy] ?? "none";
  if (strategy !== "none" || !matchesNode(pod.spec, node)) return false;
  return !(node.spec?.taints ?? []).some(
    (taint) => taint.effect !== "PreferNoSchedule" && !isTolerated(taint, pod.spec?.tolerations),
  );
}

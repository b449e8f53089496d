import { isShared, shareMemoryMiB } from "../../../model/scheduling/gpuRequest.ts";
import { uuid5 } from "../../../model/values/uuid5.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { DeviceFit } from "../cluster/deviceClaims.ts";
import { barredTypes } from "../cluster/gpuTypes.ts";
import type { GroupUse, NodeState } from "../cluster/nodeState.ts";
import { doesNotExist, type PodProblem } from "../cluster/podProblem.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { gpuAt } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import { memoryGate } from "../queues/gates.ts";
import type { Statement } from "../statement.ts";
import { nowhere } from "./fit.ts";
import { type InterPodRules, interPodRules } from "./podAffinity.ts";

/** The nodes on which a task may be placed. */
export interface Candidates {
  /** Indexes in order; undefined is all nodes. */
  readonly nodes: readonly number[] | undefined;
  /** A higher score for nodes closer to the rest of the gang. */
  readonly bonus?: ((at: number) => number) | undefined;
}

export const anywhere: Candidates = { nodes: undefined };

/** KAI's weight of inter-pod affinity is a million, that of topology closeness a hundred thousand. */
const podAffinityWeight = 1e6 * 1e9;
export const closenessUnit = 1e5 * 1e9;

/** A problem that no node and no eviction can solve, or undefined. */
export function problemOf(cluster: Cluster, task: Task): PodProblem | undefined {
  const { shape } = task;
  if (shape.problem !== undefined) return { message: shape.problem, cure: "correct the pod's GPU request" };
  if (cluster.configMaps !== undefined) {
    for (const name of shape.configMaps) {
      if (!cluster.configMaps.has(`${task.namespace}/${name}`))
        return doesNotExist(`ConfigMap ${task.namespace}/${name}`);
    }
  }
  if (shape.volumeClaims.length > 0) {
    const problem = cluster.volumes.problemOf(task);
    if (problem !== undefined) return problem;
  }
  const claims = shape.hasDeviceClaims ? cluster.devices.problemOf(task) : undefined;
  if (claims === undefined) return undefined;
  const {
    why,
    reason,
    cure = claimCures[reason] ?? "scheduling is retried when its claims or devices change",
  } = claims;
  return { message: why, cure, refusal: reason };
}

/** By reason: how to correct claims that no node can satisfy. */
const claimCures: Readonly<Record<string, string>> = {
  NotReady: "scheduling is retried when its ResourceClaims exist and are ready",
  BadRequest: "correct the ResourceClaim",
};

export interface Spot {
  readonly node: NodeState;
  readonly groups: readonly string[];
  /** It fits without waiting. */
  readonly isNow: boolean;
  readonly devices: (DeviceFit & { ok: true }) | undefined;
}

/** The best node for a task now, or undefined. */
export function findSpot(cluster: Cluster, task: Task, candidates: Candidates = anywhere): Spot | undefined {
  const { fit, table } = cluster;
  const { shape } = task;
  if (problemOf(cluster, task) !== undefined) return undefined;
  const rules = cluster.terms.isEmpty && shape.isLocal ? undefined : interPodRules(task, cluster.terms, fit);
  const nominated = task.pod.status?.nominatedNodeName;
  const bars = barredTypes(cluster, task);
  const gate = memoryGate(task);
  const isBarred = bars.size > 0 || gate !== undefined;
  const isFree = shape.isLocal && rules === undefined && candidates.bonus === undefined && !isBarred;
  if (isFree && nominated === undefined && candidates.nodes === undefined) {
    const at = fit.best(shape);
    return at === nowhere ? undefined : spotAt(cluster, task, at);
  }
  const isSocialOnly = rules !== undefined && !isBarred && candidates.bonus === undefined && needsOnlyNode(shape);
  if (isSocialOnly && nominated === undefined && candidates.nodes === undefined) {
    const at = bestByPodAffinity(fit.scores(shape), rules, fit.scratch);
    return at === nowhere ? undefined : spotAt(cluster, task, at);
  }
  const all = candidates.nodes ?? table.nodes.map((_, index) => index);
  let allowed = isFree ? all : all.filter((index) => isAllowed(cluster, task, index, rules, bars, gate));
  // A node that the pod is nominated to is taken if it still fits.
  const promised = nominated === undefined ? undefined : table.get(nominated)?.index;
  if (promised !== undefined && allowed.includes(promised) && fit.score(shape, promised) >= 0) {
    const spot = spotAt(cluster, task, promised);
    if (spot !== undefined) return spot;
    allowed = allowed.filter((at) => at !== promised);
  }
  // Devices are searched for where the pod would go anyway, best node first: a search costs more than everything else
  // together. Only where a claim has alternatives may a worse node be the better one, because it has the device that
  // the claim names first.
  let best: Spot | undefined;
  for (;;) {
    const at = bestOf(cluster, task, allowed, candidates, rules);
    if (at === nowhere) return best;
    const spot = spotAt(cluster, task, at);
    if (!shape.hasDeviceClaims || rankOf(spot) === 0) return spot;
    if (rankOf(spot) < rankOf(best)) best = spot;
    allowed = allowed.filter((each) => each !== at);
  }
}

/**
 * The rank of the devices among the alternatives of the claims; a node that fits now ranks before one that fits later.
 */
function rankOf(spot: Spot | undefined): number {
  if (spot === undefined) return Number.POSITIVE_INFINITY;
  return (spot.devices?.rank ?? 0) + (spot.isNow || spot.devices?.rank === 0 ? 0 : laterRank);
}

const laterRank = 1e6;

/** Whether only nodes and other pods decide, and neither volumes nor devices. */
function needsOnlyNode({ volumeClaims, hasDeviceClaims }: PodShape): boolean {
  return volumeClaims.length === 0 && !hasDeviceClaims;
}

/**
 * The best of all nodes by their scores and by inter-pod affinity: `bestOf` without making lists of them. The last
 * argument is overwritten.
 */
function bestByPodAffinity(scores: Float64Array, rules: InterPodRules, affinity: Float64Array): number {
  let best = nowhere;
  let bestScore = -1;
  if (!rules.hasScore) {
    for (let at = 0; at < scores.length; at++) {
      const score = scores[at] as number;
      if (score <= bestScore || rules.refuses(at) !== undefined) continue;
      best = at;
      bestScore = score;
    }
    return best;
  }
  rules.score(affinity);
  let least = 0;
  let most = 0;
  for (let at = 0; at < scores.length; at++) {
    // Nodes that are refused have the score NaN.
    if ((scores[at] as number) < 0 || (rules.mayRefuse && rules.refuses(at) !== undefined)) affinity[at] = Number.NaN;
    const each = affinity[at] as number;
    if (each < least) least = each;
    else if (each > most) most = each;
  }
  // Neighbours mostly have the same affinity score.
  let last = Number.NaN;
  let worth = 0;
  for (let at = 0; at < scores.length; at++) {
    const each = affinity[at] as number;
    if (each !== last) {
      if (Number.isNaN(each)) continue;
      last = each;
      worth = most === least ? 0 : affinityScore(each, least, most);
    }
    const score = (scores[at] as number) + worth;
    if (score <= bestScore) continue;
    best = at;
    bestScore = score;
  }
  return best;
}

/** From the worst affinity score to the best, in hundredths. */
function affinityScore(affinity: number, least: number, most: number): number {
  return Math.round(((affinity - least) * 100) / (most - least)) * podAffinityWeight;
}

function bestOf(
  cluster: Cluster,
  task: Task,
  nodes: readonly number[],
  { bonus }: Candidates,
  rules: InterPodRules | undefined,
): number {
  const { fit } = cluster;
  if (rules?.hasScore !== true) return fit.bestAmong(task.shape, nodes, bonus);
  const affinity = fit.scratch;
  rules.score(affinity);
  let least = 0;
  let most = 0;
  for (const at of nodes) {
    least = Math.min(least, affinity[at] as number);
    most = Math.max(most, affinity[at] as number);
  }
  if (most === least) return fit.bestAmong(task.shape, nodes, bonus);
  const worth = (at: number): number => affinityScore(affinity[at] as number, least, most) + (bonus?.(at) ?? 0);
  return fit.bestAmong(task.shape, nodes, worth);
}

function isAllowed(
  cluster: Cluster,
  task: Task,
  at: number,
  rules: InterPodRules | undefined,
  bars: ReadonlyMap<string, unknown>,
  gate: ReturnType<typeof memoryGate>,
): boolean {
  const node = cluster.table.nodes[at] as NodeState;
  if (bars.has(node.gpuType) || gate?.(node) !== undefined) return false;
  if (rules !== undefined && rules.refuses(at) !== undefined) return false;
  if (cluster.fit.score(task.shape, at) < 0) return false;
  return task.shape.volumeClaims.length === 0 || cluster.volumes.refuses(task, node) === undefined;
}

function spotAt(cluster: Cluster, task: Task, at: number): Spot | undefined {
  const { fit, table } = cluster;
  const node = table.nodes[at] as NodeState;
  let devices: (DeviceFit & { ok: true }) | undefined;
  if (task.shape.hasDeviceClaims) {
    const found = cluster.devices.fit(task, node);
    if (!found.ok) return undefined;
    devices = found;
  }
  // A GPU that the device plugin has allocated to a pod is not free for claims.
  const room = devices === undefined ? "now" : roomForClaims(cluster, node, devices.units);
  if (room === "none") return undefined;
  const hasRoom = room === "now" && fit.fitsNow(task.shape, at) && fit.fitsLater(task.shape, at);
  if (hasRoom && devices?.lacksOnlyName === true) return undefined;
  const isNow = hasRoom && devices?.isNow !== false && !awaitsShare(cluster, task, node);
  const groups = isShared(task.shape.gpu) ? chooseGroups(cluster, task, node, isNow) : [];
  return groups === undefined ? undefined : { node, groups, isNow, devices };
}

/**
 * Whether a pod would start to share a free GPU although a shared GPU will have enough memory once terminating pods
 * have ended. The pod waits: keeping a whole GPU free is worth more than that time.
 */
function awaitsShare({ settings }: Cluster, { shape: { gpu } }: Task, { groups, gpuMemoryMiB }: NodeState): boolean {
  if (gpu.type === "none" || gpu.type === "whole" || settings.gpuStrategy === "spread") return false;
  const wanted = shareMemoryMiB(gpu, gpuMemoryMiB);
  let now = 0;
  let later = 0;
  for (const { holders, laterHolders, usedMiB, laterMiB } of groups.values()) {
    if (holders === 0 || laterHolders === 0 || laterMiB + wanted > gpuMemoryMiB) continue;
    later++;
    if (usedMiB + wanted <= gpuMemoryMiB) now++;
  }
  return now < gpu.devices && later >= gpu.devices;
}

/** Whether the GPUs that the node's device plugin has not allocated are enough for these devices, now or later. */
export function roomForClaims(
  { table, names }: Cluster,
  node: NodeState,
  units: ReadonlyMap<string, number>,
): "now" | "later" | "none" {
  let room: "now" | "later" = "now";
  for (const [name, wanted] of units) {
    const place = names.placeOf(name);
    if ((table.later[place]?.[node.index] ?? 0) < wanted) return "none";
    if (table.idleForClaims(node, place) < wanted) room = "later";
  }
  return room;
}

/** Chooses the GPU groups of a task: packed or spread; packing prefers existing groups to new ones. */
function chooseGroups(cluster: Cluster, task: Task, node: NodeState, isNow: boolean): string[] | undefined {
  const { gpu } = task.shape;
  if (gpu.type === "none" || gpu.type === "whole") return [];
  const wanted = shareMemoryMiB(gpu, node.gpuMemoryMiB);
  const memoryOf = ({ usedMiB, laterMiB }: GroupUse): number => (isNow ? Math.max(usedMiB, laterMiB) : laterMiB);
  const isLasting = ({ laterHolders }: GroupUse): number => (laterHolders > 0 ? 0 : 1);
  const all = [...node.groups.values()]
    .filter((group) => memoryOf(group) + wanted <= node.gpuMemoryMiB && (!isNow || group.holders > 0))
    .sort((a, b) => isLasting(a) - isLasting(b) || memoryOf(b) - memoryOf(a) || (a.id < b.id ? -1 : 1));
  // Groups whose pods are all terminating count as devices that are free later.
  const fadingMax = cluster.table.later[gpuAt]?.[node.index] ?? 0;
  let fading = 0;
  const joinable = all.filter((group) => isLasting(group) === 0 || ++fading <= fadingMax);
  const left = (isNow ? cluster.table.idle : cluster.table.later)[gpuAt]?.[node.index] ?? 0;
  const chosen: string[] = [];
  let fresh = 0;
  if (cluster.settings.gpuStrategy === "spread") {
    // A GPU that no pod shares yet has the most memory left.
    joinable.reverse();
    fresh = Math.max(0, Math.min(gpu.devices, left));
  } else {
    fresh = Math.max(0, gpu.devices - joinable.length);
  }
  // If more GPUs are allocated than exist, one has failed, perhaps a shared one: no further share is allocated.
  if (fresh > left) return undefined;
  for (const { id } of joinable) if (chosen.length < gpu.devices - fresh) chosen.push(id);
  // The name is derived from the pod and the node, so that deciding again gives the same group. A group that the pod
  // started on another node may have been joined by other pods since.
  for (let ordinal = 0; chosen.length < gpu.devices; ordinal++) {
    const id = uuid5(task.uid, `${node.name} ${ordinal}`);
    if (!chosen.includes(id) && !node.groups.has(id)) chosen.push(id);
  }
  return chosen;
}

/** Finds a node and places the task on it. */
export function placeTask(
  cluster: Cluster,
  statement: Statement,
  task: Task,
  candidates: Candidates = anywhere,
): boolean {
  const spot = findSpot(cluster, task, candidates);
  if (spot === undefined) return false;
  statement.place(task, spot.node, spot.groups, !spot.isNow, spot.devices);
  return true;
}

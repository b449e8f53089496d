import { isShared, shareMemoryMiB } from "../../../model/scheduling/gpuRequest.ts";
import { uuid5 } from "../../../model/values/uuid5.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { DeviceFit } from "../cluster/deviceClaims.ts";
import { barredTypes } from "../cluster/gpuTypes.ts";
import type { GroupUse, NodeState } from "../cluster/nodeState.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { gpuAt } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import { memoryGate } from "../queues/gates.ts";
import type { Statement } from "../statement.ts";
import { nowhere } from "./fit.ts";
import { type InterPodRules, interPodRules } from "./podAffinity.ts";

/** Where a task may go. */
export interface Candidates {
  /** Indexes in order; undefined is everywhere. */
  readonly nodes: readonly number[] | undefined;
  /** What lies closer to the rest of the gang is worth more. */
  readonly bonus?: ((at: number) => number) | undefined;
}

export const anywhere: Candidates = { nodes: undefined };

/** KAI weighs inter-pod affinity a million times, closeness in a topology a hundred thousand times. */
const podAffinityWeight = 1e6 * 1e9;
export const closenessUnit = 1e5 * 1e9;

/** What no node and no eviction can cure, or undefined. */
export function problemOf(cluster: Cluster, task: Task): string | undefined {
  const { shape } = task;
  if (shape.problem !== undefined) return shape.problem;
  if (cluster.configMaps !== undefined) {
    for (const name of shape.configMaps) {
      if (!cluster.configMaps.has(`${task.namespace}/${name}`))
        return `ConfigMap ${task.namespace}/${name} does not exist`;
    }
  }
  if (shape.volumeClaims.length > 0) {
    const problem = cluster.volumes.problemOf(task);
    if (problem !== undefined) return problem;
  }
  return shape.hasDeviceClaims ? cluster.devices.problemOf(task)?.why : undefined;
}

export interface Spot {
  readonly node: NodeState;
  readonly groups: readonly string[];
  /** It fits without waiting. */
  readonly isNow: boolean;
  readonly devices: (DeviceFit & { ok: true }) | undefined;
}

/** The best place for a task as things stand, or undefined. */
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
  const isSocialOnly = rules !== undefined && !isBarred && candidates.bonus === undefined && isAlone(shape);
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
 * How far its devices are from what the claims name first; a place now is better than any that has to be waited for.
 */
function rankOf(spot: Spot | undefined): number {
  if (spot === undefined) return Number.POSITIVE_INFINITY;
  return (spot.devices?.rank ?? 0) + (spot.isNow || spot.devices?.rank === 0 ? 0 : laterRank);
}

const laterRank = 1e6;

/** Nothing but nodes and other pods decides. */
function isAlone({ volumeClaims, hasDeviceClaims }: PodShape): boolean {
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
    // Where it may not go is not a number.
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
  // A GPU that pods have from the device plugin is not there for claims, whichever it is.
  const room = devices === undefined ? "now" : roomForClaims(cluster, node, devices.units);
  if (room === "none") return undefined;
  const hasRoom = room === "now" && fit.fitsNow(task.shape, at) && fit.fitsLater(task.shape, at);
  if (hasRoom && devices?.lacksOnlyName === true) return undefined;
  const isNow = hasRoom && devices?.isNow !== false && !awaitsShare(cluster, task, node);
  const groups = isShared(task.shape.gpu) ? chooseGroups(cluster, task, node, isNow) : [];
  return groups === undefined ? undefined : { node, groups, isNow, devices };
}

/**
 * Whether a pod would open a free GPU although one that stays shared will have room for it in a moment. It waits: a
 * whole GPU is worth more than the time that a pod takes to end.
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

/** Whether the node's plugin has given away so many GPUs that these would be too many. */
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

/** The GPUs that a task shares: packed together or spread out, existing ones before new ones when packing. */
function chooseGroups(cluster: Cluster, task: Task, node: NodeState, isNow: boolean): string[] | undefined {
  const { gpu } = task.shape;
  if (gpu.type === "none" || gpu.type === "whole") return [];
  const wanted = shareMemoryMiB(gpu, node.gpuMemoryMiB);
  const memoryOf = ({ usedMiB, laterMiB }: GroupUse): number => (isNow ? Math.max(usedMiB, laterMiB) : laterMiB);
  const isLasting = ({ laterHolders }: GroupUse): number => (laterHolders > 0 ? 0 : 1);
  const all = [...node.groups.values()]
    .filter((group) => memoryOf(group) + wanted <= node.gpuMemoryMiB && (!isNow || group.holders > 0))
    .sort((a, b) => isLasting(a) - isLasting(b) || memoryOf(b) - memoryOf(a) || (a.id < b.id ? -1 : 1));
  // Groups whose sharers are all going count as devices that are free later.
  const fadingMax = cluster.table.later[gpuAt]?.[node.index] ?? 0;
  let fading = 0;
  const joinable = all.filter((group) => isLasting(group) === 0 || ++fading <= fadingMax);
  const left = (isNow ? cluster.table.idle : cluster.table.later)[gpuAt]?.[node.index] ?? 0;
  const chosen: string[] = [];
  let fresh = 0;
  if (cluster.settings.gpuStrategy === "spread") {
    // A GPU that no pod shares yet is the emptiest of all.
    joinable.reverse();
    fresh = Math.max(0, Math.min(gpu.devices, left));
  } else {
    fresh = Math.max(0, gpu.devices - joinable.length);
  }
  // Where more is given out than there is, a GPU has failed, perhaps one of those that could be joined: nothing more is
  // given.
  if (fresh > left) return undefined;
  for (const { id } of joinable) if (chosen.length < gpu.devices - fresh) chosen.push(id);
  // Derived from the pod and the node, so that deciding twice names the same group. A group that the pod began on
  // another node may have been joined by others since, and is theirs.
  for (let ordinal = 0; chosen.length < gpu.devices; ordinal++) {
    const id = uuid5(task.uid, `${node.name} ${ordinal}`);
    if (!chosen.includes(id) && !node.groups.has(id)) chosen.push(id);
  }
  return chosen;
}

/** Finds a place and takes it. */
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

import type { Taint } from "../../../model/kubernetes.generated.ts";
import { matchesNode, matchesTerm } from "../../../model/objects/nodeMatch.ts";
import { isTolerated } from "../../../model/objects/taints.ts";
import { isShared, shareMemoryMiB } from "../../../model/scheduling/gpuRequest.ts";
import { labelKeys } from "../../../model/scheduling/keys.ts";
import type { NodeFilter } from "../cluster/domainCounter.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { NodeTable } from "../cluster/nodeTable.ts";
import type { HostPort, NodeChoice, PodShape } from "../cluster/podShape.ts";
import { amdGpu, cpuAt, gpuAt, gpuMaker, memoryAt, podsAt } from "../cluster/resources.ts";
import type { Settings } from "../settings.ts";
import { WinnerTree } from "./winnerTree.ts";

/**
 * Finds the best node for a pod, as far as the node's own state decides: eligibility, amounts, ports, GPU shares, and a
 * score that is a sum of whole numbers. Ties go to the first name. KAI sums weighted plugin scores; here the same
 * preferences have the same order.
 */

/** KAI's weights. Below the smallest of them is the score of bin-packing or spreading. */
const sharingTier = 10_000;
const availableTier = 1_000;
const resourceTypeTier = 10;
const tierUnit = 1e9;
const amdOnly = gpuMaker(amdGpu);
/** When a pod fits a node. */
const [never, afterwards, now] = [0, 1, 2];
/** No node. */
export const nowhere = -1;

/** After this many searches for one shape its best node is kept up to date instead. */
const usesBeforeTree = 3;
const treesMax = 512;

/** Weights of kube-scheduler's preferences: a `PreferNoSchedule` taint that is not tolerated outweighs all others. */
const softTaintPenalty = 300;
const affinityFactor = 2;

interface Eligibility {
  readonly choice: NodeChoice;
  /** By node: 1 yes, 0 no, 2 not computed. */
  readonly accepts: Uint8Array;
  /** By node: the score of preferred affinity and `PreferNoSchedule` taints. */
  readonly preference: Float64Array;
}

/** Cached results for pods with the same need. */
interface NeedIndex {
  uses: number;
  tree: WinnerTree | undefined;
  /** By node: its score, as far as the log of changes was read. */
  scores: { readonly byNode: Float64Array; cursor: number } | undefined;
  /** The end of the change log when no node fitted; -1 if one did, or no search was made. */
  nowhereAt: number;
  /** Whether a node accepts the pod, and of which facts of nodes that is the result. */
  accepted: { readonly factsVersion: number; readonly epoch: number; readonly isBySome: boolean } | undefined;
}

export class Fit {
  private readonly table: NodeTable;
  private settings: Settings;
  private epoch = -1;
  private readonly eligibilities = new Map<string, Eligibility>();
  /** The last choice that was looked up, and its result: scoring looks it up for each node. */
  private latest: { readonly asked: NodeChoice; readonly known: Eligibility } | undefined;
  /** By need. */
  private readonly indexes = new Map<number, NeedIndex>();
  private treeCount = 0;
  private factsVersion = 0;
  /** By node: 1 when it has GPUs at all. */
  private hasGpus = new Uint8Array(0);
  /** By node: its free portion, for kube-scheduler's preference of empty nodes. */
  private emptiness = new Float64Array(0);
  private emptinessCursor = 0;
  private round = 0;
  /** By node: the round in which it was scored last. */
  private rounds = new Int32Array(0);
  /** By node: when a pod fits it, while all nodes are scored. */
  private whens = new Uint8Array(0);
  /** By node: scratch space for the results of one call. */
  scratch = new Float64Array(0);

  constructor(table: NodeTable, settings: Settings) {
    this.table = table;
    this.settings = settings;
  }

  /** Differs when labels, taints, conditions or capacities of nodes have changed. */
  get factsStamp(): string {
    return `${this.factsVersion} ${this.table.epoch}`;
  }

  configure(settings: Settings): void {
    this.settings = settings;
    // Cached scores and results are those of the old settings.
    this.epoch = -1;
    this.factsVersion++;
  }

  /** A node's labels, taints, conditions or capacity changed. */
  factsChanged(node: NodeState): void {
    this.factsVersion++;
    if (node.index < 0 || this.epoch !== this.table.epoch) return;
    for (const each of this.eligibilities.values()) each.accepts[node.index] = 2;
    this.hasGpus[node.index] = hasGpus(node);
  }

  /** No pod has this need any more. */
  forget(need: number): void {
    const index = this.indexes.get(need);
    if (index?.tree !== undefined) this.treeCount--;
    if (index?.scores !== undefined) this.treeCount--;
    this.indexes.delete(need);
  }

  private indexOf({ need }: PodShape): NeedIndex {
    let index = this.indexes.get(need.id);
    if (index === undefined) {
      index = { uses: 0, tree: undefined, scores: undefined, nowhereAt: -1, accepted: undefined };
      this.indexes.set(need.id, index);
    }
    return index;
  }

  /** The best node for a shape whose placement depends on one node at a time; -1 if it fits none, now or later. */
  best(shape: PodShape): number {
    this.follow();
    const index = this.indexOf(shape);
    index.uses++;
    if (index.tree === undefined) {
      // Spreading changes another node each time, so keeping the best node up to date would cost more than it saves.
      // The same holds where it fits nowhere: only nodes that have changed are searched again.
      if (isPlain(shape) && (index.uses <= usesBeforeTree || shape.rules === "default" || index.nowhereAt >= 0)) {
        return this.searchAgain(shape, index);
      }
      if (this.treeCount >= treesMax) this.dropTrees();
      index.tree = new WinnerTree(this.table.nodes.length);
      index.tree.cursor = -1;
      this.treeCount++;
    }
    const { tree } = index;
    const changed = tree.cursor < 0 ? undefined : this.table.log.since(tree.cursor);
    tree.cursor = this.table.log.end;
    if (changed === undefined) tree.fill(this.allScores(shape, this.scratch));
    else this.refill(shape, changed, (at, score) => tree.set(at, score));
    return tree.winner();
  }

  /** The score of every node; valid until a node changes. */
  scores(shape: PodShape): Float64Array {
    this.follow();
    const index = this.indexOf(shape);
    if (index.scores === undefined) {
      if (this.treeCount >= treesMax) this.dropTrees();
      index.scores = { byNode: new Float64Array(this.table.nodes.length), cursor: -1 };
      this.treeCount++;
    }
    const { byNode, cursor } = index.scores;
    const changed = cursor < 0 ? undefined : this.table.log.since(cursor);
    index.scores.cursor = this.table.log.end;
    if (changed === undefined) this.allScores(shape, byNode);
    else
      this.refill(shape, changed, (at, score) => {
        byNode[at] = score;
      });
    return byNode;
  }

  /** A node may be in the change log several times; it is scored once. */
  private refill(shape: PodShape, changed: readonly number[], set: (at: number, score: number) => void): void {
    this.round++;
    for (const at of changed) {
      if (this.rounds[at] === this.round) continue;
      this.rounds[at] = this.round;
      set(at, this.score(shape, at));
    }
  }

  /** The best of some nodes, given in order of name. */
  bestAmong(shape: PodShape, nodes: readonly number[], bonus?: (at: number) => number): number {
    this.follow();
    let best = nowhere;
    let bestScore = -1;
    for (const at of nodes) {
      let score = this.score(shape, at);
      if (score < 0) continue;
      if (bonus !== undefined) {
        const more = bonus(at);
        if (more < 0) continue;
        score += more;
      }
      if (score > bestScore) {
        best = at;
        bestScore = score;
      }
    }
    return best;
  }

  /** Whether the pod fits the node now, without waiting for terminating pods. */
  fitsNow(shape: PodShape, at: number): boolean {
    return this.fitsAmounts(shape, at, this.table.idle) && this.fitsShares(shape, at, "usedMiB", this.table.idle);
  }

  fitsLater(shape: PodShape, at: number): boolean {
    return this.fitsAmounts(shape, at, this.table.later) && this.fitsShares(shape, at, "laterMiB", this.table.later);
  }

  /** The score of a node, or -1 when the pod does not fit it even later. */
  score(shape: PodShape, at: number): number {
    if (!this.accepts(shape, at)) return -1;
    if (!this.fitsAmounts(shape, at, this.table.later)) return -1;
    const node = this.table.nodes[at] as NodeState;
    if (shape.hostPorts.length > 0 && portsTaken(shape.hostPorts, node)) return -1;
    const isSharing = isShared(shape.gpu);
    if (isSharing && !this.fitsShares(shape, at, "laterMiB", this.table.later)) return -1;
    const isNow = this.fitsNow(shape, at);
    if (shape.rules === "default") {
      // A node on which the pod would have to wait scores below all others.
      return (isNow ? availableTier * tierUnit : 0) + this.defaultScore(shape, at);
    }
    const wantsGpu = shape.gpu.type !== "none" || shape.asksForMig;
    // Where pods are spread, a node whose GPUs are free is better than one with a GPU to share.
    const mayJoin = isSharing && this.settings.gpuStrategy !== "spread";
    const sharing = mayJoin && this.joinsSharedGpus(shape, node) ? sharingTier : 0;
    return (this.tierOf(isNow, wantsGpu, at) + sharing) * tierUnit + this.placement(wantsGpu, at);
  }

  /**
   * The score of every node, resource by resource: iterating over one packed array after the other is far faster than
   * node by node.
   */
  private allScores(shape: PodShape, scores: Float64Array): Float64Array {
    if (!isPlain(shape) || shape.rules === "default") {
      for (let at = 0; at < scores.length; at++) scores[at] = this.score(shape, at);
      return scores;
    }
    const { whens } = this;
    for (let at = 0; at < whens.length; at++) whens[at] = this.accepts(shape, at) ? now : never;
    for (const [k, place] of shape.places.entries()) {
      const amount = shape.amounts[k] as number;
      const [idle, later] = [this.table.idle[place], this.table.later[place]];
      if (idle === undefined || later === undefined) return scores.fill(-1);
      for (let at = 0; at < whens.length; at++) {
        if ((later[at] as number) < amount) whens[at] = never;
        else if ((idle[at] as number) < amount && whens[at] === now) whens[at] = afterwards;
      }
    }
    const wantsGpu = shape.gpu.type !== "none" || shape.asksForMig;
    for (let at = 0; at < scores.length; at++) {
      const tier = this.tierOf(whens[at] === now, wantsGpu, at);
      scores[at] = whens[at] === never ? -1 : tier * tierUnit + this.placement(wantsGpu, at);
    }
    return scores;
  }

  private tierOf(isNow: boolean, wantsGpu: boolean, at: number): number {
    return (isNow ? availableTier : 0) + (!wantsGpu && this.hasGpus[at] === 0 ? resourceTypeTier : 0);
  }

  /** Which nodes the pod accepts, leaving amounts aside. */
  accepts(shape: PodShape, at: number): boolean {
    return acceptsAt(this.eligibility(shape.where), at, this.table, this.settings) && this.acceptsGpus(shape, at);
  }

  /** Whether the pod accepts any node, leaving amounts aside. No eviction changes that. */
  acceptsSome(shape: PodShape): boolean {
    this.follow();
    const { factsVersion, epoch } = this;
    const index = this.indexOf(shape);
    if (index.accepted?.factsVersion !== factsVersion || index.accepted.epoch !== epoch) {
      const isBySome = this.table.nodes.some((_, at) => this.accepts(shape, at));
      index.accepted = { factsVersion, epoch, isBySome };
    }
    return index.accepted.isBySome;
  }

  /** A filter for the nodes that a pod accepts, apart from amounts and GPUs. */
  accepting(choice: NodeChoice): NodeFilter & { readonly key: string } {
    const fit = this;
    return {
      key: choice.key,
      get version() {
        return fit.factsVersion;
      },
      accepts(at) {
        fit.follow();
        return acceptsAt(fit.eligibility(choice), at, fit.table, fit.settings);
      },
    };
  }

  /** Bin-packing prefers the node with the least of the pod's main resource left, spreading the one with the most. */
  private placement(wantsGpu: boolean, at: number): number {
    const idle = (wantsGpu ? this.table.idle[gpuAt] : this.table.idle[cpuAt])?.[at] ?? 0;
    const isSpread = (wantsGpu ? this.settings.gpuStrategy : this.settings.cpuStrategy) === "spread";
    // The lower half is for nodes that are overcommitted by nominations.
    return isSpread ? tierUnit / 2 + idle : tierUnit / 2 - idle;
  }

  private defaultScore(shape: PodShape, at: number): number {
    const preference = this.eligibility(shape.where).preference[at] ?? 0;
    return 1_000_000 + Math.round(((this.emptiness[at] ?? 0) + preference) * 1000);
  }

  private fitsAmounts({ places, amounts }: PodShape, at: number, left: readonly Float64Array[]): boolean {
    for (let k = 0; k < places.length; k++) {
      const place = left[places[k] as number];
      if (place === undefined || (place[at] as number) < (amounts[k] as number)) return false;
    }
    return true;
  }

  private fitsShares(
    { gpu }: PodShape,
    at: number,
    memory: "usedMiB" | "laterMiB",
    left: readonly Float64Array[],
  ): boolean {
    if (gpu.type === "none" || gpu.type === "whole") return true;
    const node = this.table.nodes[at] as NodeState;
    const wanted = shareMemoryMiB(gpu, node.gpuMemoryMiB);
    let joinable = 0;
    let lasting = 0;
    for (const group of node.groups.values()) {
      // A group of nominated pods only has no GPU yet.
      if (memory === "usedMiB" && group.holders === 0) continue;
      // Memory that is nominated to other pods is not allocated now.
      if (Math.max(group[memory], group.laterMiB) + wanted > node.gpuMemoryMiB) continue;
      joinable++;
      if (group.laterHolders > 0) lasting++;
    }
    // A GPU whose sharers are all terminating is a free device later, and may be nominated as one.
    if ((this.table.later[gpuAt]?.[at] ?? 0) < gpu.devices - lasting) return false;
    const fresh = Math.max(0, gpu.devices - (left === this.table.later ? lasting : joinable));
    if (fresh === 0) return true;
    // A new group needs a device, and its reservation a pod slot in addition to the pod's own.
    if (wanted > node.gpuMemoryMiB) return false;
    return (left[gpuAt]?.[at] ?? 0) >= fresh && (left[podsAt]?.[at] ?? 0) >= 1 + fresh;
  }

  private joinsSharedGpus({ gpu }: PodShape, node: NodeState): boolean {
    if (gpu.type === "none" || gpu.type === "whole") return false;
    const wanted = shareMemoryMiB(gpu, node.gpuMemoryMiB);
    let joinable = 0;
    for (const { usedMiB, laterMiB } of node.groups.values()) {
      if (Math.max(usedMiB, laterMiB) + wanted <= node.gpuMemoryMiB) joinable++;
    }
    return joinable >= gpu.devices;
  }

  private acceptsGpus(shape: PodShape, at: number): boolean {
    const { gpu } = shape;
    if (gpu.type === "none" && !shape.asksForMig) {
      if (!this.settings.restrictsNodes || shape.rules === "default") return true;
      return (this.table.nodes[at] as NodeState).labels[labelKeys.cpuWorker] !== undefined;
    }
    const node = this.table.nodes[at] as NodeState;
    if (this.settings.restrictsNodes && node.labels[labelKeys.gpuWorker] === undefined) return false;
    if (shape.asksForMig) return node.migStrategy !== "single";
    // A node without GPUs lacks an amount, and is reported as such.
    if (node.gpuMakers !== 0 && (shape.gpuMakers & ~node.gpuMakers) !== 0) return false;
    if (gpu.type === "whole") return node.migStrategy !== "mixed" || (node.capacity[gpuAt] ?? 0) > 0;
    // A reservation pod requests a GPU of this vendor.
    if (node.migStrategy !== "none" || node.gpuMakers === amdOnly || node.servedPlaces.has(gpuAt)) return false;
    return gpu.type !== "memory" || node.knowsGpuMemory;
  }

  /**
   * A need that fitted no node is searched again only on nodes that have changed, so that pods that cannot be placed
   * cost little.
   */
  private searchAgain(shape: PodShape, index: NeedIndex): number {
    const { log, nodes } = this.table;
    const changed = index.nowhereAt < 0 ? undefined : log.since(index.nowhereAt);
    const isStillNowhere =
      changed !== undefined && changed.length < nodes.length && changed.every((at) => this.score(shape, at) < 0);
    const found = isStillNowhere ? nowhere : this.search(shape);
    index.nowhereAt = found === nowhere ? log.end : -1;
    return found;
  }

  /** Iterates over the packed arrays; most nodes are ruled out by one comparison. */
  private search(shape: PodShape): number {
    const found = shape.rules === "default" ? this.searchEmptiest(shape) : this.searchPlacement(shape);
    if (found !== nowhere) return found;
    return this.bestAmong(shape, this.allNodes());
  }

  private searchPlacement(shape: PodShape): number {
    const wantsGpu = shape.gpu.type !== "none" || shape.asksForMig;
    const strategy = wantsGpu ? this.settings.gpuStrategy : this.settings.cpuStrategy;
    const sign = strategy === "spread" ? -1 : 1;
    const idle = this.table.idle;
    const kind = idle[wantsGpu ? gpuAt : cpuAt] as Float64Array;
    const least = wantsGpu ? (shape.gpu.type === "whole" ? shape.gpu.devices : 0) : shape.cpuMilli;
    const { hasGpus } = this;
    let best = nowhere;
    let bestLeft = Number.POSITIVE_INFINITY;
    let isBestOnCpuNode = false;
    for (let at = 0; at < kind.length; at++) {
      const left = kind[at] as number;
      if (left < least) continue;
      const isCpuNode = !wantsGpu && hasGpus[at] === 0;
      if (isBestOnCpuNode === isCpuNode ? left * sign >= bestLeft : isBestOnCpuNode) continue;
      if (!this.fitsAmounts(shape, at, idle) || !this.fitsAmounts(shape, at, this.table.later)) continue;
      if (!this.accepts(shape, at)) continue;
      best = at;
      bestLeft = left * sign;
      isBestOnCpuNode = isCpuNode;
    }
    return best;
  }

  private searchEmptiest(shape: PodShape): number {
    const { emptiness } = this;
    const { preference } = this.eligibility(shape.where);
    const { idle, later } = this.table;
    let best = nowhere;
    let bestScore = Number.NEGATIVE_INFINITY;
    for (let at = 0; at < emptiness.length; at++) {
      const known = (emptiness[at] as number) + (preference[at] as number);
      if (known <= bestScore) continue;
      if (!this.fitsAmounts(shape, at, idle) || !this.fitsAmounts(shape, at, later) || !this.accepts(shape, at))
        continue;
      // The preference is computed together with the acceptance.
      const score = (emptiness[at] as number) + (preference[at] as number);
      if (score <= bestScore) continue;
      best = at;
      bestScore = score;
    }
    return best;
  }

  private allNodes(): readonly number[] {
    return this.table.nodes.map((_, at) => at);
  }

  private eligibility(choice: NodeChoice): Eligibility {
    if (this.latest?.asked === choice) return this.latest.known;
    let known = this.eligibilities.get(choice.key);
    if (known === undefined) {
      const count = this.table.nodes.length;
      known = { choice, accepts: new Uint8Array(count).fill(2), preference: new Float64Array(count) };
      this.eligibilities.set(choice.key, known);
      // Preferences are read before the acceptance.
      if (choice.rules === "default") {
        for (let at = 0; at < count; at++) acceptsAt(known, at, this.table, this.settings);
      }
    }
    this.latest = { asked: choice, known };
    return known;
  }

  /** Applies changes of nodes; starts over if nodes were added or removed. Call it before reading scores. */
  follow(): void {
    const { table } = this;
    if (this.epoch !== table.epoch) {
      this.epoch = table.epoch;
      this.eligibilities.clear();
      this.latest = undefined;
      this.dropTrees();
      this.hasGpus = Uint8Array.from(table.nodes, hasGpus);
      this.rounds = new Int32Array(table.nodes.length);
      this.whens = new Uint8Array(table.nodes.length);
      this.scratch = new Float64Array(table.nodes.length);
      this.emptiness = Float64Array.from(table.nodes, (_, at) => this.emptinessOf(at));
      this.emptinessCursor = table.log.end;
      return;
    }
    if (this.emptinessCursor === table.log.end) return;
    const changed = table.log.since(this.emptinessCursor);
    this.emptinessCursor = table.log.end;
    if (changed === undefined)
      for (let at = 0; at < this.emptiness.length; at++) this.emptiness[at] = this.emptinessOf(at);
    else for (const at of changed) this.emptiness[at] = this.emptinessOf(at);
  }

  /** An empty node scores highest, and balanced use of CPU and memory scores higher. */
  private emptinessOf(at: number): number {
    const { capacity } = this.table.nodes[at] as NodeState;
    const { idle } = this.table;
    const cpu = freePart(idle[cpuAt]?.[at], capacity[cpuAt]);
    const memory = freePart(idle[memoryAt]?.[at], capacity[memoryAt]);
    const slots = freePart(idle[podsAt]?.[at], capacity[podsAt]);
    return (cpu + memory) / 2 + slots - Math.abs(cpu - memory) / 2;
  }

  private dropTrees(): void {
    for (const index of this.indexes.values()) {
      index.tree = undefined;
      index.scores = undefined;
      index.uses = 0;
      index.nowhereAt = -1;
    }
    this.treeCount = 0;
  }
}

function freePart(idle: number | undefined, capacity: number | undefined): number {
  return capacity === undefined || capacity <= 0 ? 0 : (100 * (idle ?? 0)) / capacity;
}

function hasGpus(node: NodeState): number {
  return (node.capacity[gpuAt] ?? 0) > 0 ? 1 : 0;
}

/** Whether only amounts and the accepted nodes decide. */
function isPlain(shape: PodShape): boolean {
  return !isShared(shape.gpu) && shape.hostPorts.length === 0;
}

function acceptsAt(
  { choice, accepts, preference }: Eligibility,
  at: number,
  table: NodeTable,
  settings: Settings,
): boolean {
  const known = accepts[at];
  if (known !== 2) return known === 1;
  const node = table.nodes[at] as NodeState;
  const verdict = whyRefused(choice, node, settings) === undefined;
  accepts[at] = verdict ? 1 : 0;
  if (verdict && choice.rules === "default") preference[at] = preferenceOf(choice, node);
  return verdict;
}

/** Why a pod does not accept a node, apart from amounts; undefined if it does. */
export function whyRefused(choice: NodeChoice, node: NodeState, _settings?: Settings): RefusedBy | undefined {
  if (node.node === undefined) return "gone";
  const tolerations = choice.pod.spec?.tolerations;
  if (choice.rules === "kai") {
    if (!node.isHealthy) return "unhealthy";
  } else if (node.node.spec?.unschedulable === true && !isTolerated(cordoned, tolerations)) {
    return "unhealthy";
  }
  for (const taint of node.taints) {
    if (taint.effect !== "PreferNoSchedule" && !isTolerated(taint, tolerations)) return "taint";
  }
  return matchesNode(choice.pod.spec, node.node) ? undefined : "affinity";
}

export type RefusedBy = "gone" | "unhealthy" | "taint" | "affinity";

const cordoned: Taint = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };

function preferenceOf(choice: NodeChoice, { node, taints }: NodeState): number {
  let sum = 0;
  for (const { weight, preference } of choice.preferred) {
    if (node !== undefined && matchesTerm(preference, node)) sum += weight * affinityFactor;
  }
  const tolerations = choice.pod.spec?.tolerations;
  for (const taint of taints) {
    if (taint.effect === "PreferNoSchedule" && !isTolerated(taint, tolerations)) sum -= softTaintPenalty;
  }
  return sum;
}

/** Host ports are in use by every pod on the node, also by terminating ones. */
function portsTaken(wanted: readonly HostPort[], node: NodeState): boolean {
  for (const { holder } of node.holdings) {
    for (const theirs of holder.shape.hostPorts) {
      if (wanted.some((ours) => samePort(ours, theirs))) return true;
    }
  }
  return false;
}

function samePort(a: HostPort, b: HostPort): boolean {
  if (a.port !== b.port || a.protocol !== b.protocol) return false;
  return a.ip === b.ip || a.ip === "0.0.0.0" || b.ip === "0.0.0.0";
}

import { assert } from "../../../model/assert.ts";
import type { Node } from "../../../model/kubernetes.generated.ts";
import { shareMemoryMiB } from "../../../model/scheduling/gpuRequest.ts";
import { type GroupUse, type Holder, type Holding, type HoldState, NodeState } from "./nodeState.ts";
import { gpuAt, podsAt, type ResourceNames } from "./resources.ts";
import type { ServedResources } from "./servedResources.ts";

/**
 * All nodes in packed form: one array for each resource, in order of node name, so that a search compares numbers only.
 * The idle amounts of a node are recountAndMarked from its holders whenever an event touches it; a statement adds and
 * subtracts whole numbers, and is rolled back exactly.
 */
export class NodeTable {
  /** Free amounts, by resource and node. */
  idle: Float64Array[] = [];
  /** Amounts that may be nominated: idle and being released, less those that are nominated already. */
  later: Float64Array[] = [];
  /** Nodes in order of name. */
  nodes: readonly NodeState[] = [];
  /** Every change of a node's amounts, newest last: caches of values per node are brought up to date from it. */
  readonly log = new ChangeLog();
  /** Nodes that may have more room, or other facts, than at the end of the last cycle. */
  readonly gained = new Set<NodeState>();
  /** Increases when the set of nodes or their order changes: everything that is kept by index is invalid. */
  epoch = 0;
  private readonly byName = new Map<string, NodeState>();
  private readonly names: ResourceNames;
  private isSetDirty = true;
  private readonly onNodeFacts: (node: NodeState) => void;

  private readonly served: ServedResources;

  constructor(names: ResourceNames, served: ServedResources, onNodeFacts: (node: NodeState) => void) {
    this.names = names;
    this.served = served;
    this.onNodeFacts = onNodeFacts;
  }

  get(name: string): NodeState | undefined {
    return this.byName.get(name);
  }

  /** All nodes, also those that were added since the last refresh. */
  known(): Iterable<NodeState> {
    return this.byName.values();
  }

  /** The node of this name; a node that is not observed yet is created without capacity. */
  getOrCreate(name: string): NodeState {
    let state = this.byName.get(name);
    if (state === undefined) {
      state = new NodeState(name);
      this.byName.set(name, state);
      this.isSetDirty = true;
    }
    return state;
  }

  put(node: Node): NodeState {
    const state = this.getOrCreate(node.metadata.name);
    state.update(node, this.names, this.served);
    this.factsChanged(state);
    return state;
  }

  remove(name: string): void {
    const state = this.byName.get(name);
    if (state === undefined) return;
    state.update(undefined, this.names, this.served);
    this.factsChanged(state);
    this.forgetIfEmpty(state);
  }

  /** The extended resources that DRA devices back have changed, on all nodes or on these. */
  updateAgain(states: Iterable<NodeState> = [...this.byName.values()]): void {
    for (const state of states) {
      state.update(state.node, this.names, this.served);
      this.factsChanged(state);
    }
  }

  /** Brings the packed arrays up to date with the set of nodes. Costs nothing when it has not changed. */
  refresh(): void {
    if (!this.isSetDirty) {
      if (this.idle.length < this.names.names.length) this.grow();
      return;
    }
    this.isSetDirty = false;
    this.epoch++;
    const nodes = [...this.byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.nodes = nodes;
    this.idle = [];
    this.later = [];
    this.grow();
    for (const [index, node] of nodes.entries()) {
      node.index = index;
      this.recount(node);
    }
    this.log.clear();
  }

  /** Puts a holder on a node. */
  hold(holder: Holder, node: NodeState, groups: readonly string[], state: HoldState): Holding {
    const holding: Holding = { holder, node, groups, state };
    this.holdAgain(holding);
    return holding;
  }

  holdAgain(holding: Holding): void {
    const { node } = holding;
    if (this.idle.length < this.names.names.length) this.grow();
    assert(!node.holdings.has(holding), () => `pod ${holding.holder.uid} holds ${node.name} already`);
    // A node without an object is dropped with its last holder, which may have happened since the decision.
    if (this.byName.get(node.name) === undefined) {
      this.byName.set(node.name, node);
      this.isSetDirty = true;
    }
    assert(this.byName.get(node.name) === node, () => `there are two NodeStates for node ${node.name}`);
    node.holdings.add(holding);
    if (this.isPlain(holding)) this.shift(holding, 1);
    else this.recountAndMark(node);
  }

  release(holding: Holding): void {
    const { node } = holding;
    const isHeld = node.holdings.delete(holding);
    assert(isHeld, () => `pod ${holding.holder.uid} does not hold ${node.name}`);
    this.gained.add(node);
    if (this.isPlain(holding)) this.shift(holding, -1);
    else this.recountAndMark(node);
    this.forgetIfEmpty(node);
  }

  setState(holding: Holding, state: HoldState): void {
    this.gained.add(holding.node);
    if (this.isPlain(holding)) {
      this.shift(holding, -1);
      holding.state = state;
      this.shift(holding, 1);
    } else {
      holding.state = state;
      this.recountAndMark(holding.node);
    }
  }

  /** The amounts of the node have not changed, but values that depend on its holders may have. */
  touch({ index }: NodeState): void {
    if (index >= 0) this.log.push(index);
  }

  /** Counts the node again from its holders, and marks it as one that may have more room. */
  recountAndMark(node: NodeState): void {
    this.gained.add(node);
    this.recount(node);
  }

  private recount(node: NodeState): void {
    const at = node.index;
    assert(at < 0 || this.nodes[at] === node, () => `node ${node.name} is not at ${at}`);
    node.heldByOthers[0] = node.heldByOthers[1] = node.heldByOthers[2] = 0;
    node.groups.clear();
    if (at < 0) return;
    for (let place = 0; place < this.idle.length; place++) {
      const capacity = node.capacity[place] ?? 0;
      amountsAt(this.idle, place)[at] = capacity;
      amountsAt(this.later, place)[at] = capacity;
    }
    for (const holding of node.holdings) {
      this.count(holding, 1);
      for (const group of holding.groups) this.joinGroup(node, group, holding);
    }
    for (const group of node.groups.values()) {
      // A shared GPU is one device less for pods that request whole GPUs. Its reservation takes a pod slot, also if it
      // does not exist yet.
      if (group.holders > 0) this.take(this.idle, at, group.hasReservation);
      if (group.laterHolders > 0) this.take(this.later, at, group.hasReservation);
    }
    this.countClaimed(node, at);
    this.log.push(at);
  }

  /**
   * A GPU that is allocated to a claim is one less for the device plugin of the node. While a GPU is chosen for a
   * pod that is not bound yet, no pod gets a GPU of the plugin: the node does not know yet which one is in use.
   */
  private countClaimed({ claimed, heldByOthers, idleForClaims }: NodeState, at: number): void {
    idleForClaims.clear();
    if (claimed === undefined) return;
    for (const [name, units] of claimed.now) {
      const idle = amountsAt(this.idle, this.names.placeOf(name));
      idle[at] = (idle[at] ?? 0) - units;
    }
    for (const [name, units] of claimed.later) {
      const later = amountsAt(this.later, this.names.placeOf(name));
      later[at] = (later[at] ?? 0) - units;
    }
    heldByOthers[0] += claimed.foreignGpus * 1000;
    if (!claimed.isPending) return;
    for (const name of claimed.now.keys()) {
      const place = this.names.placeOf(name);
      const idle = amountsAt(this.idle, place);
      idleForClaims.set(place, idle[at] ?? 0);
      idle[at] = Math.min(idle[at] ?? 0, 0);
    }
  }

  /** The amount that is free for claims of a resource that the device plugin offers as well. */
  idleForClaims({ index, idleForClaims }: NodeState, place: number): number {
    return idleForClaims.get(place) ?? this.idle[place]?.[index] ?? 0;
  }

  private take(amounts: Float64Array[], at: number, hasReservation: boolean): void {
    const gpus = amountsAt(amounts, gpuAt);
    gpus[at] = (gpus[at] ?? 0) - 1;
    if (hasReservation) return;
    const slots = amountsAt(amounts, podsAt);
    slots[at] = (slots[at] ?? 0) - 1;
  }

  private joinGroup(node: NodeState, id: string, { holder, state }: Holding): void {
    let group: GroupUse | undefined = node.groups.get(id);
    if (group === undefined) {
      group = { id, usedMiB: 0, laterMiB: 0, holders: 0, laterHolders: 0, hasReservation: false };
      node.groups.set(id, group);
    }
    const memory = holder.isReservation ? 0 : shareMemoryMiB(holder.shape.gpu, node.gpuMemoryMiB);
    if (holder.isReservation) group.hasReservation = true;
    if (state !== "pipelined") {
      group.usedMiB += memory;
      group.holders++;
    }
    // A reservation is deleted with the last pod that shares its GPU.
    if (state !== "releasing" && !holder.isReservation) {
      group.laterMiB += memory;
      group.laterHolders++;
    }
  }

  /** Holders without GPU shares need no recountAndMark: adding their amounts is enough. */
  private isPlain({ groups, node }: Holding): boolean {
    return groups.length === 0 && node.index >= 0 && node.claimed === undefined;
  }

  private shift(holding: Holding, sign: number): void {
    this.count(holding, sign);
    this.log.push(holding.node.index);
  }

  private count({ holder, node, state }: Holding, sign: number): void {
    const { places, amounts, cpuMilli, memoryBytes, gpu, migGpus } = holder.shape;
    const at = node.index;
    for (let k = 0; k < places.length; k++) {
      const place = places[k] as number;
      if (place === gpuAt && holder.isReservation) continue;
      const by = (amounts[k] as number) * sign;
      if (state !== "pipelined") {
        const idle = amountsAt(this.idle, place);
        idle[at] = (idle[at] ?? 0) - by;
      }
      if (state !== "releasing") {
        const later = amountsAt(this.later, place);
        later[at] = (later[at] ?? 0) - by;
      }
    }
    if (holder.isForeign && state !== "pipelined") {
      const devices = gpu.type === "whole" && !holder.isReservation ? gpu.devices : 0;
      node.heldByOthers[0] += (devices + migGpus) * 1000 * sign;
      node.heldByOthers[1] += cpuMilli * sign;
      node.heldByOthers[2] += memoryBytes * sign;
    }
  }

  private factsChanged(state: NodeState): void {
    this.onNodeFacts(state);
    this.gained.add(state);
    if (this.isSetDirty) return;
    if (this.idle.length < this.names.names.length) this.grow();
    this.recountAndMark(state);
  }

  private forgetIfEmpty(state: NodeState): void {
    if (state.node !== undefined || state.holdings.size > 0) return;
    this.byName.delete(state.name);
    this.isSetDirty = true;
  }

  private grow(): void {
    while (this.idle.length < this.names.names.length) {
      const place = this.idle.length;
      const amounts = new Float64Array(this.nodes.length);
      for (const [at, { capacity }] of this.nodes.entries()) amounts[at] = capacity[place] ?? 0;
      this.idle.push(amounts);
      this.later.push(amounts.slice());
    }
  }
}

function amountsAt(all: readonly Float64Array[], place: number): Float64Array {
  return all[place] as Float64Array;
}

/** The most recent changes of nodes, in order. A reader that is too far behind starts over. */
export class ChangeLog {
  private entries: number[] = [];
  private dropped = 0;

  /** The position after the newest change. */
  get end(): number {
    return this.dropped + this.entries.length;
  }

  push(node: number): void {
    this.entries.push(node);
    if (this.entries.length > logMax) {
      this.dropped += this.entries.length >> 1;
      this.entries = this.entries.slice(this.entries.length >> 1);
    }
  }

  /** The nodes that changed since a position, with repetitions; undefined if the log no longer has them. */
  since(position: number): readonly number[] | undefined {
    if (position < this.dropped) return undefined;
    return position === this.end ? none : this.entries.slice(position - this.dropped);
  }

  clear(): void {
    this.dropped += this.entries.length + 1;
    this.entries = [];
  }
}

const logMax = 16_384;
const none: readonly number[] = [];

import { labelKeys } from "../../../model/scheduling/keys.ts";
import type { Settings } from "../settings.ts";
import type { NodeState } from "./nodeState.ts";
import type { NodeTable } from "./nodeTable.ts";
import { gpuAt, migWeight, type ResourceNames, type Vector, zeroVector } from "./resources.ts";

/**
 * The resources that queues divide: those of healthy nodes, less what pods of other schedulers hold. Where nodes are
 * restricted by role, only GPU workers add GPUs. The sum is updated for the nodes that change.
 */
export class ClusterTotal {
  private readonly table: NodeTable;
  private readonly names: ResourceNames;
  private restrictsNodes: boolean;
  private epoch = -1;
  private cursor = 0;
  private sum = zeroVector();
  /** By node: what it adds to the sum. */
  private parts: Vector[] = [];

  constructor(table: NodeTable, names: ResourceNames, { restrictsNodes }: Settings) {
    this.table = table;
    this.names = names;
    this.restrictsNodes = restrictsNodes;
  }

  configure({ restrictsNodes }: Settings): void {
    if (restrictsNodes !== this.restrictsNodes) this.epoch = -1;
    this.restrictsNodes = restrictsNodes;
  }

  /** The table must be up to date. */
  vector(): Vector {
    const { table } = this;
    const changed = this.epoch === table.epoch ? table.log.since(this.cursor) : undefined;
    this.cursor = table.log.end;
    if (changed === undefined) this.addUp();
    else for (const at of changed) this.follow(at);
    return this.sum.map((each) => Math.max(0, each)) as Vector;
  }

  private addUp(): void {
    this.epoch = this.table.epoch;
    this.sum = zeroVector();
    this.parts = this.table.nodes.map((node) => this.partOf(node));
    for (const part of this.parts) for (let r = 0; r < 3; r++) (this.sum[r] as number) += part[r] as number;
  }

  private follow(at: number): void {
    const before = this.parts[at] as Vector;
    const after = this.partOf(this.table.nodes[at] as NodeState);
    this.parts[at] = after;
    for (let r = 0; r < 3; r++) (this.sum[r] as number) += (after[r] as number) - (before[r] as number);
  }

  private partOf({ isHealthy, capacity, heldByOthers, claimGpus, servedPlaces, labels }: NodeState): Vector {
    if (!isHealthy) return zeroVector();
    if (this.restrictsNodes && labels[labelKeys.gpuWorker] === undefined) {
      return [0, (capacity[0] ?? 0) - heldByOthers[1], (capacity[1] ?? 0) - heldByOthers[2]];
    }
    // A node that publishes its GPUs both ways has each of them once.
    let gpus = (capacity[gpuAt] ?? 0) > 0 ? (capacity[gpuAt] as number) : claimGpus;
    for (let place = 4; place < capacity.length; place++) {
      if (!servedPlaces.has(place)) gpus += (capacity[place] ?? 0) * this.migWeightAt(place);
    }
    return [gpus * 1000 - heldByOthers[0], (capacity[0] ?? 0) - heldByOthers[1], (capacity[1] ?? 0) - heldByOthers[2]];
  }

  private readonly migWeights: number[] = [];

  private migWeightAt(place: number): number {
    let weight = this.migWeights[place];
    if (weight === undefined) {
      weight = migWeight(this.names.names[place] ?? "");
      this.migWeights[place] = weight;
    }
    return weight;
  }
}

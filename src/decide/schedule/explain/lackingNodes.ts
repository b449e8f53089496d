import type { Cluster } from "../cluster/cluster.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { PodShape } from "../cluster/podShape.ts";
import type { Task } from "../cluster/task.ts";
import type { Candidates } from "../placement/placeTask.ts";
import { nodesOf } from "./trialNodes.ts";

/** An amount of a resource on a node that a trial treats as free. */
export interface Grant {
  readonly node: NodeState;
  readonly place: number;
  readonly amount: number;
}

/** The resources that pods of one job hold, by node. */
export class OwnHoldings {
  private readonly byNode = new Map<NodeState, Map<number, number>>();

  add({ holdings, shape }: Task): void {
    const node = holdings.at(-1)?.node;
    if (node === undefined) return;
    const amounts = this.byNode.get(node) ?? new Map<number, number>();
    this.byNode.set(node, amounts);
    for (const [k, place] of shape.places.entries()) {
      amounts.set(place, (amounts.get(place) ?? 0) + (shape.amounts[k] ?? 0));
    }
  }

  on(node: NodeState): ReadonlyMap<number, number> | undefined {
    return this.byNode.get(node);
  }
}

interface Lacking {
  readonly node: NodeState;
  /** The lacking portions of the requested resources, summed. */
  part: number;
}

/**
 * Nodes that accept pods of a shape and lack some of their requests, the one that lacks least first. A gang uses them
 * one after the other, so they are sorted once; amounts that have changed since are checked when a node is next.
 */
export class LackingNodes {
  private readonly cluster: Cluster;
  private readonly shape: PodShape;
  private readonly own: OwnHoldings;
  private readonly line: Lacking[] = [];

  constructor(cluster: Cluster, shape: PodShape, within: Candidates, own: OwnHoldings) {
    this.cluster = cluster;
    this.shape = shape;
    this.own = own;
    for (const node of nodesOf(cluster, within)) {
      if (node.node === undefined || !cluster.fit.accepts(shape, node.index)) continue;
      const part = this.partOf(node);
      if (part > 0) this.line.push({ node, part });
    }
    this.line.sort(byPart);
  }

  /** The amounts that the first node lacks; undefined if there is none. */
  first(): Grant[] | undefined {
    for (let head = this.line[0]; head !== undefined; head = this.line[0]) {
      const part = this.partOf(head.node);
      if (part === head.part) return this.grantsOn(head.node);
      this.line.shift();
      if (!(part > 0)) continue;
      head.part = part;
      const at = this.line.findIndex((each) => byPart(head as Lacking, each) < 0);
      this.line.splice(at < 0 ? this.line.length : at, 0, head);
    }
    return undefined;
  }

  /** Zero if nothing is lacking, negative if the capacity of the node is not enough. */
  private partOf(node: NodeState): number {
    const { idle } = this.cluster.table;
    const { places, amounts } = this.shape;
    const own = this.own.on(node);
    let part = 0;
    for (let k = 0; k < places.length; k++) {
      const place = places[k] as number;
      const wants = amounts[k] as number;
      // Amounts beyond the capacity cannot become free, and amounts of its own job do not count as free.
      if ((node.capacity[place] ?? 0) - (own?.get(place) ?? 0) < wants) return -1;
      part += Math.max(0, wants - (idle[place]?.[node.index] ?? 0)) / wants;
    }
    return part;
  }

  private grantsOn(node: NodeState): Grant[] {
    const { places, amounts } = this.shape;
    const grants: Grant[] = [];
    for (const [k, place] of places.entries()) {
      const amount = (amounts[k] ?? 0) - (this.cluster.table.idle[place]?.[node.index] ?? 0);
      if (amount > 0) grants.push({ node, place, amount });
    }
    return grants;
  }
}

function byPart(a: Lacking, b: Lacking): number {
  return a.part - b.part || a.node.index - b.node.index;
}

import type { Cluster } from "../cluster/cluster.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { Candidates } from "../placement/placeTask.ts";

/** The nodes of the candidates. */
export function nodesOf({ table }: Cluster, { nodes }: Candidates): readonly NodeState[] {
  return nodes === undefined ? table.nodes : nodes.map((at) => table.nodes[at] as NodeState);
}

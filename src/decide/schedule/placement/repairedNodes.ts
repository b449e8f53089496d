import type { Node } from "../../../model/kubernetes.generated.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { NodeState } from "../cluster/nodeState.ts";

/** Taints that Kubernetes sets on nodes that are cordoned or unhealthy. */
const ownTaints = "node.kubernetes.io/";

/** Treats nodes as healthy and schedulable. Returns an undo. */
export function asIfHealthy(cluster: Cluster, nodes: readonly NodeState[]): () => void {
  return pretend(cluster, nodes, (state) => {
    const object = state.node as Node;
    state.node = { ...object, spec: { ...object.spec, unschedulable: false } };
    state.isHealthy = true;
    state.taints = state.taints.filter(({ key }) => !key.startsWith(ownTaints));
  });
}

/** Treats nodes as without taints. Returns an undo. */
export function asIfUntainted(cluster: Cluster, nodes: readonly NodeState[]): () => void {
  return pretend(cluster, nodes, (state) => {
    state.taints = [];
  });
}

function pretend(cluster: Cluster, nodes: readonly NodeState[], change: (state: NodeState) => void): () => void {
  const touched = (state: NodeState): void => {
    cluster.fit.factsChanged(state);
    cluster.table.log.push(state.index);
  };
  const befores = nodes.map(({ node, isHealthy, taints }) => ({ node, isHealthy, taints }));
  for (const state of nodes) {
    change(state);
    touched(state);
  }
  return () => {
    for (const [at, state] of nodes.entries()) {
      Object.assign(state, befores[at]);
      touched(state);
    }
  };
}

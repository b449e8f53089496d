/**
 * The GPU type of a node without a cloud: its label `GpuType`, else the only GPU type that has the node's instance
 * type. A node with GPUs and neither could be of any type, so availability is unknown, not zero.
 */
import type { GpuTypeRow } from "../../model/inventory/rows.ts";
import type { Node } from "../../model/kubernetes.generated.ts";

export interface TypedNodes {
  /** All nodes; the label is added where the instance type determines the GPU type. */
  readonly nodes: readonly Node[];
  /** Names of nodes that have GPUs and no GPU type. */
  readonly untyped: readonly string[];
}

const typeLabel = "GpuType";
const machineLabel = "node.kubernetes.io/instance-type";

export function typeNodes(nodes: readonly Node[], types: readonly GpuTypeRow[]): TypedNodes {
  const byMachine = new Map<string, string | undefined>();
  for (const { gpuType, instanceType, nodeLabelValue } of types) {
    if (instanceType === "" || nodeLabelValue !== null) continue;
    // Two GPU types have this instance type, so it is ambiguous.
    byMachine.set(instanceType, byMachine.has(instanceType) ? undefined : gpuType);
  }
  const resources = new Set(types.filter(({ maxGpus }) => maxGpus > 0).map(({ resourceName }) => resourceName));
  const untyped: string[] = [];
  const typed = nodes.map((node) => {
    const { labels = {}, name } = node.metadata;
    if (labels[typeLabel] !== undefined) return node;
    const type = byMachine.get(labels[machineLabel] ?? "");
    if (type !== undefined) {
      return { ...node, metadata: { ...node.metadata, labels: { ...labels, [typeLabel]: type } } };
    }
    const amounts = Object.entries(node.status?.allocatable ?? {});
    if (amounts.some(([resource, amount]) => resources.has(resource) && amount !== "0")) untyped.push(name);
    return node;
  });
  return { nodes: typed, untyped };
}

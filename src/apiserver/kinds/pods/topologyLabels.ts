import type { Node } from "../../../model/kubernetes.generated.ts";

const copied = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/** Topology labels of a node that are copied to its pods, so that workloads can read them without reading nodes. */
export function topologyLabelsOf(node: Node | undefined): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const key of copied) {
    const value = node?.metadata.labels?.[key];
    if (value !== undefined) labels[key] = value;
  }
  return labels;
}

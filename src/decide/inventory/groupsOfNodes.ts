/** Without a cloud there are no Auto Scaling groups: the Ready nodes of each GPU type are counted as one group. */
import type { GroupInstance, ScalingGroup } from "../../model/inventory/cloud.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import { instanceIdOf } from "./schedulableNode.ts";

export function groupsOfNodes(nodes: readonly Node[], prefix: string): ScalingGroup[] {
  const byType = new Map<string, GroupInstance[]>();
  for (const node of nodes) {
    const type = node.metadata.labels?.["GpuType"];
    const isReady = node.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") === true;
    if (type === undefined || !isReady) continue;
    const instance = {
      id: instanceIdOf(node) ?? node.metadata.name,
      type: node.metadata.labels?.["node.kubernetes.io/instance-type"] ?? "",
      lifecycleState: "InService",
      healthStatus: "Healthy",
    };
    const same = byType.get(type);
    if (same === undefined) byType.set(type, [instance]);
    else same.push(instance);
  }
  return [...byType].map(([type, instances]) => ({
    name: `${prefix}-gpu-nodes-${type}`,
    desiredCapacity: instances.length,
    instances,
    tags: { GpuType: type },
  }));
}

import type { Node } from "../../model/kubernetes.generated.ts";
import type { Pool } from "../../model/profiles/profiles.ts";
import { firstRevision } from "../../model/revision.ts";
import { formatTime } from "../../model/values/time.ts";
import { nodeObject, simNode } from "./simNode.ts";

/** The Node objects that pools would add to a cluster: names that existing nodes have are not used again. */
export function newNodes(pools: readonly Pool[], existing: readonly Node[], nowMs: number): Node[] {
  const taken = new Set(existing.map(({ metadata }) => metadata.name));
  const identity = { resourceVersion: firstRevision, creationTimestamp: formatTime(nowMs) };
  const nodes: Node[] = [];
  for (const { name: pool, profile, count } of pools) {
    for (let index = 0, created = 0; created < count; index++) {
      const node = simNode({ clusterSeed: "new", pool, profile, index });
      if (taken.has(node.name)) continue;
      created++;
      const object = nodeObject(node, { ordinal: existing.length + nodes.length, nowMs });
      const metadata = { ...object.metadata, ...identity, uid: `new-${node.name}` };
      nodes.push(JSON.parse(JSON.stringify({ ...object, metadata })) as Node);
    }
  }
  return nodes;
}

import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { type Amounts, nanoOf, podRequests } from "../../../model/objects/podRequests.ts";
import { formatQuantity } from "../../../model/values/quantity.ts";
import { type Check, type Evidence, passOrFail } from "../check.ts";
import { placementOf } from "../placement.ts";

export const nodesNotOvercommitted: Check = {
  id: "S3",
  title: "the requests on each node are within its allocatable amounts, for every resource",
  byDefault: true,
  settles: false,
  needs: ["pods", "nodes"],
  run: ({ snapshot }) => {
    const { nodes, liveByNode } = placementOf(snapshot);
    const evidence: Evidence[] = [];
    for (const [name, pods] of [...liveByNode].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const node = nodes.get(name);
      if (node === undefined) continue; // Reported by S2.
      const used = usedOn(pods);
      for (const [resource, amount] of used) {
        const has = allocatableOf(node, resource);
        if (amount <= has) continue;
        const problem = `${resource}: ${shown(amount, resource)} requested by ${pods.length} pods, ${shown(has, resource)} allocatable`;
        evidence.push({ object: `nodes/${name}`, problem });
      }
    }
    return passOrFail(evidence, `${liveByNode.size} nodes with pods`);
  },
};

/** The sum of the pods' requests, including the resource `pods`. */
export function usedOn(pods: readonly Pod[]): Amounts {
  const used: Amounts = new Map([["pods", BigInt(pods.length) * 1_000_000_000n]]);
  for (const pod of pods) {
    const byClaim = claimedResources(pod);
    for (const [resource, amount] of podRequests(pod)) {
      if (amount === 0n || byClaim.has(resource)) continue;
      used.set(resource, (used.get(resource) ?? 0n) + amount);
    }
  }
  return used;
}

/** Extended resources that a claim provides do not count against the node's allocatable. */
function claimedResources({ status }: Pod): ReadonlySet<string> {
  const mappings = status?.extendedResourceClaimStatus?.requestMappings ?? [];
  return mappings.length === 0 ? none : new Set(mappings.map(({ resourceName }) => resourceName));
}

const none: ReadonlySet<string> = new Set();

export function allocatableOf({ status }: Node, resource: string): bigint {
  const text = status?.allocatable?.[resource] ?? status?.capacity?.[resource];
  return text === undefined ? 0n : nanoOf(text);
}

function shown(nano: bigint, resource: string): string {
  return formatQuantity({ nano, format: resource === "memory" ? "binarySI" : "decimalSI" });
}

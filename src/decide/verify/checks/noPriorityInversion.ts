import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { podRequests } from "../../../model/objects/podRequests.ts";
import { type Check, type Evidence, passOrFail } from "../check.ts";
import type { ClusterSnapshot } from "../clusterSnapshot.ts";
import { placementOf, podName } from "../placement.ts";
import { allocatableOf, usedOn } from "./nodesNotOvercommitted.ts";
import { misfit } from "./podsMatchNodes.ts";

export const noPriorityInversion: Check = {
  id: "S14",
  title: "no pod is unscheduled while pods of lower priority hold the resources it needs",
  byDefault: false,
  settles: true,
  needs: ["pods", "nodes"],
  run: ({ snapshot, tally }) => {
    const waiting = tally.unscheduled.filter(({ spec }) => (spec?.schedulingGates ?? []).length === 0);
    const evidence: Evidence[] = [];
    // Pods of one template have the same result, so it is computed once.
    const answers = new Map<string, string | undefined>();
    for (const pod of waiting) {
      const key = JSON.stringify([
        pod.spec?.priority ?? 0,
        [...podRequests(pod)].map(([name, nano]) => [name, String(nano)]),
        pod.spec?.nodeSelector,
        pod.spec?.affinity?.nodeAffinity,
        pod.spec?.tolerations,
      ]);
      if (!answers.has(key)) answers.set(key, lowerPriorityHolder(snapshot, pod));
      const found = answers.get(key);
      if (found !== undefined) evidence.push({ object: podName(pod), problem: found });
    }
    return passOrFail(evidence, `${waiting.length} unscheduled pods`);
  },
};

/** A node on which a pod would fit without the pods of lower priority; `isOpen` excludes nodes. */
export function lowerPriorityHolder(
  snapshot: ClusterSnapshot,
  pod: Pod,
  isOpen: (node: Node) => boolean = () => true,
): string | undefined {
  const { nodes, liveByNode } = placementOf(snapshot);
  const priority = pod.spec?.priority ?? 0;
  for (const [name, there] of liveByNode) {
    const node = nodes.get(name);
    if (node === undefined || node.spec?.unschedulable === true || misfit(pod, node) !== undefined) continue;
    if (!isOpen(node)) continue;
    const lower = there.filter(({ spec }) => (spec?.priority ?? 0) < priority);
    if (lower.length === 0) continue;
    const others = there.filter(({ spec }) => (spec?.priority ?? 0) >= priority);
    const used = usedOn([...others, pod]);
    if ([...used].some(([resource, amount]) => amount > allocatableOf(node, resource))) continue;
    const example = lower[0];
    return `has priority ${priority} and would fit on ${name}, where ${example === undefined ? "" : podName(example)} has priority ${example?.spec?.priority ?? 0}`;
  }
  return undefined;
}

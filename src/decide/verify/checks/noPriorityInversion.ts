import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { type Check, type Evidence, passOrFail } from "../check.ts";
import type { ClusterSnapshot } from "../clusterSnapshot.ts";
import { placementOf, podName } from "../placement.ts";
import { allocatableOf, usedOn } from "./nodesNotOvercommitted.ts";
import { misfit, templateOf } from "./podsMatchNodes.ts";

export const noPriorityInversion: Check = {
  id: "S14",
  title: "no pod is unscheduled while pods of lower priority hold the resources it needs",
  byDefault: false,
  settles: true,
  needs: ["pods", "nodes"],
  run: ({ snapshot, tally }) => {
    const waiting = tally.unscheduled.filter(({ spec }) => (spec?.schedulingGates ?? []).length === 0);
    const evidence = inversionsOf(snapshot, waiting);
    return passOrFail(evidence, `${waiting.length} unscheduled pods`);
  },
};

/** Those of the waiting pods that would fit without pods of lower priority; `isOpen` excludes nodes. */
export function inversionsOf(
  snapshot: ClusterSnapshot,
  waiting: readonly Pod[],
  isOpen: (pod: Pod, node: Node) => boolean = () => true,
): Evidence[] {
  // Pods of one template and priority have the same result, so it is computed once.
  const answers = new Map<string, string | undefined>();
  return waiting.flatMap((pod) => {
    const key = `${pod.spec?.priority ?? 0} ${templateOf(pod)}`;
    if (!answers.has(key)) answers.set(key, lowerPriorityHolder(snapshot, pod, isOpen));
    const problem = answers.get(key);
    return problem === undefined ? [] : [{ object: podName(pod), problem }];
  });
}

/** A node on which a pod would fit without the pods of lower priority. */
function lowerPriorityHolder(
  snapshot: ClusterSnapshot,
  pod: Pod,
  isOpen: (pod: Pod, node: Node) => boolean,
): string | undefined {
  const { nodes, liveByNode } = placementOf(snapshot);
  const priority = pod.spec?.priority ?? 0;
  for (const [name, there] of liveByNode) {
    const node = nodes.get(name);
    if (node === undefined || node.spec?.unschedulable === true || misfit(pod, node) !== undefined) continue;
    if (!isOpen(pod, node)) continue;
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

import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { matchesNode } from "../../../model/objects/nodeMatch.ts";
import { isTolerated } from "../../../model/objects/taints.ts";
import { type Check, type Evidence, judged } from "../check.ts";
import { isBound, isFinished, placementOf, podName } from "../placement.ts";

export const nodesFit: Check = {
  id: "S4",
  title: "every bound pod may be on its node: selector, required affinity, taints",
  byDefault: true,
  settles: false,
  needs: ["pods", "nodes"],
  run: ({ snapshot, tally }) => {
    const { nodes } = placementOf(snapshot);
    const evidence: Evidence[] = [];
    let looked = 0;
    for (const pod of tally.pods) {
      if (!isBound(pod) || isFinished(pod) || pod.metadata.annotations?.[mirrorAnnotation] !== undefined) continue;
      const node = nodes.get(pod.spec?.nodeName ?? "");
      if (node === undefined) continue; // Reported by S2.
      looked++;
      const problem = misfit(pod, node);
      if (problem !== undefined) evidence.push({ object: podName(pod), problem });
    }
    return judged(evidence, `${looked} bound pods`);
  },
};

/** A node's static pods come from its disk and are not scheduled. */
const mirrorAnnotation = "kubernetes.io/config.mirror";

/**
 * What the cluster and its autoscalers put on a node after pods are there: it says nothing about how they came to be
 * there.
 */
const laterTaints =
  /^node\.(?:cloudprovider\.)?kubernetes\.io\/|^ToBeDeletedByClusterAutoscaler$|^karpenter\.sh\/disrupt/;

/** Why the pod should not be on the node; undefined when it may. */
export function misfit(pod: Pod, node: Node): string | undefined {
  const { name } = node.metadata;
  if (!matchesNode(pod.spec, node)) return `its node selector or required affinity does not match node ${name}`;
  for (const taint of node.spec?.taints ?? []) {
    if (taint.effect !== "NoSchedule" && taint.effect !== "NoExecute") continue;
    if (laterTaints.test(taint.key)) continue;
    if (isTolerated(taint, pod.spec?.tolerations)) continue;
    const value = taint.value === undefined || taint.value === "" ? "" : `=${taint.value}`;
    return `it does not tolerate ${taint.key}${value}:${taint.effect} of node ${name}`;
  }
  return undefined;
}

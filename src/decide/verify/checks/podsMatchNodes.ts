import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { matchesNode } from "../../../model/objects/nodeMatch.ts";
import { podRequests } from "../../../model/objects/podRequests.ts";
import { isTolerated } from "../../../model/objects/taints.ts";
import { type Check, type Evidence, passOrFail } from "../check.ts";
import { isBound, isFinished, placementOf, podName } from "../placement.ts";

export const podsMatchNodes: Check = {
  id: "S4",
  title: "every bound pod matches its node: selector, required affinity, taints",
  byDefault: true,
  settles: false,
  needs: ["pods", "nodes"],
  run: ({ snapshot, tally }) => {
    const { nodes } = placementOf(snapshot);
    const evidence: Evidence[] = [];
    let checkedPods = 0;
    for (const pod of tally.pods) {
      if (!isBound(pod) || isFinished(pod) || pod.metadata.annotations?.[mirrorAnnotation] !== undefined) continue;
      const node = nodes.get(pod.spec?.nodeName ?? "");
      if (node === undefined) continue; // Reported by S2.
      checkedPods++;
      const problem = misfit(pod, node);
      if (problem !== undefined) evidence.push({ object: podName(pod), problem });
    }
    return passOrFail(evidence, `${checkedPods} bound pods`);
  },
};

/** Static pods are started by the kubelet and are not scheduled. */
const mirrorAnnotation = "kubernetes.io/config.mirror";

/** Taints that the cluster and its autoscalers add after pods are bound; they do not show a scheduling error. */
const laterTaints =
  /^node\.(?:cloudprovider\.)?kubernetes\.io\/|^ToBeDeletedByClusterAutoscaler$|^karpenter\.sh\/disrupt/;

/** What decides about the nodes of a pod alone: pods of one template have the same answer. */
export function templateOf(pod: Pod): string {
  const requests = [...podRequests(pod)].map(([name, nano]) => [name, String(nano)]);
  return JSON.stringify([requests, pod.spec?.nodeSelector, pod.spec?.affinity?.nodeAffinity, pod.spec?.tolerations]);
}

/** Why the pod does not match the node; undefined when it does. */
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

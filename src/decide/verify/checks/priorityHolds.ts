import type { Pod } from "../../../model/kubernetes.generated.ts";
import { podRequests } from "../../../model/objects/podRequests.ts";
import { type Check, type Evidence, judged } from "../check.ts";
import { placementOf, podName } from "../placement.ts";
import { misfit } from "./nodesFit.ts";
import { allocatableOf, usedOn } from "./nodesHold.ts";

export const priorityHolds: Check = {
  id: "S14",
  title: "no pod waits for room that pods of lower priority hold",
  byDefault: false,
  settles: true,
  needs: ["pods", "nodes"],
  run: ({ snapshot, tally }) => {
    const waiting = tally.unscheduled.filter(({ spec }) => (spec?.schedulingGates ?? []).length === 0);
    const { nodes, liveByNode } = placementOf(snapshot);
    const evidence: Evidence[] = [];
    // Pods of one template ask the same question, so it is answered once.
    const answers = new Map<string, string | undefined>();
    for (const pod of waiting) {
      const priority = pod.spec?.priority ?? 0;
      const key = JSON.stringify([
        priority,
        [...podRequests(pod)].map(([name, nano]) => [name, String(nano)]),
        pod.spec?.nodeSelector,
        pod.spec?.affinity?.nodeAffinity,
        pod.spec?.tolerations,
      ]);
      if (!answers.has(key)) answers.set(key, findInversion(pod, priority));
      const found = answers.get(key);
      if (found !== undefined) evidence.push({ object: podName(pod), problem: found });
    }
    return judged(evidence, `${waiting.length} pods wait`);

    function findInversion(pod: Pod, priority: number): string | undefined {
      for (const [name, there] of liveByNode) {
        const node = nodes.get(name);
        if (node === undefined || node.spec?.unschedulable === true || misfit(pod, node) !== undefined) continue;
        const lower = there.filter(({ spec }) => (spec?.priority ?? 0) < priority);
        if (lower.length === 0) continue;
        const others = there.filter(({ spec }) => (spec?.priority ?? 0) >= priority);
        const used = usedOn([...others, pod]);
        if ([...used].some(([resource, amount]) => amount > allocatableOf(node, resource))) continue;
        const example = lower[0];
        return `priority ${priority} would fit on ${name}, where ${example === undefined ? "" : podName(example)} has priority ${example?.spec?.priority ?? 0}`;
      }
      return undefined;
    }
  },
};

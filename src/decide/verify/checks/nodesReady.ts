import { type Check, type Evidence, passOrFail } from "../check.ts";
import { isBound, isFinished, placementOf, podName } from "../placement.ts";

export const nodesReady: Check = {
  id: "S2",
  title: "the node of every bound pod exists, is Ready and is not being deleted",
  byDefault: true,
  settles: true,
  needs: ["pods", "nodes"],
  run: ({ snapshot, tally }) => {
    const { nodes } = placementOf(snapshot);
    const evidence: Evidence[] = [];
    const verdicts = new Map<string, string | undefined>();
    let bound = 0;
    for (const pod of tally.pods) {
      if (!isBound(pod) || isFinished(pod)) continue;
      bound++;
      const name = pod.spec?.nodeName ?? "";
      if (!verdicts.has(name)) verdicts.set(name, problemOf(nodes.get(name)));
      const problem = verdicts.get(name);
      if (problem !== undefined) evidence.push({ object: podName(pod), problem: `its node ${name} ${problem}` });
    }
    return passOrFail(evidence, `${bound} bound pods on ${verdicts.size} nodes`);
  },
};

type NodeLike = ReturnType<typeof placementOf>["nodes"] extends ReadonlyMap<string, infer N> ? N : never;

function problemOf(node: NodeLike | undefined): string | undefined {
  if (node === undefined) return "does not exist";
  if (node.metadata.deletionTimestamp !== undefined) return "is being deleted";
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready === undefined) return "has no Ready condition";
  return ready.status === "True" ? undefined : `is not Ready (${ready.reason ?? ready.status})`;
}

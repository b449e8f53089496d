/** The plain half of placing a pod with claims: is the node open, does it suit the pod, and is there room for its ordinary resources. */
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { matchesNode } from "../../model/objects/nodeMatch.ts";
import { nanoOf, podRequests } from "../../model/objects/podRequests.ts";
import { isTolerated } from "../../model/objects/taints.ts";
import { isFinished } from "./claims/podClaims.ts";

/** Undefined: the pod may go there. `byClaims`: resources that are served by claims and not counted here. */
export function nodeProblem(
  pod: Pod,
  node: Node,
  others: Iterable<Pod>,
  byClaims: ReadonlySet<string>,
): string | undefined {
  const isReady = node.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
  if (isReady !== true) return "node(s) were not ready";
  if (node.spec?.unschedulable === true) return "node(s) were unschedulable";
  if (!matchesNode(pod.spec, node)) return "node(s) didn't match Pod's node affinity/selector";
  for (const taint of node.spec?.taints ?? []) {
    if (taint.effect === "PreferNoSchedule" || isTolerated(taint, pod.spec?.tolerations)) continue;
    return `node(s) had untolerated taint {${taint.key}}`;
  }
  const allocatable = node.status?.allocatable ?? node.status?.capacity ?? {};
  const live = [...others].filter((other) => !isFinished(other) && other.metadata.uid !== pod.metadata.uid);
  if (live.length + 1 > Number(allocatable["pods"] ?? 110)) return "Too many pods";
  for (const [name, wanted] of podRequests(pod)) {
    if (wanted === 0n || byClaims.has(name)) continue;
    let used = 0n;
    for (const other of live) used += podRequests(other).get(name) ?? 0n;
    if (used + wanted > nanoOf(allocatable[name] ?? "0")) return `Insufficient ${name}`;
  }
  return undefined;
}

import type { Node, Taint } from "../../../model/kubernetes.generated.ts";
import type { Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { Step } from "../placement/gang.ts";
import type { Session } from "../session.ts";
import { numberText, placeText } from "./amountWords.ts";
import { type Cure, cureOf, isBound, widerLevel } from "./cure.ts";

/** By why nodes are refused, what helps where neither room nor other nodes of the same kind do. */
const otherCures: Readonly<Record<string, string>> = {
  "are ruled out by pod affinity": "a pod that its affinity asks for has to run where it may go",
  "are ruled out by pod spread": "its topologySpreadConstraints have to allow more, or nodes of other domains be added",
  "are ruled out by volume zone": "add nodes where its volumes are",
  "are ruled out by volume in use": "the pod that uses its volume has to end",
  "are ruled out by volume limit": "add nodes that can attach its volumes",
};

/** What would be enough, as it was tried. */
export function cureText(
  session: Session,
  job: Job,
  step: Step,
  reasons: ReadonlyMap<string, unknown> = new Map(),
): string {
  const cure = cureOf(session, job, step);
  const wider = widerLevel(session, job, step);
  const orWider =
    wider === undefined ? "" : `, or require ${wider} instead of ${job.root.topology?.requiredTopologyLevel}`;
  switch (cure.type) {
    case "none":
      if (isBound(job.root)) return `add nodes to the topology domain it needs${orWider}`;
      for (const [reason, what] of Object.entries(otherCures)) if (reasons.has(reason)) return what;
      return step.tasks.some(({ shape }) => shape.hasDeviceClaims)
        ? "add or release devices that its claims ask for"
        : "add nodes that match this pod: no existing node could fit it even if empty";
    case "untried":
      return `free places that it accepts, or add nodes${orWider}`;
    case "cure":
      return `${partsOf(session, cure).join(" and ")} would do${orWider}`;
  }
}

function partsOf({ cluster }: Session, { grants, gone, well, taints }: Cure): string[] {
  const parts: string[] = [];
  const cordoned = well.filter(({ node }) => node?.spec?.unschedulable === true);
  const ill = well.filter(({ node }) => node !== undefined && !isReadyNode(node));
  const strained = well.filter((node) => !cordoned.includes(node) && !ill.includes(node));
  if (cordoned.length > 0) parts.push(`${namesText(cordoned)} uncordoned`);
  if (ill.length > 0) parts.push(`${namesText(ill)} ready again`);
  if (strained.length > 0) parts.push(`${namesText(strained)} without pressure`);
  if (taints.length > 0) parts.push(`a toleration of ${taints.map(taintText).join(" and ")}`);
  if (gone.length > 0) parts.push(`${listText(gone.map(({ key }) => key))} gone`);
  const byPlace = new Map<number, { amount: number; nodes: Set<NodeState> }>();
  for (const { node, place, amount } of grants) {
    const known = byPlace.get(place) ?? { amount: 0, nodes: new Set<NodeState>() };
    known.amount += amount;
    known.nodes.add(node);
    byPlace.set(place, known);
  }
  for (const [place, { amount, nodes }] of byPlace) {
    const what = placeText(cluster.names.names[place] ?? "", place);
    parts.push(`${numberText(amount, place)} more ${what} free on ${namesText([...nodes])}`);
  }
  return parts;
}

function isReadyNode({ status }: Node): boolean {
  return status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") === true;
}

function taintText({ key, value, effect }: Taint): string {
  return `taint ${key}${value === undefined || value === "" ? "" : `=${value}`}:${effect}`;
}

function namesText(nodes: readonly NodeState[]): string {
  const names = nodes.map(({ name }) => name);
  return names.length === 1 ? names.join() : `${names.length} nodes (${listText(names)})`;
}

function listText(names: readonly string[]): string {
  return `${[...names].sort().slice(0, 3).join(", ")}${names.length > 3 ? ", ..." : ""}`;
}

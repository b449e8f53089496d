import type { Node, PersistentVolumeClaim, Pod, Taint } from "../../../model/kubernetes.generated.ts";
import type { Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { Task } from "../cluster/task.ts";
import type { Step } from "../placement/gangSteps.ts";
import type { Session } from "../session.ts";
import { numberText, placeText } from "./amountWords.ts";
import { type Cure, cureOf, isInTopology, widerLevel } from "./cure.ts";

/** The kind of reason for which a node is refused. `amount`: it lacks free resources. */
export type RefusalKind =
  | "amount"
  | "pod affinity"
  | "pod anti-affinity"
  | "pod spread"
  | "volume zone"
  | "volume binding"
  | "volume in use"
  | "volume limit"
  | "other";

/** By kind of refusal: what helps where neither free resources nor more nodes of the same kind do, in order. */
const otherCures: readonly (readonly [RefusalKind, string])[] = [
  ["pod affinity", "run a pod that its pod affinity selects, on a node that this pod can use"],
  ["pod spread", "raise maxSkew of its topologySpreadConstraints, or add nodes in other domains"],
  ["volume zone", "add nodes that its volumes can be used on, in their zones"],
  ["volume in use", "wait until the pod that uses its volume has ended"],
  ["volume limit", "add nodes that can attach its volumes"],
];

/** The change that would let a step run, as it was tried on the snapshot. */
export function cureText(
  session: Session,
  job: Job,
  step: Step,
  refusals: ReadonlySet<RefusalKind> = new Set(),
): string {
  const cure = cureOf(session, job, step);
  const wider = widerLevel(session, job, step);
  const orWider =
    wider === undefined
      ? ""
      : `, or set requiredTopologyLevel to ${wider} instead of ${job.root.topology?.requiredTopologyLevel}`;
  switch (cure.type) {
    case "none":
      if (isInTopology(job.root)) return `add nodes to the topology domain it needs${orWider}`;
      if (refusals.has("volume binding")) return volumeCure(session, step);
      for (const [kind, what] of otherCures) if (refusals.has(kind)) return what;
      for (const { pod } of step.tasks) {
        const what = selectorCure(session, pod);
        if (what !== undefined) return what;
      }
      return step.tasks.some(({ shape }) => shape.hasDeviceClaims)
        ? "add devices that match its ResourceClaims, or free some of them"
        : "add nodes that match this pod: it would not fit any existing node even if the node were empty";
    case "untried":
      return `free resources on nodes that match the pod, or add nodes${orWider}`;
    case "cure":
      return `it would fit with ${changesOf(session, job, cure).join(" and ")}${orWider}`;
  }
}

/** For a label of the node selector that no node has: which values the nodes have. */
function selectorCure({ cluster }: Session, { spec }: Pod): string | undefined {
  for (const [key, value] of Object.entries(spec?.nodeSelector ?? {})) {
    const values = new Set<string>();
    for (const { node, labels } of cluster.table.nodes) {
      const found = labels[key];
      if (node !== undefined && found !== undefined) values.add(found);
    }
    if (values.has(value)) continue;
    const known = values.size === 0 ? `no node has the label ${key}` : `nodes have ${listText([...values])}`;
    return `change the node selector ${key}=${value}, or add nodes with that label: ${known}`;
  }
  return undefined;
}

/** The claims of these pods for which a volume has to be created. */
function volumeCure({ cluster }: Session, { tasks }: Step): string {
  const wanted = tasks.flatMap((task) => cluster.volumes.openClaims(task)).map(claimText);
  const what = wanted.length === 1 ? wanted.join() : `each of these claims: ${listText([...new Set(wanted)])}`;
  return `create a PersistentVolume on a node that matches the pod, for ${what}`;
}

function claimText({ metadata, spec }: PersistentVolumeClaim): string {
  const { accessModes = [], resources, storageClassName = "" } = spec ?? {};
  const size = resources?.requests?.["storage"] ?? "any size";
  return `${metadata.namespace ?? ""}/${metadata.name} (StorageClass ${storageClassName}, ${size}, ${accessModes.join(" and ")})`;
}

function changesOf({ cluster }: Session, job: Job, { grants, deleted, repaired, taints }: Cure): string[] {
  const changes: string[] = [];
  const cordoned = repaired.filter(({ node }) => node?.spec?.unschedulable === true);
  const notReady = repaired.filter(({ node }) => node !== undefined && !isReadyNode(node));
  const underPressure = repaired.filter((node) => !cordoned.includes(node) && !notReady.includes(node));
  if (cordoned.length > 0) changes.push(`${namesText(cordoned)} uncordoned`);
  if (notReady.length > 0) changes.push(`${namesText(notReady)} ready`);
  if (underPressure.length > 0) changes.push(`${namesText(underPressure)} without pressure`);
  if (taints.length > 0) changes.push(`a toleration of ${taints.map(taintText).join(" and ")}`);
  if (deleted.length > 0) changes.push(`${podsText(deleted, job.namespace)} deleted`);
  const byPlace = new Map<number, { amount: number; nodes: Set<NodeState> }>();
  for (const { node, place, amount } of grants) {
    const known = byPlace.get(place) ?? { amount: 0, nodes: new Set<NodeState>() };
    known.amount += amount;
    known.nodes.add(node);
    byPlace.set(place, known);
  }
  for (const [place, { amount, nodes }] of byPlace) {
    const what = placeText(cluster.names.names[place] ?? "", place);
    changes.push(`${numberText(amount, place)} more ${what} free on ${namesText([...nodes])}`);
  }
  return changes;
}

/** A tenant reads the names of pods of its own namespace only. */
function podsText(pods: readonly Task[], namespace: string): string {
  const own = pods.filter((each) => each.namespace === namespace);
  const others = pods.length - own.length;
  const texts = own.length === 0 ? [] : [listText(own.map(({ key }) => key))];
  if (others > 0) texts.push(others === 1 ? "a pod of another namespace" : `${others} pods of other namespaces`);
  return texts.join(" and ");
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

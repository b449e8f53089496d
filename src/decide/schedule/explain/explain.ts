import { nanoOf } from "../../../model/objects/podRequests.ts";
import { isShared } from "../../../model/scheduling/gpuRequest.ts";
import { labelKeys } from "../../../model/scheduling/keys.ts";
import { formatTime } from "../../../model/values/time.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { barredTypes, typeBarText } from "../cluster/gpuTypes.ts";
import { type GroupNode, type Job, podSetsOf } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { gpuAt, wholeAmount } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import type { PlannedEviction } from "../cycle.ts";
import { whyRefused } from "../placement/fit.ts";
import { isReady, type Step } from "../placement/gang.ts";
import { inPlacingOrder } from "../placement/placeGang.ts";
import { placeTask, problemOf, roomForClaims } from "../placement/placeTask.ts";
import { interPodRules } from "../placement/podAffinity.ts";
import { constraintProblem } from "../placement/topologyDomains.ts";
import { memoryGate } from "../queues/gates.ts";
import type { QueueState } from "../queues/queueTree.ts";
import type { Obstacle, Session } from "../session.ts";
import { gpuText, placeText } from "./amountWords.ts";
import { isBound } from "./cure.ts";
import { cureText } from "./cureText.ts";
import { explainGate, explainQueue } from "./explainQueue.ts";
import { explainShare } from "./explainShare.ts";
import { largerThanAnyNode } from "./largestNode.ts";
import { trialBudgetOf } from "./trialBudget.ts";
import type { Verdict } from "./verdict.ts";

/**
 * Messages for what a decision found in the way of a job. Conditions, events and `muster why` use the same sentences.
 */

export function explain(session: Session, job: Job, obstacle: Obstacle): Verdict {
  switch (obstacle.type) {
    case "queue":
      return explainQueue(session.cluster, job, obstacle.why);
    case "gate":
      return explainGate(session, job, obstacle.refusal);
    case "notReady":
      return explainReadiness(job);
    case "stray":
      return explainStray(job, obstacle.task);
    case "attempted":
      return {
        reason: "PodSchedulingErrors",
        message: `group ${job.name} had its one attempt (schedulingBackoff is 1)`,
        cure: "remove its scheduling condition, or set schedulingBackoff to -1",
      };
    case "heldBack":
      return {
        reason: "BindingRefused",
        message: obstacle.why,
        cure: `it is tried again at ${formatTime(obstacle.untilMs)}`,
      };
    case "delay":
      return {
        reason: "PreemptionDelayNotElapsed",
        message: `it may not preempt before ${formatTime(obstacle.untilMs)} (preemptionDelay), and nothing is free`,
        cure: "free resources, or wait until then",
      };
    case "placement":
      return explainPlacement(session, job, obstacle);
  }
}

/** Why a pod is evicted, as its events say; for reclaim also how its own queue stands. */
export function whyEvicted({ task, reason }: PlannedEviction): string {
  const queue = task.job?.queue;
  const standing = queue === undefined ? undefined : reason.standings?.get(queue);
  return standing === undefined ? reason.why : `${reason.why} from queue ${queue?.name} (${standing})`;
}

/** What a queue has and should have of GPUs. */
export function standingText({ allocated, deserved, fairShare, priority }: QueueState): string {
  const [has, quota, share] = [allocated, deserved, fairShare].map((each) => gpuText(each[0]));
  return `${has} GPUs in use, quota ${quota}, fair share ${share}, priority ${priority}`;
}

/** Pods that name a group that is not there. */
export function explainMissingGroup(id: string): Verdict {
  if (id.includes(" ")) {
    const message = `PodGroup ${id} does not exist, and the pod's schedulingGroup names it`;
    return { reason: "PodSchedulingErrors", message, cure: "create it" };
  }
  return {
    reason: "PodSchedulingErrors",
    message: `PodGroup ${id} does not exist, and the pod's annotation pod-group-name names it`,
    cure: `create PodGroup ${id}, or remove the annotation`,
  };
}

/** Pods that no scheduler may place before their gates are removed. */
export function explainGates(tasks: Iterable<Task>): Verdict {
  const gates = new Set<string>();
  for (const { pod, status } of tasks) {
    if (status === "gated") for (const { name } of pod.spec?.schedulingGates ?? []) gates.add(name);
  }
  const names = [...gates].sort().join(", ");
  return {
    reason: "SchedulingGated",
    message: `its schedulingGates keep it from being placed: ${names}`,
    cure: `the controller that set ${names} has to remove it from spec.schedulingGates`,
  };
}

/** A pod of ours that names no group. */
export function explainUngrouped(): Verdict {
  return {
    reason: "NoGroup",
    message: "no PodGroup has been made for it yet",
    cure: "the grouper makes one, unless kai-config leaves such pods out; what keeps it from it is among the pod's events",
  };
}

/** A group of a node pool that no scheduler serves: it is in no queue. */
export function explainUnserved(pool: string, groupId: string): Verdict {
  return {
    reason: "NoScheduler",
    message: `no scheduler serves node pool ${pool}: no SchedulingShard has it as its partitionLabelValue`,
    cure: `create a SchedulingShard with partitionLabelValue ${pool}, or take the label ${labelKeys.nodePool} off PodGroup ${groupId}`,
  };
}

/** A pod that names no subgroup that there is. */
function explainStray(job: Job, { key, subGroupName }: Task): Verdict {
  const reason = "PodSchedulingErrors";
  const known = job.podSets.map(({ name }) => name);
  const detached = (job.spec.subGroups ?? []).map(({ name }) => name).filter((name) => !isInTree(job.root, name));
  if (known.length === 0 || detached.includes(subGroupName)) {
    return {
      reason,
      message: `the parents of subgroups ${detached.join(", ")} of group ${job.name} lead back to them or do not exist`,
      cure: "set their parents to subgroups that are there and not below them, or to none",
    };
  }
  const named = subGroupName === "" ? "no subgroup" : `subgroup ${subGroupName}`;
  return {
    reason,
    message: `pod ${key} names ${named}, and group ${job.name} has ${known.join(", ")}`,
    cure: `set label ${labelKeys.subGroup} of the pod to one of ${known.join(", ")}`,
  };
}

function isInTree({ name, children }: GroupNode, wanted: string): boolean {
  return name === wanted || children.some((child) => isInTree(child, wanted));
}

function explainReadiness(job: Job): Verdict {
  const parts: string[] = [];
  const cures = new Set<string>();
  const look = (node: GroupNode): void => {
    const { podSet, children, minChildren } = node;
    if (podSet !== undefined) {
      const gated = podSet.countOf("gated");
      const what = job.podSets.length > 1 ? `subgroup ${podSet.name}` : `group ${job.name}`;
      parts.push(
        `${what} waits for ${podSet.min} pods, ${podSet.alive} exist${gated > 0 ? `, ${gated} of them gated` : ""}`,
      );
      cures.add("it starts when the missing pods exist and are not gated");
      return;
    }
    if (children.length < minChildren) {
      const isRoot = node === job.root;
      const what = isRoot ? `group ${job.name}` : `subgroup ${node.name}`;
      parts.push(`${what} needs ${minChildren} of its subgroups (minSubGroup) and has ${children.length}`);
      cures.add(`set minSubGroup${isRoot ? "" : ` of ${what}`} to ${children.length} or less, or add subgroups`);
      return;
    }
    // Where enough are complete, only those matter whose pods wait for the rest of theirs.
    const isEnough = isReady(node);
    for (const child of children) {
      const hasPending = podSetsOf(child).some(({ pending }) => pending > 0);
      if (isReady(child) ? child.podSet === undefined && hasPending : !isEnough || hasPending) look(child);
    }
  };
  look(job.root);
  return { reason: "NotReady", message: parts.join("; "), cure: [...cures].join("; ") };
}

function explainPlacement(
  session: Session,
  job: Job,
  { step, placed, failed, why }: Obstacle & { type: "placement" },
): Verdict {
  const reason = "PodSchedulingErrors";
  if (failed === undefined) return { reason, message: why ?? "no node fits", cure: "" };
  const isAlone = step.tasks.length === 1 && why === undefined && isOfShape(session, job, failed);
  const told = isAlone ? explanationsOf(session).alone.get(failed.shape) : undefined;
  if (told !== undefined) return verdictAbout(failed, told);
  const { cluster } = session;
  const problem = problemOf(cluster, failed);
  if (problem !== undefined) {
    const awaitsClaims = failed.shape.hasDeviceClaims && cluster.devices.problemOf(failed)?.reason === "NotReady";
    const message = `pod ${failed.key}: ${problem}`;
    return { reason, message, cure: cureOfProblem(problem), ...(awaitsClaims && { awaitsClaims }) };
  }
  if (explanationsOf(session).total === 0) return { reason, message: "there are no nodes", cure: "add nodes" };
  const { podSet } = failed;
  const part = job.podSets.length > 1 && podSet !== undefined ? `subgroup ${podSet.name}` : "";
  const lead =
    step.tasks.length > 1
      ? `group ${job.name} needs places for ${step.tasks.length} pods at once and ${placed} were found: `
      : "";
  if (why !== undefined)
    return {
      reason,
      message: `${lead}${part === "" ? "" : `${part}: `}${why}`,
      cure: topologyCure(session, job, step, why),
    };
  const tooLarge = largerThanAnyNode(session, failed);
  if (tooLarge !== undefined) {
    const { text, cure } = tooLarge;
    if (isAlone) return verdictAbout(failed, keepAlone(session, failed, { reason, text, cure }));
    return { reason, message: `${lead}pod ${failed.key} ${text}`, cure };
  }
  const before = inPlacingOrder(job, step).slice(0, placed);
  const found = reasonsFor(session, job, failed, step, before);
  if (isAlone) return verdictAbout(failed, keepAlone(session, failed, found));
  const whose = part === "" ? "" : ` of ${part}`;
  const who = step.tasks.length > 1 ? `the next, ${failed.name}${whose},` : `pod ${failed.key}${whose}`;
  return { reason: found.reason, message: `${lead}${who} ${found.text}`, cure: found.cure };
}

/** What is wrong with a constraint is cured by another one; where room is missing, by room. */
function topologyCure(session: Session, job: Job, step: Step, why: string): string {
  const find = (node: GroupNode): string | undefined => {
    const problem = node.topology === undefined ? undefined : constraintProblem(session.cluster, node.topology);
    if (problem?.message === why) return problem.cure;
    for (const child of node.children) {
      const found = find(child);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  const found = find(job.root);
  if (found !== undefined) return found;
  return why.startsWith("no node carries")
    ? "label nodes with all levels of the topology"
    : cureText(session, job, step);
}

function cureOfProblem(problem: string): string {
  if (problem.includes("does not exist")) return `create ${problem.replace(" does not exist", "")}`;
  return problem.includes("annotation") || problem.includes("gpu-")
    ? "correct the pod's annotations"
    : "it is tried again when that changes";
}

/** How many different pods are explained node by node in one cycle; pods of one shape share an explanation. */
const explanationsMax = 64;

interface Explained {
  readonly reason: Verdict["reason"];
  /**
   * How many nodes there are, and how many of them are refused for what; the subject of the sentence comes before it.
   */
  readonly text: string;
  readonly cure: string;
}

/** Of one cycle: how many nodes there are, and what was explained. */
interface Explanations {
  readonly total: number;
  /** By shape and number of pods. */
  readonly byShape: Map<string, Explained>;
  /** Verdicts of pods that wait alone, by their shape. */
  readonly alone: Map<PodShape, Explained>;
}

const explained = new WeakMap<Session, Explanations>();
/** Verdicts of pods that wait alone, from the last cycle that explained anything. */
const lastAlone = new WeakMap<Cluster, { now: Map<PodShape, Explained>; before: Map<PodShape, Explained> }>();

function explanationsOf(session: Session): Explanations {
  let known = explained.get(session);
  if (known === undefined) {
    const { cluster } = session;
    const total = cluster.table.nodes.filter(({ node }) => node !== undefined).length;
    known = { total, byShape: new Map(), alone: new Map() };
    explained.set(session, known);
    lastAlone.set(cluster, { now: known.alone, before: lastAlone.get(cluster)?.now ?? new Map() });
  }
  return known;
}

/**
 * What is said to the next pod alone of this shape; the same object as in the cycle before when nothing has changed.
 */
function keepAlone(session: Session, { shape }: Task, found: Explained): Explained {
  const before = lastAlone.get(session.cluster)?.before.get(shape);
  const isSame = before?.reason === found.reason && before.text === found.text && before.cure === found.cure;
  const told = isSame ? before : found;
  explanationsOf(session).alone.set(shape, told);
  return told;
}

/** Thousands of pods may have the same verdict in every cycle. */
function verdictAbout(task: Task, told: Explained): Verdict {
  if (task.told?.about === told) return task.told.verdict;
  const verdict = { reason: told.reason, message: `pod ${task.key} ${told.text}`, cure: told.cure };
  task.told = { about: told, verdict };
  return verdict;
}

/**
 * Whether whatever is found about the pod holds for all of its shape: neither its queue, nor its labels, nor a topology
 * have a say.
 */
function isOfShape({ cluster }: Session, { root }: Job, task: Task): boolean {
  const { terms, queues } = cluster;
  if (root.podSet === undefined || root.topology !== undefined || queues.hasTypes) return false;
  return !task.shape.hasDeviceClaims && memoryGate(task) === undefined && !terms.matchesOthersAntiAffinity(task);
}

/** Counting shared GPUs of a node costs as much as looking at this many. */
const roomCost = 10;

/** Of a gang, the pods before the one that failed are put back for a moment: what they take is why it fails. */
function reasonsFor(session: Session, job: Job, task: Task, step: Step, before: readonly Task[]): Explained {
  const { total, byShape } = explanationsOf(session);
  // With bounds of GPUs the queue decides too, and with others around their labels or those of a topology.
  const { terms, queues } = session.cluster;
  const isOwn =
    queues.hasTypes || memoryGate(task) !== undefined || terms.matchesOthersAntiAffinity(task) || isBound(job.root);
  const isAlike = !isOwn && before.length === 0 && step.tasks.every(({ shape }) => shape === task.shape);
  const key = isAlike ? `${task.shape.id} ${step.tasks.length}` : `own ${byShape.size}`;
  let reasons = isAlike ? byShape.get(key) : undefined;
  if (reasons !== undefined) return reasons;
  if (byShape.size >= explanationsMax) {
    const untold = "it is tried again whenever something changes";
    return { reason: "PodSchedulingErrors", text: `fits 0 of ${total} nodes`, cure: untold };
  }
  const start = session.statement.checkpoint();
  for (const each of before) placeTask(session.cluster, session.statement, each);
  const { reasons: nodes, open } = nodeReasons(session, task);
  const share = trialBudgetOf(session).spend(roomCost * open.length) ? explainShare(session, task, open) : undefined;
  const bar = [...barredTypes(session.cluster, task).values()].find((each) => nodes.has(typeBarText(each)));
  session.statement.rollback(start);
  const cure =
    bar === undefined
      ? cureText(session, job, step, nodes)
      : `give queue ${bar.queue.name} a higher ${bar.bound} of ${bar.type}, or free GPUs of another type that it accepts`;
  const detailed = session.cluster.settings.showsNodesInErrors;
  const list = [...nodes]
    .filter(([text]) => share === undefined || !isOfAmounts(text))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([text, names]) => `${nodesText(names, detailed)} ${text}`);
  const others = list.join(", ");
  if (share === undefined) {
    const text = `fits 0 of ${total} nodes${others === "" ? "" : `: ${others}`}`;
    reasons = { reason: "PodSchedulingErrors", text, cure };
  } else {
    // For a pod alone it is known what less would do; of a gang each would have to ask for less.
    const own = step.tasks.length === 1 && bar === undefined ? share.cure : "";
    reasons = {
      reason: share.reason,
      text: `${share.text}${others === "" ? "" : `; besides, ${others}`}`,
      cure: own === "" ? cure : share.reason === "NodeFull" ? own : `${cure}, or ${own}`,
    };
  }
  byShape.set(key, reasons);
  return reasons;
}

/** More names than these would not be read. */
const namesMax = 20;

/** Counted, or by name where a shard wants to see them. */
function nodesText(names: readonly string[], isDetailed: boolean): string {
  if (!isDetailed) return `${names.length} node(s)`;
  const shown = [...names].sort().slice(0, namesMax).join(", ");
  return names.length > namesMax ? `${shown} and ${names.length - namesMax} more` : shown;
}

/** Whether it is amounts that a node lacks. */
function isOfAmounts(text: string): boolean {
  return text.startsWith(lackText) || text === noGpuText;
}

const lackText = "have not enough ";
const noGpuText = "have no GPU with enough memory left";
/** Perhaps it is the one that could be shared: such a node gives no share at all. */
const failedGpuText = "have a failed GPU: more are in use than they have left";

/** Why each node is refused: nodes by reason, and those that nothing but room keeps it from. */
function nodeReasons(session: Session, task: Task): { reasons: Map<string, string[]>; open: NodeState[] } {
  const open: NodeState[] = [];
  const { cluster } = session;
  const { table, fit, names } = cluster;
  const reasons = new Map<string, string[]>();
  let on = "";
  const add = (text: string): void => {
    const known = reasons.get(text);
    if (known === undefined) reasons.set(text, [on]);
    else known.push(on);
  };
  const { shape } = task;
  const rules = cluster.terms.isEmpty && shape.isLocal ? undefined : interPodRules(task, cluster.terms, fit);
  const bars = barredTypes(cluster, task);
  const gate = memoryGate(task);
  for (const node of table.nodes) {
    const at = node.index;
    on = node.name;
    const refusedBy = whyRefused(shape.where, node);
    if (refusedBy === "gone") continue;
    if (refusedBy !== undefined) {
      add(refusalText[refusedBy]);
      continue;
    }
    if (!fit.accepts(shape, at)) {
      add("do not give GPUs in the form it asks for");
      continue;
    }
    const bar = bars.get(node.gpuType);
    if (bar !== undefined) {
      add(typeBarText(bar));
      continue;
    }
    const beyond = gate?.(node);
    if (beyond !== undefined) {
      add(`would take queue ${beyond.name} beyond its bound of gpu: the memory is more of a GPU there`);
      continue;
    }
    open.push(node);
    const lack = lackOf(session, task, node);
    if (lack !== undefined) {
      const name = names.names[lack] ?? "";
      const isOverhead = fitsWithoutOverhead(session, task, node, lack, name);
      add(`${lackText}${placeText(name, lack)}${isOverhead ? " for the pod's overhead" : ""}`);
      continue;
    }
    if (shape.hostPorts.length > 0 && fit.score(shape, at) < 0) add("have the port in use");
    else if (isShared(shape.gpu) && (table.idle[gpuAt]?.[at] ?? 0) < 0) add(failedGpuText);
    else if (isShared(shape.gpu) && fit.score(shape, at) < 0) add(noGpuText);
    else if (rules?.refuses(at) !== undefined) add(`are ruled out by pod ${rules.refuses(at)}`);
    else if (shape.volumeClaims.length > 0 && cluster.volumes.refuses(task, node) !== undefined) {
      add(`are ruled out by ${cluster.volumes.refuses(task, node)}`);
    } else if (shape.hasDeviceClaims) {
      const verdict = cluster.devices.fit(task, node);
      if (!verdict.ok) add(verdict.why);
      else if (roomForClaims(cluster, node, verdict.units) === "none")
        add("have given their GPUs to pods by the device plugin");
    } else if (isBound(task.job?.root) && fit.score(shape, at) >= 0)
      add("lie outside of the domain that it was tried in");
    else add("are promised to others");
  }
  return { reasons, open };
}

/** Whether the node has enough for the containers, and it is the overhead of the runtime class that is too much. */
function fitsWithoutOverhead(
  { cluster }: Session,
  { pod, shape }: Task,
  node: NodeState,
  place: number,
  name: string,
): boolean {
  const overhead = pod.spec?.overhead?.[name];
  if (overhead === undefined) return false;
  const wants = shape.amounts[shape.places.indexOf(place)] ?? 0;
  return wants - wholeAmount(name, nanoOf(overhead)) <= (cluster.table.idle[place]?.[node.index] ?? 0);
}

const refusalText = {
  unhealthy: "are not ready or cordoned",
  taint: "have taints that it does not tolerate",
  affinity: "do not match its node selector or affinity",
} as const;

function lackOf({ cluster }: Session, { shape }: Task, node: NodeState): number | undefined {
  const { idle } = cluster.table;
  for (const [k, place] of shape.places.entries()) {
    const has = Math.max(0, idle[place]?.[node.index] ?? 0);
    const wants = shape.amounts[k] ?? 0;
    if (has < wants) return place;
  }
  return undefined;
}

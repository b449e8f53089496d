import { gangGate, labels as gangLabels } from "../../../model/gang/keys.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { nanoOf } from "../../../model/objects/podRequests.ts";
import { isShared } from "../../../model/scheduling/gpuRequest.ts";
import { labelKeys } from "../../../model/scheduling/keys.ts";
import { formatTime } from "../../../model/values/time.ts";
import type { RefusalReason } from "../../devices/refusalReason.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { barredTypes, type TypeBar, typeBarText } from "../cluster/gpuTypes.ts";
import { type GroupNode, type Job, podSetsOf } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { PodShape } from "../cluster/podShape.ts";
import { gpuAt, wholeAmount } from "../cluster/resources.ts";
import type { Task } from "../cluster/task.ts";
import type { PlannedEviction } from "../cycle.ts";
import { whyRefused } from "../placement/fit.ts";
import { isReady, type Step } from "../placement/gangSteps.ts";
import { inPlacingOrder } from "../placement/placeStep.ts";
import { placeTask, problemOf, roomForClaims } from "../placement/placeTask.ts";
import { interPodRules } from "../placement/podAffinity.ts";
import { memoryGate } from "../queues/gates.ts";
import type { QueueState } from "../queues/queueTree.ts";
import type { Obstacle, Session } from "../session.ts";
import { gpuText, placeText } from "./amountWords.ts";
import { isInTopology } from "./cure.ts";
import { cureText, type RefusalKind } from "./cureText.ts";
import { explainGate, explainQueue } from "./explainQueue.ts";
import { explainShare } from "./explainShare.ts";
import { largerThanAnyNode } from "./largestNode.ts";
import { trialBudgetOf } from "./trialBudget.ts";
import type { Verdict } from "./verdict.ts";

/** The message for an obstacle. Conditions, events and `muster why` use the same sentences. */
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
    case "fault":
      return explainFault();
    case "backOff":
      return {
        reason: "BindingRefused",
        message: obstacle.why,
        cure: `binding is retried at ${formatTime(obstacle.untilMs)}`,
      };
    case "delay":
      return {
        reason: "PreemptionDelayNotElapsed",
        message: `it may not preempt before ${formatTime(obstacle.untilMs)} (preemptionDelay), and no node has enough free resources`,
        cure: "free resources, or wait until then",
      };
    case "placement":
      return explainPlacement(session, job, obstacle);
  }
}

/** For a job that a cycle failed on. */
export function explainFault(): Verdict {
  return {
    reason: "PodSchedulingErrors",
    message: "the scheduler stopped at an internal error on this job, and goes on without it",
    cure: "it is tried again when it changes, and with back-off; the scheduler's log has the cause",
  };
}

/** Why a pod is evicted, as in its event; for reclaim also the usage of its own queue. */
export function whyEvicted({ task, reason }: PlannedEviction): string {
  const queue = task.job?.queue;
  const standing = queue === undefined ? undefined : reason.standings?.get(queue);
  return standing === undefined ? reason.why : `${reason.why} from queue ${queue?.name} (${standing})`;
}

/** The GPUs of a queue: in use, quota, fair share. */
export function standingText({ allocated, deserved, fairShare, priority }: QueueState): string {
  const [has, quota, share] = [allocated, deserved, fairShare].map((each) => gpuText(each[0]));
  return `${has} GPUs in use, quota ${quota}, fair share ${share}, priority ${priority}`;
}

/** For pods whose PodGroup does not exist. */
export function explainMissingGroup(id: string): Verdict {
  if (id.includes(" ")) {
    const message = `PodGroup ${id} does not exist, and the pod's schedulingGroup names it`;
    return { reason: "PodSchedulingErrors", message, cure: `create PodGroup ${id.split(" ", 1)[0]}` };
  }
  return {
    reason: "PodSchedulingErrors",
    message: `PodGroup ${id} does not exist, and the pod's annotation pod-group-name names it`,
    cure: `create PodGroup ${id}, or remove the annotation`,
  };
}

/** For gated pods. */
export function explainGates(tasks: Iterable<Task>): Verdict {
  const gates = new Set<string>();
  const cures = new Set<string>();
  for (const { pod, status } of tasks) {
    if (status !== "gated") continue;
    for (const { name } of pod.spec?.schedulingGates ?? []) {
      gates.add(name);
      if (name === gangGate) cures.add(gangGateCure(pod));
    }
  }
  const names = [...gates].sort();
  const others = names.filter((name) => name !== gangGate).join(", ");
  if (others !== "") cures.add(`the controller that set ${others} has to remove it from spec.schedulingGates`);
  return {
    reason: "SchedulingGated",
    message: `it has schedulingGates: ${names.join(", ")}`,
    cure: [...cures].join("; "),
  };
}

/** The gang operator removes its gate from the pods of a scaled gang when the base gang is scheduled. */
function gangGateCure({ metadata }: Pod): string {
  const base = metadata.labels?.[gangLabels.basePodGang];
  const see = "`muster gangs` shows what it waits for";
  if (base !== undefined) return `the gang operator removes it when gang ${base} has its minimum scheduled; ${see}`;
  const own = metadata.labels?.[gangLabels.podGang] ?? "the pod";
  return `the gang operator removes it when all pods of gang ${own} exist; ${see}`;
}

/** For a pod of `kai-scheduler` without a PodGroup. */
export function explainUngrouped(): Verdict {
  return {
    reason: "NoGroup",
    message: "its PodGroup has not been created yet",
    cure: "the pod grouper creates it, unless a selector in kai-config excludes the pod; errors are in the pod's events",
  };
}

/** For a group of a node pool that no scheduler serves. */
export function explainUnserved(pool: string, groupId: string): Verdict {
  return {
    reason: "NoScheduler",
    message: `no scheduler serves node pool ${pool}: no SchedulingShard has it as its partitionLabelValue`,
    cure: `create a SchedulingShard with partitionLabelValue ${pool}, or remove the label ${labelKeys.nodePool} from PodGroup ${groupId}`,
  };
}

/** For a pod whose subgroup does not exist. */
function explainStray(job: Job, { key, subGroupName }: Task): Verdict {
  const reason = "PodSchedulingErrors";
  const known = job.podSets.map(({ name }) => name);
  const detached = (job.spec.subGroups ?? []).map(({ name }) => name).filter((name) => !isInTree(job.root, name));
  if (known.length === 0 || detached.includes(subGroupName)) {
    return {
      reason,
      message: `the parents of subgroups ${detached.join(", ")} of group ${job.name} form a cycle or do not exist`,
      cure: "set their parent to an existing subgroup that is not their descendant, or remove it",
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
    // If enough subgroups are complete, only incomplete ones with pending pods are reported.
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
  if (failed === undefined) return { reason, message: why?.message ?? "no node fits", cure: "" };
  const isAlone = step.tasks.length === 1 && why === undefined && isOfShape(session, job, failed);
  const explained = isAlone ? explanationsOf(session).alone.get(failed.shape) : undefined;
  if (explained !== undefined) return verdictAbout(failed, explained);
  const { cluster } = session;
  const problem = problemOf(cluster, failed);
  if (problem !== undefined) {
    const { message, ...rest } = problem;
    return { reason, message: `pod ${failed.key}: ${message}`, ...rest };
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
      message: `${lead}${part === "" ? "" : `${part}: `}${why.message}`,
      cure: why.cure ?? cureText(session, job, step),
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
  const { text, ...rest } = found;
  return { ...rest, message: `${lead}${who} ${text}` };
}

/** How many different pods are explained node by node in one cycle; pods of one shape share an explanation. */
const explanationsMax = 64;

interface Explained {
  readonly reason: Verdict["reason"];
  /** The number of nodes by the reason of their refusal, as the predicate of a sentence about the pod. */
  readonly text: string;
  readonly cure: string;
  readonly refusal?: RefusalReason;
}

/** The explanations of one cycle. */
interface Explanations {
  /** The number of nodes. */
  readonly total: number;
  /** By shape and number of pods. */
  readonly byShape: Map<string, Explained>;
  /** Explanations of pending pods without a gang, by their shape. */
  readonly alone: Map<PodShape, Explained>;
}

const explained = new WeakMap<Session, Explanations>();
/** The same of the last cycle that explained anything. */
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
 * Keeps the explanation for further pods of this shape; returns the object of the last cycle if nothing has changed.
 */
function keepAlone(session: Session, { shape }: Task, found: Explained): Explained {
  const before = lastAlone.get(session.cluster)?.before.get(shape);
  const isSame =
    before?.reason === found.reason &&
    before.text === found.text &&
    before.cure === found.cure &&
    before.refusal === found.refusal;
  const explained = isSame ? before : found;
  explanationsOf(session).alone.set(shape, explained);
  return explained;
}

/** Reuses the last verdict of the pod: thousands of pods may have the same one in every cycle. */
function verdictAbout(task: Task, explained: Explained): Verdict {
  if (task.lastVerdict?.about === explained) return task.lastVerdict.verdict;
  const { text, ...rest } = explained;
  const verdict = { ...rest, message: `pod ${task.key} ${text}` };
  task.lastVerdict = { about: explained, verdict };
  return verdict;
}

/**
 * Whether an explanation of the pod holds for all pods of its shape: neither its queue, nor its labels, nor a topology
 * influence it.
 */
function isOfShape({ cluster }: Session, { root }: Job, task: Task): boolean {
  const { terms, queues } = cluster;
  if (root.podSet === undefined || root.topology !== undefined || queues.hasTypes) return false;
  return !task.shape.hasDeviceClaims && memoryGate(task) === undefined && !terms.matchesOthersAntiAffinity(task);
}

/** Counting the shared GPUs of a node costs as much as checking this many nodes. */
const roomCost = 10;

/** For a gang, the pods before the one that failed are placed again first: they hold what the failed pod lacks. */
function reasonsFor(session: Session, job: Job, task: Task, step: Step, before: readonly Task[]): Explained {
  const { total, byShape } = explanationsOf(session);
  // Bounds of GPU types depend on the queue, anti-affinity on labels, and domains on the job's topology.
  const { terms, queues } = session.cluster;
  const isOwn =
    queues.hasTypes ||
    memoryGate(task) !== undefined ||
    terms.matchesOthersAntiAffinity(task) ||
    isInTopology(job.root);
  const isAlike = !isOwn && before.length === 0 && step.tasks.every(({ shape }) => shape === task.shape);
  const key = isAlike ? `${task.shape.id} ${step.tasks.length}` : `own ${byShape.size}`;
  let reasons = isAlike ? byShape.get(key) : undefined;
  if (reasons !== undefined) return reasons;
  if (byShape.size >= (session.cluster.settings.retryLimits?.jobsMax ?? explanationsMax)) {
    session.unexplained.add(job);
    const cure = "scheduling is retried when the cluster changes";
    return { reason: "PodSchedulingErrors", text: `fits 0 of ${total} nodes`, cure };
  }
  const start = session.statement.checkpoint();
  for (const each of before) placeTask(session.cluster, session.statement, each);
  const { reasons: nodes, open } = nodeReasons(session, task);
  const share = trialBudgetOf(session).spend(roomCost * open.length) ? explainShare(session, task, open) : undefined;
  const bar = [...nodes.values()].find((each) => each.bar !== undefined)?.bar;
  session.statement.rollback(start);
  const kinds = new Set([...nodes.values()].map(({ kind }) => kind));
  const cure =
    bar === undefined
      ? cureText(session, job, step, kinds)
      : `give queue ${bar.queue.name} a higher ${bar.bound} of ${bar.type}, or free GPUs of another type that the pod can use`;
  const detailed = session.cluster.settings.showsNodesInErrors;
  const list = [...nodes]
    .filter(([, { kind }]) => share === undefined || kind !== "amount")
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([text, { names }]) => `${nodesText(names, detailed)} ${text}`);
  const others = list.join(", ");
  if (share === undefined) {
    const text = `fits 0 of ${total} nodes${others === "" ? "" : `: ${others}`}`;
    const refusal = mostFrequentRefusal([...nodes.values()]);
    reasons = { reason: "PodSchedulingErrors", text, cure, ...(refusal && { refusal }) };
  } else {
    // The smaller request that would fit is known for a single pod; in a gang every pod would have to request less.
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

function mostFrequentRefusal(refused: readonly RefusedNodes[]): RefusalReason | undefined {
  const byCount = refused
    .filter(({ refusal }) => refusal !== undefined)
    .sort((a, b) => b.names.length - a.names.length);
  return byCount[0]?.refusal;
}

/** The number of node names in a message. */
const namesMax = 20;

/** The number of nodes, or their names where a shard sets `detailed-fit-errors`. */
function nodesText(names: readonly string[], isDetailed: boolean): string {
  if (!isDetailed) return `${names.length} node(s)`;
  const shown = [...names].sort().slice(0, namesMax).join(", ");
  return names.length > namesMax ? `${shown} and ${names.length - namesMax} more` : shown;
}

/** Nodes that are refused for the same reason. */
export interface RefusedNodes {
  readonly kind: RefusalKind;
  readonly names: string[];
  /** The bound of a GPU type that refuses them. */
  readonly bar?: TypeBar;
  /** Why claims get no devices on them. */
  readonly refusal?: RefusalReason;
}

/**
 * Why each node is refused, by the text of the reason; `open` are the nodes that lack nothing but free resources. A
 * node with a failed GPU offers no share at all, because the failed GPU may be the shared one.
 */
export function nodeReasons(session: Session, task: Task): { reasons: Map<string, RefusedNodes>; open: NodeState[] } {
  const open: NodeState[] = [];
  const { cluster } = session;
  const { table, fit, names } = cluster;
  const reasons = new Map<string, RefusedNodes>();
  let on = "";
  const add = (text: string, kind: RefusalKind = "other", more: Pick<RefusedNodes, "bar" | "refusal"> = {}): void => {
    const known = reasons.get(text);
    if (known === undefined) reasons.set(text, { kind, names: [on], ...more });
    else known.names.push(on);
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
      add("do not offer GPUs in the requested form");
      continue;
    }
    const bar = bars.get(node.gpuType);
    if (bar !== undefined) {
      add(typeBarText(bar), "other", { bar });
      continue;
    }
    const beyond = gate?.(node);
    if (beyond !== undefined) {
      add(`have smaller GPUs, on which the requested memory would exceed the GPU bound of queue ${beyond.name}`);
      continue;
    }
    open.push(node);
    const lack = lackOf(session, task, node);
    if (lack !== undefined) {
      const name = names.names[lack] ?? "";
      const isOverhead = fitsWithoutOverhead(session, task, node, lack, name);
      add(`do not have enough ${placeText(name, lack)}${isOverhead ? " for the pod's overhead" : ""}`, "amount");
      continue;
    }
    const podRule = rules?.refuses(at);
    const volumeRule = shape.volumeClaims.length > 0 ? cluster.volumes.refuses(task, node) : undefined;
    if (shape.hostPorts.length > 0 && fit.score(shape, at) < 0) add("have a requested host port in use");
    else if (isShared(shape.gpu) && (table.idle[gpuAt]?.[at] ?? 0) < 0)
      add("have a failed GPU: more are in use than exist");
    else if (isShared(shape.gpu) && fit.score(shape, at) < 0) add("have no GPU with enough memory left", "amount");
    else if (podRule !== undefined) add(`are ruled out by pod ${podRule}`, `pod ${podRule}`);
    else if (volumeRule === "volume binding") add("have no free PersistentVolume for its claims", volumeRule);
    else if (volumeRule !== undefined) add(`are ruled out by ${volumeRule}`, volumeRule);
    else if (shape.hasDeviceClaims) {
      const verdict = cluster.devices.fit(task, node);
      if (!verdict.ok) add(verdict.why, "other", { refusal: verdict.reason });
      else if (roomForClaims(cluster, node, verdict.units) === "none")
        add("have their GPUs allocated by the device plugin");
    } else if (isInTopology(task.job?.root) && fit.score(shape, at) >= 0)
      add("are outside of the topology domain that was tried");
    else add("are nominated to other pods");
  }
  return { reasons, open };
}

/** Whether the node has enough for the containers, but not for the overhead of the runtime class. */
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

import { nanoOf } from "../../../model/objects/podRequests.ts";
import { defaultSchedulerName, kaiSchedulerName, labelKeys, scalingNamespace } from "../../../model/scheduling/keys.ts";
import type { Queue } from "../../../model/scheduling/queue.ts";
import { timeToMs } from "../../../model/values/time.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { GroupNode, Job } from "../cluster/job.ts";
import { isPlainGang } from "../cluster/plainGang.ts";
import { gpuAt, gpuMaker, wholeCapacity } from "../cluster/resources.ts";
import { isAllocatedStatus, type Task } from "../cluster/task.ts";
import { cycle, type Plan } from "../cycle.ts";
import { ClassAmounts, classesOfQueues } from "../queues/classAmounts.ts";
import { QueueState } from "../queues/queueTree.ts";
import { gpuText } from "./amountWords.ts";
import {
  explain,
  explainFault,
  explainGates,
  explainMissingGroup,
  explainUngrouped,
  explainUnserved,
} from "./explain.ts";
import { orphanText } from "./explainQueue.ts";
import { sentenceOf, type Verdict } from "./verdict.ts";

/** One row of `muster q`. */
export interface JobRow {
  readonly id: string;
  readonly queue: string;
  readonly priority: number;
  readonly gpus: string;
  /** Placed, minimum and all. */
  readonly gang: string;
  readonly state: "Pending" | "Running" | "Waiting" | "Binding";
  readonly reason: string;
  readonly message: string;
  readonly namespace: string;
  /** The name of the workload: that of the owner of the group, else of the group or pod. */
  readonly workload: string;
  readonly createdMs: number;
}

/** The result of a trial cycle: its plan, and why the other jobs are pending. */
interface Findings {
  readonly plan: Plan;
  readonly verdictOf: (job: Job) => Verdict | undefined;
}

function findingsOf(cluster: Cluster, nowMs: number): Findings {
  const verdicts = new Map<Job, Verdict>();
  const plan = cycle(cluster, nowMs, (session) => {
    for (const [job, obstacle] of session.obstacles)
      verdicts.set(
        job,
        session.guarded(job, explainFault(), () => explain(session, job, obstacle)),
      );
  });
  const isGated = (job: Job): boolean => job.pendingCount === 0 && isWaiting(job);
  if (!cluster.isUnserved) {
    return { plan, verdictOf: (job) => verdicts.get(job) ?? (isGated(job) ? explainGates(job.tasks) : undefined) };
  }
  const nothing: Plan = { ...plan, jobs: [], evictions: [] };
  const verdictOf = (job: Job): Verdict | undefined =>
    isWaiting(job) ? explainUnserved(cluster.settings.nodePool, job.id) : undefined;
  return { plan: nothing, verdictOf };
}

/** Whether the job has pods that should be placed and are not. */
function isWaiting(job: Job): boolean {
  if (job.pendingCount > 0 || job.waitingStray !== undefined) return true;
  return job.podSets.some((set) => set.countOf("gated") > 0);
}

/** Pending pods without a job: their group does not exist, or was not created yet. */
function* ungrouped({ tasks }: Cluster): Iterable<{ id: string; tasks: readonly Task[]; verdict: Verdict }> {
  const byGroup = new Map<string, Task[]>();
  for (const task of tasks.values()) {
    if (task.status !== "pending" || task.job !== undefined || task.isReservation) continue;
    const id = task.waitsForGroup;
    if (id === undefined) {
      if (!task.isForeign && task.namespace !== scalingNamespace)
        yield { id: task.key, tasks: [task], verdict: explainUngrouped() };
      continue;
    }
    const known = byGroup.get(id);
    if (known === undefined) byGroup.set(id, [task]);
    else known.push(task);
  }
  for (const [id, each] of byGroup) yield { id, tasks: each, verdict: explainMissingGroup(id) };
}

/** Every pending job, or with `isAll` every job, in the order in which they are tried. */
export function jobRows(cluster: Cluster, nowMs: number, isAll = false): JobRow[] {
  const { plan, verdictOf } = findingsOf(cluster, nowMs);
  const planned = new Map<Job, string>();
  for (const { job, binds, pipelined } of plan.jobs) {
    planned.set(job, binds.length > 0 ? "fits now" : pipelined.length > 0 ? "waits for a release" : "");
  }
  const rows: JobRow[] = [];
  for (const job of [...cluster.jobs.values()].sort(byLine)) {
    const waits = isWaiting(job);
    if (!waits && (!isAll || job.allocatedCount === 0)) continue;
    const verdict = verdictOf(job);
    const binding = job.podSets.some((set) => set.countOf("binding") > 0);
    rows.push({
      id: job.isGroup ? job.id : `${job.namespace}/${job.name}`,
      queue: job.queueName,
      priority: job.priority,
      gpus: gpuText((cluster.pendingVector(job)[0] ?? 0) + (job.allocated[0] ?? 0)),
      gang: `${job.allocatedCount}/${leastPods(job.root)}/${job.tasks.size}`,
      state: waits
        ? planned.get(job) === "waits for a release"
          ? "Waiting"
          : "Pending"
        : binding
          ? "Binding"
          : "Running",
      reason: verdict?.reason ?? planned.get(job) ?? "",
      message: verdict === undefined ? "" : sentenceOf(verdict),
      namespace: job.namespace,
      workload: workloadOf(job),
      createdMs: job.createdMs,
    });
  }
  for (const { id, tasks, verdict } of ungrouped(cluster)) {
    let milli = 0;
    for (const task of tasks) milli += cluster.vectorOf(task, cluster.gpuMemoryRange().leastMiB)[0];
    rows.push({
      id,
      queue: "",
      priority: 0,
      gpus: gpuText(milli),
      gang: `0/-/${tasks.length}`,
      state: "Pending",
      reason: verdict.reason,
      message: sentenceOf(verdict),
      namespace: tasks[0]?.namespace ?? "",
      workload: tasks[0]?.name ?? id,
      createdMs: timeToMs(tasks[0]?.pod.metadata.creationTimestamp) ?? nowMs,
    });
  }
  return rows;
}

/** The number of pods with which it starts: of optional subgroups, the smallest. */
function leastPods({ podSet, children, minChildren }: GroupNode): number {
  if (podSet !== undefined) return podSet.min;
  const least = children.map(leastPods).sort((a, b) => a - b);
  return least.slice(0, minChildren).reduce((sum, count) => sum + count, 0);
}

/** The name of the workload: that of the owner of the group, else of the group or pod. */
export function workloadOf({ name, owner }: Job): string {
  return (owner.metadata.ownerReferences ?? []).find(({ kind }) => kind !== "Pod")?.name ?? name;
}

function byLine(a: Job, b: Job): number {
  return (
    (a.queueName < b.queueName ? -1 : a.queueName > b.queueName ? 1 : 0) ||
    b.priority - a.priority ||
    a.createdMs - b.createdMs ||
    (a.id < b.id ? -1 : 1)
  );
}

export interface QueueRow {
  readonly name: string;
  readonly depth: number;
  readonly priority: number;
  readonly quota: string;
  readonly limit: string;
  readonly fairShare: string;
  readonly allocated: string;
  readonly requested: string;
  /** Usage beyond the quota, which other queues may reclaim. */
  readonly borrowed: string;
  readonly pending: number;
  /** GPUs of claims by device class, as the queue's status has them; they are among those of the other columns. */
  readonly classes: { readonly allocated: ClassCounts; readonly requested: ClassCounts };
  /** Why the queue is not in the tree; empty if it is. */
  readonly note: string;
}

/** The tree of queues with their GPUs, parents before children. */
export function queueRows(cluster: Cluster, nowMs: number): QueueRow[] {
  cycle(cluster, nowMs);
  const pending = new Map<QueueState, number>();
  for (const job of cluster.waiting) {
    for (const queue of job.queue?.path() ?? []) pending.set(queue, (pending.get(queue) ?? 0) + 1);
  }
  const classes = classesOfQueues(cluster);
  const rows: QueueRow[] = [];
  const walk = (queues: readonly QueueState[], depth: number): void => {
    for (const queue of [...queues].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const deserved = queue.deserved[0];
      rows.push({
        name: queue.name,
        depth,
        priority: queue.priority,
        quota: gpuText(deserved),
        limit: gpuText(queue.limit[0]),
        fairShare: gpuText(queue.fairShare[0]),
        allocated: gpuText(queue.allocated[0]),
        requested: gpuText(queue.request[0]),
        borrowed: gpuText(deserved < 0 ? 0 : Math.max(0, queue.allocated[0] - deserved)),
        pending: pending.get(queue) ?? 0,
        classes: countsOf(classes.get(queue)),
        note: "",
      });
      walk(queue.children, depth + 1);
    }
  };
  walk(cluster.queues.roots, 0);
  for (const [name, orphan] of [...cluster.queues.orphans].sort(([a], [b]) => (a < b ? -1 : 1))) {
    rows.push(orphanRow(cluster, name, orphan.queue));
  }
  return rows;
}

type ClassCounts = Readonly<Record<string, number>>;

function countsOf(amounts: ClassAmounts = new ClassAmounts()): QueueRow["classes"] {
  return { allocated: Object.fromEntries(amounts.allocated), requested: Object.fromEntries(amounts.requested) };
}

/** The row of a queue that is not in the tree: the usage and requests of its workloads are counted here only. */
function orphanRow(cluster: Cluster, name: string, queue: Queue): QueueRow {
  const { priority, deserved, limit } = new QueueState(queue);
  const jobs = [...cluster.jobs.values()].filter((job) => job.queueName === name);
  let allocated = 0;
  let asked = 0;
  const classes = new ClassAmounts();
  for (const job of jobs) {
    for (const task of job.tasks) {
      if (task.shape.hasDeviceClaims) classes.add(cluster, task);
      const [milli] = cluster.vectorOf(task, cluster.gpuMemoryRange().leastMiB);
      if (isAllocatedStatus[task.status]) allocated += milli;
      else if (task.status === "pending") asked += milli;
    }
  }
  return {
    name,
    depth: 0,
    priority,
    quota: gpuText(deserved[0]),
    limit: gpuText(limit[0]),
    fairShare: "0",
    allocated: gpuText(allocated),
    requested: gpuText(allocated + asked),
    borrowed: gpuText(deserved[0] < 0 ? 0 : Math.max(0, allocated - deserved[0])),
    pending: jobs.filter((job) => job.pendingCount > 0).length,
    classes: countsOf(classes),
    note: orphanText(cluster, name),
  };
}

export interface NodeRow {
  readonly type: string;
  readonly nodes: number;
  /** All GPUs, whatever their state. */
  readonly total: number;
  readonly free: number;
  /** Nodes with all of their GPUs free. */
  readonly fullNodes: number;
  /** The largest number of GPUs that one pod could get. */
  readonly maxReservable: number;
  /** GPUs of nodes that are cordoned. */
  readonly drained: number;
  /** GPUs that have failed or are withdrawn, and all GPUs of unhealthy nodes. */
  readonly bad: number;
}

/** GPUs by the type of node. */
export function nodeRows(cluster: Cluster, nowMs: number): NodeRow[] {
  cluster.refresh(nowMs);
  cluster.beginDevices(nowMs);
  const rows = new Map<string, { -readonly [K in keyof NodeRow]: NodeRow[K] }>();
  for (const state of cluster.table.nodes) {
    const { node, labels, capacity, index, isHealthy } = state;
    if (node === undefined) continue;
    const usable = capacity[gpuAt] ?? 0;
    const total = Math.max(usable, gpusOf(node.status?.capacity));
    const type = labels[labelKeys.gpuProduct] ?? (total > 0 ? "GPU" : "no GPU");
    const row = rows.get(type) ?? {
      type,
      nodes: 0,
      total: 0,
      free: 0,
      fullNodes: 0,
      maxReservable: 0,
      drained: 0,
      bad: 0,
    };
    rows.set(type, row);
    row.nodes++;
    row.total += total;
    if (node.spec?.unschedulable === true) row.drained += total;
    else if (!isHealthy) row.bad += total;
    else {
      row.bad += total - usable;
      const free = Math.max(0, cluster.table.idle[gpuAt]?.[index] ?? 0);
      row.free += free;
      row.maxReservable = Math.max(row.maxReservable, free);
      if (total > 0 && free === total) row.fullNodes++;
    }
  }
  return [...rows.values()].sort((a, b) => (a.type < b.type ? -1 : 1));
}

function gpusOf(amounts: Readonly<Record<string, string>> = {}): number {
  let sum = 0;
  for (const [name, text] of Object.entries(amounts))
    if (gpuMaker(name) !== 0) sum += wholeCapacity(name, nanoOf(text));
  return sum;
}

/** The answer of `muster why` about a pod or a group. */
export interface WhyAnswer {
  readonly name: string;
  /** Pod, PodGroup, or the kind of a workload that has no pods. */
  readonly kind: string;
  readonly state: string;
  readonly reason: string;
  readonly message: string;
  readonly cure: string;
  /** What the scheduler would do next, where it would do something. */
  readonly next: string;
}

/** Empty if nothing has the name. A name without a namespace is searched in all namespaces. */
export function answerWhy(cluster: Cluster, name: string, nowMs: number): WhyAnswer[] {
  const tasks = [...cluster.tasks.values()].filter((task) => task.key === name || task.name === name);
  // A group may be asked for by its own name or by that of its workload.
  const jobs = [...cluster.jobs.values()].filter(
    (job) => (job.isGroup || isPlainGang(job)) && namesOf(job).includes(name),
  );
  const { plan, verdictOf } = findingsOf(cluster, nowMs);
  const missing = [...ungrouped(cluster)];
  const answers: WhyAnswer[] = [];
  const nextOf = (job: Job | undefined, task?: Task): string => {
    const planned = plan.jobs.find((each) => each.job === job);
    const bind = planned?.binds.find((each) => task === undefined || each.task === task);
    if (bind !== undefined) return `it fits ${bind.node} now${proviso(cluster, bind.task)}`;
    const promised = planned?.pipelined.find((each) => task === undefined || each.task === task);
    if (promised === undefined) return "";
    const evictions = plan.evictions.filter(({ reason }) => reason.evictor === job).map((each) => each.task.key);
    return `it gets ${promised.node} when what is being released there is free${evictions.length > 0 ? `; to be evicted: ${evictions.join(", ")}` : ""}`;
  };
  const wordsOf = (verdict: Verdict | undefined): Pick<WhyAnswer, "reason" | "message" | "cure"> => ({
    reason: verdict?.reason ?? "",
    message: verdict?.message ?? "",
    cure: verdict?.cure ?? "",
  });
  const whyPod = (task: Task): Verdict | undefined => {
    if (task.status === "gated") return explainGates([task]);
    if (task.status !== "pending") return undefined;
    if (task.job !== undefined) return verdictOf(task.job);
    return missing.find((each) => each.tasks.includes(task))?.verdict ?? explainForeign(task);
  };
  for (const task of tasks) {
    const where = task.holdings[0]?.node.name;
    answers.push({
      name: task.key,
      kind: "Pod",
      state: where === undefined ? task.status : `${task.status} on ${where}`,
      ...wordsOf(whyPod(task)),
      next: task.status === "pending" ? nextOf(task.job, task) : "",
    });
  }
  for (const job of jobs) {
    answers.push({
      name: job.isGroup ? job.id : `${job.namespace}/${job.name}`,
      kind: "PodGroup",
      state: `${job.allocatedCount} of ${job.tasks.size} pods have a place, ${job.pendingCount} wait`,
      ...wordsOf(verdictOf(job)),
      next: nextOf(job),
    });
  }
  for (const { id, tasks: waiting, verdict } of missing) {
    const [bare = ""] = id.split(" ");
    if (waiting[0]?.waitsForGroup === undefined || (bare !== name && bare.split("/")[1] !== name)) continue;
    const state = `does not exist, ${waiting.length} pods wait for it`;
    answers.push({ name: bare, kind: "PodGroup", state, ...wordsOf(verdict), next: "" });
  }
  return answers;
}

/** ConfigMaps that could not be listed and may keep the pod pending. */
function proviso({ configMaps }: Cluster, { shape, namespace }: Task): string {
  if (configMaps !== undefined || shape.configMaps.length === 0) return "";
  return `, if ${shape.configMaps.map((name) => `ConfigMap ${namespace}/${name}`).join(" and ")} exist, which is not known here`;
}

/** A scheduler of another program may serve the pod, or the name is a typing error. */
function explainForeign({ pod }: Task): Verdict {
  const name = pod.spec?.schedulerName ?? "";
  return {
    reason: "NoGroup",
    message: `its schedulerName is ${name}, and Muster serves ${kaiSchedulerName} and ${defaultSchedulerName}`,
    cure: `start a scheduler named ${name}, or create the pod again with schedulerName ${kaiSchedulerName}`,
  };
}

function namesOf({ id, name, namespace, owner }: Job): string[] {
  const owners = (owner.metadata.ownerReferences ?? []).filter(({ kind }) => kind !== "Pod").map((each) => each.name);
  return [id, name, `${namespace}/${name}`, ...owners, ...owners.map((each) => `${namespace}/${each}`)];
}

import { assert } from "../../../model/assert.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { annotationKeys } from "../../../model/scheduling/keys.ts";
import {
  nonPreemptiblePriority,
  type PodGroup,
  type PodGroupSpec,
  type SubGroup,
  type TopologyConstraint,
} from "../../../model/scheduling/podGroup.ts";
import { durationToMs } from "../../../model/values/goDuration.ts";
import { timeToMs } from "../../../model/values/time.ts";
import type { Step } from "../placement/gangSteps.ts";
import type { QueueState } from "../queues/queueTree.ts";
import { type Vector, zeroVector } from "./resources.ts";
import {
  compareTasks,
  isAliveStatus,
  isAllocatedStatus,
  isUsedStatus,
  noTasks,
  type Task,
  type TaskStatus,
} from "./task.ts";

/** Pods of one subgroup, or all pods of a job without subgroups. */
export class PodSet {
  readonly name: string;
  readonly min: number;
  readonly tasks = new Set<Task>();
  /** How many of its pods have which status. */
  private readonly counts = noTasks();
  /** Pods that have a node and keep it. */
  allocated = 0;
  /** Pods that have a node, terminating pods included. */
  used = 0;
  /** Pods that run or may run. */
  alive = 0;
  /** Pending pods, and gated pods. */
  pending = 0;
  private gated = 0;
  /** The step of its only pod, for placement. */
  stepAlone: Step | undefined;
  private ordered: Task[] | undefined;

  constructor(name: string, min: number) {
    this.name = name;
    this.min = min;
  }

  add(task: Task): void {
    this.tasks.add(task);
    this.ordered = undefined;
    this.stepAlone = undefined;
    this.shift(task.status, 1);
  }

  remove(task: Task): void {
    if (!this.tasks.delete(task)) return;
    this.ordered = undefined;
    this.stepAlone = undefined;
    this.shift(task.status, -1);
  }

  shift(status: TaskStatus, by: number): void {
    this.counts[status] += by;
    assert(this.counts[status] >= 0, () => `pod set ${this.name} has ${this.counts[status]} pods that are ${status}`);
    if (isAllocatedStatus[status]) this.allocated += by;
    if (isUsedStatus[status]) this.used += by;
    if (isAliveStatus[status]) this.alive += by;
    if (status === "pending") this.pending += by;
    else if (status === "gated") this.gated += by;
  }

  countOf(status: TaskStatus): number {
    return this.counts[status];
  }

  /** In the order in which they are placed. */
  inOrder(): readonly Task[] {
    this.ordered ??= [...this.tasks].sort(compareTasks);
    return this.ordered;
  }

  /** Pods that exist and are not gated. */
  get ready(): number {
    return this.alive - this.gated;
  }
}

/** A subgroup in the tree of a job: of pods, or of other subgroups. */
export interface GroupNode {
  readonly name: string;
  readonly podSet: PodSet | undefined;
  readonly children: readonly GroupNode[];
  /** How many children must be satisfied. */
  readonly minChildren: number;
  readonly topology: TopologyConstraint | undefined;
}

const defaultPodSet = "default";

/** A workload: pods that are placed together, in a queue, with a priority. */
export class Job {
  readonly id: string;
  /** The group, or for a pod without one the pod itself. */
  owner: PodGroup | Pod;
  uid: string;
  readonly isGroup: boolean;
  createdMs: number;
  readonly tasks = new Set<Task>();
  root: GroupNode;
  podSets: readonly PodSet[];
  spec: PodGroupSpec;
  queueName: string;
  queue: QueueState | undefined;
  priority: number;
  /** False for `preemptionPolicy: Never`: the job preempts no job of its queue. */
  mayPreempt = true;
  allocated: Vector = zeroVector();
  /** Of that, GPUs by type. */
  readonly allocatedByType = new Map<string, number>();
  /** The requests of its pending pods; undefined until it is computed again. */
  pendingVector: Vector | undefined;
  /** The number of the last order of jobs without a queue that contained it. */
  lineNumber = 0;
  /** Pods whose subgroup does not exist in the group. */
  readonly strays = new Set<Task>();

  constructor(id: string, owner: PodGroup | Pod, isGroup: boolean, spec: PodGroupSpec, priority: number) {
    this.id = id;
    this.owner = owner;
    this.uid = owner.metadata.uid;
    this.createdMs = timeToMs(owner.metadata.creationTimestamp) ?? 0;
    this.isGroup = isGroup;
    this.spec = spec;
    this.queueName = spec.queue ?? "";
    this.priority = priority;
    this.root = gangTree(spec);
    this.podSets = podSetsOf(this.root);
  }

  get namespace(): string {
    return this.owner.metadata.namespace ?? "";
  }

  get name(): string {
    return this.owner.metadata.name;
  }

  setOwner(owner: PodGroup | Pod): void {
    this.owner = owner;
    this.uid = owner.metadata.uid;
    this.createdMs = timeToMs(owner.metadata.creationTimestamp) ?? 0;
  }

  get isPreemptible(): boolean {
    const { preemptibility } = this.spec;
    if (preemptibility === "preemptible") return true;
    if (preemptibility === "non-preemptible") return false;
    return this.priority < nonPreemptiblePriority;
  }

  get pendingCount(): number {
    let sum = 0;
    for (const set of this.podSets) sum += set.pending;
    return sum;
  }

  /** A pending pod whose subgroup does not exist: it is never placed, and gets a condition. */
  get waitingStray(): Task | undefined {
    if (this.strays.size === 0) return undefined;
    for (const task of this.strays) if (task.status === "pending") return task;
    return undefined;
  }

  get allocatedCount(): number {
    let sum = 0;
    for (const set of this.podSets) sum += set.allocated;
    return sum;
  }

  annotationMs(key: string): number | undefined {
    return timeToMs(this.owner.metadata.annotations?.[key]);
  }

  get lastStartMs(): number | undefined {
    return this.annotationMs(annotationKeys.lastStart);
  }

  /** The time since which it runs below its minimum (`lastStaleTimestamp`). */
  get staleSinceMs(): number | undefined {
    return this.annotationMs(annotationKeys.staleSince);
  }

  /** The same for subgroups beyond the required ones, by name. */
  get staleSubGroupsSinceMs(): ReadonlyMap<string, number> {
    return staleSubGroupsOf(this.owner.metadata.annotations);
  }

  get stalenessGraceMs(): number | undefined {
    return durationToMs(this.spec.stalenessGracePeriod);
  }

  /** The end of `preemptionDelay`: the job preempts no pod before. */
  get preemptsFromMs(): number {
    const delayMs = durationToMs(this.spec.preemptionDelay) ?? 0;
    if (delayMs <= 0) return 0;
    return Math.max(this.createdMs, this.annotationMs(annotationKeys.lastEviction) ?? 0) + delayMs;
  }

  /** Rebuilds the tree for a changed spec and adds the pods to it again. */
  reshape(spec: PodGroupSpec): void {
    this.spec = spec;
    this.queueName = spec.queue ?? "";
    this.root = gangTree(spec);
    this.podSets = podSetsOf(this.root);
    this.strays.clear();
    for (const task of this.tasks) this.addTask(task);
    this.pendingVector = undefined;
  }

  /** Adds a pod to its pod set. */
  addTask(task: Task): void {
    const name = (this.spec.subGroups?.length ?? 0) === 0 ? defaultPodSet : task.subGroupName;
    task.podSet = this.podSets.find((set) => set.name === name);
    if (task.podSet === undefined) this.strays.add(task);
    else task.podSet.add(task);
  }

  removeTask(task: Task): void {
    task.podSet?.remove(task);
    task.podSet = undefined;
    this.strays.delete(task);
  }
}

/** The tree that the spec describes; without subgroups, one pod set. */
export function gangTree(spec: PodGroupSpec): GroupNode {
  const subGroups = spec.subGroups ?? [];
  const topology = spec.topologyConstraint;
  if (subGroups.length === 0) {
    const podSet = new PodSet(defaultPodSet, spec.minMember ?? 1);
    return { name: defaultPodSet, podSet, children: [], minChildren: 0, topology };
  }
  const childrenOf = new Map<string, SubGroup[]>();
  for (const group of subGroups) {
    const parent = group.parent ?? "";
    childrenOf.set(parent, [...(childrenOf.get(parent) ?? []), group]);
  }
  const build = (group: SubGroup, depth: number): GroupNode => {
    // Admission refuses cycles; an object that was stored without admission must not cause an endless recursion.
    const below = depth > subGroups.length ? [] : (childrenOf.get(group.name) ?? []);
    const own = group.topologyConstraint ?? undefined;
    if (below.length === 0) {
      const podSet = new PodSet(group.name, group.minMember ?? 1);
      return { name: group.name, podSet, children: [], minChildren: 0, topology: own };
    }
    const children = below.map((child) => build(child, depth + 1));
    return {
      name: group.name,
      podSet: undefined,
      children,
      minChildren: group.minSubGroup ?? children.length,
      topology: own,
    };
  };
  const children = (childrenOf.get("") ?? []).map((child) => build(child, 0));
  return { name: "", podSet: undefined, children, minChildren: spec.minSubGroup ?? children.length, topology };
}

export function podSetsOf(node: GroupNode): PodSet[] {
  return node.podSet !== undefined ? [node.podSet] : node.children.flatMap(podSetsOf);
}

export function staleSubGroupsOf(
  annotations: Readonly<Record<string, string>> | undefined,
): ReadonlyMap<string, number> {
  const since = new Map<string, number>();
  for (const each of annotations?.[annotationKeys.staleSubGroups]?.split(",") ?? []) {
    const [name = "", time] = each.split("=");
    const ms = timeToMs(time);
    if (ms !== undefined) since.set(name, ms);
  }
  return since;
}

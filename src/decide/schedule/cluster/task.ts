import type { Pod } from "../../../model/kubernetes.generated.ts";
import { gpuMilliOf } from "../../../model/scheduling/gpuRequest.ts";
import { annotationKeys, isReservationPod, labelKeys } from "../../../model/scheduling/keys.ts";
import { timeToMs } from "../../../model/values/time.ts";
import type { Verdict } from "../explain/verdict.ts";
import type { ChosenVolumes } from "../volumes/volumeChoices.ts";
import type { Job, PodSet } from "./job.ts";
import type { Holder, Holding } from "./nodeState.ts";
import type { PodShape } from "./podShape.ts";
import type { Vector } from "./resources.ts";

/** The status of a pod in the scheduler. `allocated` and `pipelined` exist only within a cycle. */
export type TaskStatus =
  | "pending"
  | "gated"
  | "allocated"
  | "pipelined"
  | "binding"
  | "bound"
  | "running"
  | "releasing"
  | "stuck"
  | "succeeded"
  | "failed"
  | "unknown";

/** The pod has a node and keeps it. */
export const isAllocatedStatus: Readonly<Record<TaskStatus, boolean>> = statuses(
  "allocated",
  "pipelined",
  "binding",
  "bound",
  "running",
);

/** The pod has a node, also while it is terminating. */
export const isUsedStatus: Readonly<Record<TaskStatus, boolean>> = statuses(
  "allocated",
  "pipelined",
  "binding",
  "bound",
  "running",
  "releasing",
  "stuck",
);

/** The pod runs or may run. */
export const isAliveStatus: Readonly<Record<TaskStatus, boolean>> = statuses(
  "allocated",
  "pipelined",
  "binding",
  "bound",
  "running",
  "pending",
  "gated",
);

function statuses(...which: TaskStatus[]): Record<TaskStatus, boolean> {
  const all = Object.keys(noTasks()) as TaskStatus[];
  return Object.fromEntries(all.map((status) => [status, which.includes(status)])) as Record<TaskStatus, boolean>;
}

/** A count for each status, all zero. */
export function noTasks(): Record<TaskStatus, number> {
  return {
    pending: 0,
    gated: 0,
    allocated: 0,
    pipelined: 0,
    binding: 0,
    bound: 0,
    running: 0,
    releasing: 0,
    stuck: 0,
    succeeded: 0,
    failed: 0,
    unknown: 0,
  };
}

/** The node of a pod, bound or decided. */
export interface Place {
  readonly node: string;
  /** The groups whose GPUs it shares there. */
  readonly groups: readonly string[];
  /** Claim to volume, by name, for claims that waited for the node. */
  readonly volumes?: ChosenVolumes;
}

/** A pod that is bound and has no group labels yet is on one node, with the groups of its intent. */
export function onePerNode(places: readonly Place[]): readonly Place[] {
  if (places.length < 2) return places;
  const byNode = new Map<string, Place>();
  for (const place of places) {
    const known = byNode.get(place.node);
    if (known === undefined || place.groups.length > known.groups.length) byNode.set(place.node, place);
  }
  return [...byNode.values()];
}

/** A pod with its derived state. */
export class Task implements Holder {
  readonly uid: string;
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly isReservation: boolean;
  readonly isForeign: boolean;
  readonly createdMs: number;
  pod: Pod;
  shape: PodShape;
  status: TaskStatus = "unknown";
  holdings: readonly Holding[] = [];
  /** Its nodes by the assume cache. */
  places: readonly Place[] = [];
  /** An eviction of the pod is in flight. */
  isBeingEvicted = false;
  job: Job | undefined;
  /** The key of its group, if that does not exist. */
  waitsForGroup: string | undefined;
  podSet: PodSet | undefined;
  /** The amounts that its queue counts for it. */
  counted: Vector | undefined;
  /** The type of the GPUs in it. */
  countedType = "";
  /** The last verdict about the pod while it was pending without a gang, and the explanation it was made from. */
  lastVerdict: { readonly about: object; readonly verdict: Verdict } | undefined;

  constructor(pod: Pod, shape: PodShape, isForeign: boolean) {
    this.uid = pod.metadata.uid;
    this.namespace = pod.metadata.namespace ?? "";
    this.name = pod.metadata.name;
    this.key = `${this.namespace}/${this.name}`;
    this.pod = pod;
    this.shape = shape;
    this.isReservation = isReservationPod(pod);
    this.isForeign = isForeign;
    this.createdMs = timeToMs(pod.metadata.creationTimestamp) ?? 0;
  }

  get groupName(): string | undefined {
    return this.pod.metadata.annotations?.[annotationKeys.podGroup];
  }

  get subGroupName(): string {
    return this.pod.metadata.labels?.[labelKeys.subGroup] ?? "";
  }
}

/** The amounts that a pod counts for in its queue. GPU memory is counted as a portion of a device of this memory. */
export function queueVector(shape: PodShape, deviceMemoryMiB: number, claimedGpus = 0): Vector {
  return [
    gpuMilliOf(shape.gpu, deviceMemoryMiB) + (shape.migGpus + claimedGpus) * 1000,
    shape.cpuMilli,
    shape.memoryBytes,
  ];
}

/** Masters and heads first, then the higher priority label, then the older pod. */
export function compareTasks(a: Task, b: Task): number {
  return (
    roleRank(a) - roleRank(b) ||
    comparePriorities(priorityOf(a), priorityOf(b)) ||
    a.createdMs - b.createdMs ||
    (a.uid < b.uid ? -1 : a.uid > b.uid ? 1 : 0)
  );
}

const firstRoles = new Set(["master", "launcher", "chief"]);

function roleRank({ pod: { metadata } }: Task): number {
  const { labels } = metadata;
  if (labels === undefined) return 1;
  const role = labels["training.kubeflow.org/replica-type"] ?? labels["training.kubeflow.org/job-role"];
  if (role !== undefined) return firstRoles.has(role.toLowerCase()) ? 0 : 1;
  return labels["ray.io/node-type"] === "head" ? 0 : 1;
}

/** Pods with the label before those without; of those with the label, an invalid number last. */
function comparePriorities(a: number | undefined, b: number | undefined): number {
  if (a === b) return 0;
  if (a === undefined) return 1;
  if (b === undefined) return -1;
  return b - a;
}

function priorityOf({ pod }: Task): number | undefined {
  const text = pod.metadata.labels?.[labelKeys.taskPriority];
  if (text === undefined) return undefined;
  return /^[-+]?[0-9]{1,15}$/.test(text) ? Number(text) : Number.NEGATIVE_INFINITY;
}

/** The status of a pod by its object and its places. Without a time, a stuck pod stays stuck. */
export function statusOf(task: Task, nowMs: number | undefined, stuckMs: number): TaskStatus {
  const { metadata, spec, status } = task.pod;
  if (status?.phase === "Succeeded") return "succeeded";
  if (status?.phase === "Failed") return "failed";
  const isPlaced = task.places.length > 0;
  if (metadata.deletionTimestamp !== undefined || task.isBeingEvicted) {
    const endMs = timeToMs(metadata.deletionTimestamp);
    const isStuck = endMs !== undefined && nowMs !== undefined && nowMs > endMs + stuckMs;
    if (isStuck || (nowMs === undefined && task.status === "stuck")) return "stuck";
    return "releasing";
  }
  if (spec?.nodeName !== undefined && spec.nodeName !== "") return status?.phase === "Running" ? "running" : "bound";
  if (isPlaced) return "binding";
  if ((spec?.schedulingGates?.length ?? 0) > 0) return "gated";
  return status?.phase === undefined || status.phase === "Pending" ? "pending" : "unknown";
}

/** The pod is bound. A pod that is still being bound is not evicted: it would be bound after the eviction. */
export function isEvictable({ status }: Task): boolean {
  return status === "running" || status === "bound";
}
